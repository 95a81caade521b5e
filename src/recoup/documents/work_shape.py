"""Work as people write it: what work of every kind has."""

from __future__ import annotations

from types import new_class
from typing import Annotated, Any, cast

from pydantic import AfterValidator, Field

from recoup.model.plan import Check
from recoup.shapes.forms import VariableName, carried
from recoup.shapes.later import Later
from recoup.shapes.shape import AnyText, Shape
from recoup.steps.kind import StepKind
from recoup.steps.kind_shape import KindShape

CHECKS_MAX = 100
VARIABLES_MAX = 1_000

OWN_ENVIRONMENT = frozenset(
    f"RECOUP_{name}"
    for name in (
        *("RUN_ID", "STEP_ID", "ATTEMPT", "IDEMPOTENCY_KEY"),
        *("OUTPUT", "RETRY_CONTEXT", "PROGRESS", "RESET"),
    )
)
SECRETS_PREFIX = "RECOUP_VALUE_"
"""How the variables begin in which secret values reach a script."""

TITLE = Field("", description="For people.", examples=["Get the invoices"])


def _not_own(name: str) -> str:
    if name in OWN_ENVIRONMENT or name.startswith(SECRETS_PREFIX):
        raise ValueError("is set by Recoup for every step: choose another name")
    return name


def _checks() -> Any:
    from recoup.documents.check_shape import CheckShape

    return CheckShape


class Work(KindShape):
    """What a step and a handler have in common."""

    title: AnyText = TITLE
    expect: list[Annotated[Any, Later(_checks)]] = Field(
        [],
        max_length=CHECKS_MAX,
        description="What must hold afterwards; it is done only then.",
        examples=[[{"file": "out/invoices.json"}, {"stdout": "fetched"}]],
    )
    env: dict[
        Annotated[VariableName, AfterValidator(_not_own)], Annotated[AnyText, AfterValidator(carried)]
    ] = Field(
        {},
        max_length=VARIABLES_MAX,
        description="More environment variables.",
        examples=[{"LANG": "C.UTF-8"}],
    )

    def checks(self) -> tuple[Check, ...]:
        return tuple(_check(shape) for shape in self.expect)


def _check(shape: Any) -> Check:
    check: Check = shape.value()
    return check


def composed(kind: StepKind[Any], own: type[KindShape], common: type[Shape], part: str) -> type[Shape]:
    """The keys of a kind with those that all steps, or all handlers, have."""
    made = {
        "__module__": __name__,
        "__doc__": f"A {part.lower()} that {own.phrase}.",
        "kind": kind,
    }
    name = f"{kind.key.capitalize()}{part}Shape"
    return cast(type[Shape], new_class(name, (own, common), exec_body=lambda body: body.update(made)))
