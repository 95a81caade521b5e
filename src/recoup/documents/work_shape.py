"""Work as people write it: what work of every kind has, and `run`, the one that nearly every plan has."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from recoup.documents.forms import Command, VariableName, carried, command_value
from recoup.documents.later import Later
from recoup.documents.shape import AnyText, Shape
from recoup.model.plan import AgentAction, BrowserAction, Check, PythonAction, RunAction

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


class Work(Shape):
    """What a step and a handler have in common."""

    kind: ClassVar[str]
    """The key that says what to do."""

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

    @abstractmethod
    def action(self) -> RunAction | PythonAction | AgentAction | BrowserAction: ...

    def checks(self) -> tuple[Check, ...]:
        return tuple(_check(shape) for shape in self.expect)


def _check(shape: Any) -> Check:
    check: Check = shape.value()
    return check


class RunWork(Work):
    kind = "run"
    run: Command = Field(
        description="A shell script (bash -e), or a list: a program and its arguments.",
        examples=["./fetch.sh ${{ inputs.customer }}", ["python3", "fetch.py"]],
    )

    def action(self) -> RunAction:
        return RunAction(command_value(self.run))
