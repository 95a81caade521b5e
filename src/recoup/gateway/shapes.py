"""The bodies of requests, which are checked against these types. Answers have theirs in `model/answers/`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from recoup.operations.control import ControlAnswerName, ControlName, answering_kinds, beyond_words


def _number(value: Any) -> Any:
    """Neither `true`, which would be 1, nor text."""
    if isinstance(value, bool | str):
        raise ValueError("a number is needed")
    return value


NUMERIC: Final = BeforeValidator(_number)
"""In every field of a request that is a number."""
Reason = Annotated[
    str, Field(min_length=1, max_length=1_000, pattern=r"\S", description="Why; it is recorded.")
]
Name = Annotated[str, Field(min_length=1, max_length=200)]
StepName = Annotated[str, Field(min_length=1, max_length=200)]


class Shape(BaseModel):
    """Unknown keys are an error; names are in camelCase."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class RunRequest(Shape):
    """A plan (one of `plan`, `planPath`, or none with `reuse`) and how it is to be run. A plan is code: whoever may
    submit one may run any command that the workers may."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"planPath": "/srv/plans/invoices.yaml", "inputs": {"customer": "acme"}}]
        }
    )
    plan: (
        Annotated[str, Field(max_length=1_000_000, description="The text of a plan, YAML or JSON.")] | None
    ) = None
    plan_path: (
        Annotated[str, Field(max_length=4_000, description="A plan file where the gateway runs.")] | None
    ) = None
    inputs: Annotated[dict[str, str], Field(max_length=200)] = {}
    queue: Name = "default"
    priority: Annotated[int, Field(ge=-1000, le=1000), NUMERIC] = 0
    needs: Annotated[list[Name], Field(max_length=50)] = []
    delay_s: Annotated[
        float, Field(ge=0, le=31_536_000, description="Not before so many seconds from now."), NUMERIC
    ] = 0
    dedup_key: Name | None = None
    reuse: Annotated[Name, Field(description="Do not repeat what is proven in this run.")] | None = None
    from_step: (
        Annotated[StepName, Field(description="With `reuse`: perform everything from here on.")] | None
    ) = None
    heal: Literal["off", "report", "apply"] | None = None
    reason: Reason | None = None


class ControlRequest(Shape):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"action": "resume_from_step", "stepId": "build", "reason": "operator recovery"}]
        }
    )
    action: ControlName
    reason: Reason
    step_id: StepName | None = None
    as_: ControlAnswerName | None = Field(
        None, alias="as", description=f"For {' and '.join(answering_kinds())}."
    )
    force: Annotated[bool, Field(strict=True, description=f"{beyond_words()}, too.")] = False


class ModeRequest(Shape):
    mode: Literal["running", "degraded", "quarantined", "paused"]
    reason: Reason
    for_s: Annotated[float, Field(gt=0, le=31_536_000, description="How long it lasts."), NUMERIC] | None = (
        None
    )


class SnapshotRequest(Shape):
    reason: Reason


class RollbackRequest(Shape):
    reason: Reason
    version: Annotated[Name, Field(description="Without it, the last lessons are undone.")] | None = None


class AcceptRequest(Shape):
    reason: Reason | None = None
    attempt: Annotated[int, Field(ge=1, le=1_000_000), NUMERIC] | None = None


class RejectRequest(Shape):
    reason: Reason
    attempt: Annotated[int, Field(ge=1, le=1_000_000), NUMERIC] | None = None


class SignIn(Shape):
    token: Annotated[str, Field(min_length=1, max_length=500)]
