"""The limits that a plan or a step may set: made from the fields of `Limits`, written as people write them."""

from __future__ import annotations

from enum import EnumType
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args, get_type_hints

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, create_model, model_validator

from recoup.documents.retry_shape import RetryShape
from recoup.kernel.policies import STEP_KEYS
from recoup.model.plan import Limits
from recoup.model.policy import POLICY_KEYS
from recoup.model.policy_key import StepKey
from recoup.shapes.duration_shape import Duration
from recoup.shapes.shape import Shape, one_of
from recoup.shapes.sizes import PATTERN as SIZE_PATTERN
from recoup.shapes.sizes import SIZE_MAX_BYTES, SIZE_MIN_BYTES, size_bytes

Size = Annotated[
    int,
    BeforeValidator(size_bytes),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN},
                {"type": "integer", "minimum": SIZE_MIN_BYTES, "maximum": SIZE_MAX_BYTES},
            ]
        }
    ),
]
_BY_UNIT: dict[str, Any] = {"s": Duration, "bytes": Size}


def _shape(name: str, kind: Any, key: StepKey) -> Any:
    """By the unit, which is the last word of the name, or by the type."""
    if (written := _BY_UNIT.get(name.rpartition("_")[2])) is not None:
        return written
    if isinstance(kind, EnumType):
        return Annotated[one_of(kind), AfterValidator(kind)]
    low, high = POLICY_KEYS[key.sets].range or (None, None)
    return Annotated[kind, Field(ge=low, le=high)]


def _fields() -> dict[str, Any]:
    hints = get_type_hints(Limits)
    return {
        key.name: (
            _shape(name, get_args(hints[name])[0], key) | None,
            Field(
                None,
                description=key.description or POLICY_KEYS[key.sets].description,
                examples=list(key.examples),
            ),
        )
        for name, key in STEP_KEYS.items()
    }


if TYPE_CHECKING:
    _StepLimits = Shape
else:
    _StepLimits = create_model("StepLimits", __base__=Shape, **_fields())


class LimitsShape(_StepLimits):
    retry: RetryShape | None = Field(
        None,
        description="How often a failed step is tried, how far apart, and after which failures.",
        examples=[{"attempts": 5, "delay": "30s", "backoff": 2}],
    )

    @model_validator(mode="after")
    def _one_number_of_attempts(self) -> Self:
        said = self.limits()
        if said.max_attempts is not None and said.retry is not None and said.retry.attempts is not None:
            raise ValueError("say the number of attempts once: `max_attempts` or `attempts` under `retry`")
        return self

    def limits(self) -> Limits:
        given = {name: getattr(self, key.name) for name, key in STEP_KEYS.items()}
        return Limits(**given, retry=None if self.retry is None else self.retry.value())
