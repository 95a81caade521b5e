"""How often a step is tried, as people write it: `retry: {attempts, delay, backoff, on}`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, Tag, model_validator

from recoup.model.failure import FailureClass, FailureKind
from recoup.model.plan import Retry
from recoup.model.policy import ATTEMPTS_MAX, BACKOFF_FACTOR_MAX
from recoup.shapes.duration_shape import Delay
from recoup.shapes.forms import list_or_text
from recoup.shapes.shape import TAG, Shape, branch

RETRIED = tuple(
    one.value for one in (*FailureClass, *(kind for kind in FailureKind if kind is not FailureKind.CANCELLED))
)
"""What `on` may name."""


def _known(name: str) -> str:
    if name not in RETRIED:
        from recoup.shapes.wording import listed, suggestion

        meant = suggestion(name, RETRIED) or f"the classes are {listed(FailureClass)}"
        raise ValueError(f"is not a kind or class of failure: {meant}")
    return name


RetriedName = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(RETRIED)})]
RetriedNames = Annotated[list[RetriedName], Field(min_length=1, max_length=len(RETRIED))]


class RetryShape(Shape):
    attempts: int | None = Field(
        None,
        ge=1,
        le=ATTEMPTS_MAX,
        description="Attempts of a step in one delivery, the first included.",
        examples=[5],
    )
    delay: Delay | None = Field(None, description="The wait before the second attempt.", examples=["30s"])
    backoff: float | None = Field(
        None,
        ge=1,
        le=BACKOFF_FACTOR_MAX,
        description="What the wait is multiplied by before each further attempt. Default: 1 with `delay`.",
        examples=[2],
    )
    on: (
        Annotated[
            Annotated[Literal["any"], Tag(TAG + "text")] | Annotated[RetriedNames, Tag(TAG + "list")],
            branch(list_or_text),
        ]
        | None
    ) = Field(
        None,
        description="Kinds and classes of failure to retry after; any: all but the deterministic ones.",
        examples=[["transient_runtime", "postcondition_failed"]],
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("must say `attempts`, `delay`, `backoff` or `on`")
        return self

    def value(self) -> Retry:
        on = () if self.on == "any" else self.on
        return Retry(
            attempts=self.attempts,
            delay_s=self.delay,
            backoff=self.backoff,
            on=None if on is None else tuple(on),
        )
