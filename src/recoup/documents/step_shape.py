"""A step as people write it, and the limits that a plan or a step may set."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from recoup.documents.check_shape import CheckShape
from recoup.documents.durations import DURATION_MAX_S, PATTERN, duration_s
from recoup.documents.forms import Command, FieldName, StepId, VariableName, carried, command_value
from recoup.documents.output_shape import OutputShape
from recoup.documents.shape import AnyText, Shape, Text
from recoup.model.plan import Check, Limits, Output, Rebuild, Repeat, RunAction, Step
from recoup.model.policy import IdleBy

CHECKS_MAX = 100
OUTPUTS_MAX = 100
VARIABLES_MAX = 1_000
ATTEMPTS_MAX = 100
OWN_ENVIRONMENT = frozenset(
    f"RECOUP_{name}"
    for name in ("RUN_ID", "STEP_ID", "ATTEMPT", "IDEMPOTENCY_KEY", "OUTPUT", "RETRY_CONTEXT")
)

Duration = Annotated[
    float,
    BeforeValidator(duration_s),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": PATTERN},
                {"type": "number", "exclusiveMinimum": 0, "maximum": DURATION_MAX_S},
            ]
        }
    ),
]


class LimitsShape(Shape):
    timeout: Duration | None = Field(
        None, description="The longest that one attempt may take.", examples=["15m", "1h30m", 90]
    )
    idle_timeout: Duration | None = Field(
        None, description="The longest that one attempt may go without progress.", examples=["5m"]
    )
    max_attempts: int | None = Field(
        None,
        ge=1,
        le=ATTEMPTS_MAX,
        description="Tries of a step in one delivery, the first included.",
        examples=[3],
    )
    no_progress_limit: int | None = Field(
        None,
        ge=2,
        le=ATTEMPTS_MAX,
        description="So many equal failures of a step, the first included, count as stuck.",
        examples=[2],
    )
    idle: Literal["output", "activity"] | None = Field(
        None,
        description="What counts as progress: output only, or also CPU time and writes in the workspace.",
        examples=["activity"],
    )
    polls: bool | None = Field(
        None,
        description="The step waits for something and may fail the same way many times.",
        examples=[True],
    )

    def limits(self) -> Limits:
        return Limits(
            timeout_s=self.timeout,
            idle_timeout_s=self.idle_timeout,
            max_attempts=self.max_attempts,
            no_progress_limit=self.no_progress_limit,
            idle=None if self.idle is None else IdleBy(self.idle),
            polls=self.polls,
        )


def _not_own(name: str) -> str:
    if name in OWN_ENVIRONMENT:
        raise ValueError("is set by Recoup for every step: choose another name")
    return name


class StepShape(LimitsShape):
    id: StepId | None = Field(
        None, description="Unique in the plan. Default: step-1, step-2 and so on.", examples=["fetch"]
    )
    title: AnyText = Field("", description="For people.", examples=["Get the invoices"])
    run: Command = Field(
        description="A shell script (bash -e), or a list: a program and its arguments.",
        examples=["./fetch.sh ${{ inputs.customer }}", ["python3", "fetch.py"]],
    )
    expect: list[CheckShape] = Field(
        [],
        max_length=CHECKS_MAX,
        description="What must hold afterwards; the step is done only then.",
        examples=[[{"file": "out/invoices.json"}, {"stdout": "fetched"}]],
    )
    outputs: dict[FieldName, OutputShape] = Field(
        {},
        max_length=OUTPUTS_MAX,
        description="Values for later steps: ${{ steps.ID.outputs.NAME }}.",
        examples=[{"count": {"json": "out/invoices.json", "path": "count"}}],
    )
    env: dict[
        Annotated[VariableName, AfterValidator(_not_own)], Annotated[AnyText, AfterValidator(carried)]
    ] = Field(
        {},
        max_length=VARIABLES_MAX,
        description="Environment variables of the step.",
        examples=[{"LANG": "C.UTF-8"}],
    )
    when: Text | None = Field(
        None, description="The step is skipped unless this holds.", examples=["${{ inputs.deploy }} == yes"]
    )
    repeat: Literal["safe", "never"] = Field(
        "safe",
        description="Whether the step may run again when nobody knows how it ended.",
        examples=["never"],
    )
    rebuild: Literal["checkpoint", "rerun"] = Field(
        "checkpoint",
        description="rerun: after a restore run the step again, as a checkpoint cannot hold what it made.",
        examples=["rerun"],
    )

    def value(self, number: int) -> Step:
        step = Step(
            id=self.id or default_id(number),
            action=RunAction(command_value(self.run)),
            title=self.title,
            expect=tuple(_check(shape) for shape in self.expect),
            outputs={name: _output(shape) for name, shape in self.outputs.items()},
            env=dict(self.env),
            when=self.when,
            repeat=Repeat(self.repeat),
            rebuild=Rebuild(self.rebuild),
        )
        # Left out when it says nothing, as in a step made without limits: both have one digest.
        return step if (limits := self.limits()) == Limits() else msgspec.structs.replace(step, limits=limits)


def default_id(number: int) -> str:
    return f"step-{number}"


def _check(shape: Any) -> Check:
    check: Check = shape.value()
    return check


def _output(shape: Any) -> Output:
    output: Output = shape.value()
    return output
