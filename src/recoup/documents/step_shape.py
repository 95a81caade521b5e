"""A step as people write it: one of `run`, `python`, `agent`, `browser` and `approve` says of what kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import AfterValidator, Field, Tag

from recoup.documents.forms import FieldName, StepId
from recoup.documents.handler_shape import Handlers, HandlerShape
from recoup.documents.heal_shape import HEAL_EXAMPLES, AnyHeal, heal_value
from recoup.documents.limits_shape import LimitsShape
from recoup.documents.output_shape import OutputShape
from recoup.documents.shape import TAG, AnyText, Shape, Text, branch
from recoup.documents.work_shape import TITLE, AgentWork, BrowserWork, PythonWork, RunWork, Work
from recoup.model.plan import (
    NEVER_REPEATED,
    ApproveAction,
    Handler,
    Limits,
    Output,
    Rebuild,
    Repeat,
    Step,
)
from recoup.model.target import Heal

OUTPUTS_MAX = 100
MESSAGE_CHARS_MAX = 4_000
STEP_KINDS = ("run", "python", "agent", "browser", "approve")


class StepKeys(Shape):
    """What every step has."""

    kind: ClassVar[str]

    id: StepId | None = Field(
        None, description="Unique in the plan. Default: step-1, step-2 and so on.", examples=["fetch"]
    )
    when: Text | None = Field(
        None, description="The step is skipped unless this holds.", examples=["${{ inputs.deploy }} == yes"]
    )


class WorkStepShape(Work, LimitsShape, StepKeys):
    """A step in which Recoup does something, and may have to do it again."""

    outputs: dict[FieldName, OutputShape] = Field(
        {},
        max_length=OUTPUTS_MAX,
        description="Values for later steps: ${{ steps.ID.outputs.NAME }}.",
        examples=[{"count": {"json": "out/invoices.json", "path": "count"}}],
    )
    repeat: Literal["safe", "never"] | None = Field(
        None,
        description="Whether the step may run again when nobody knows how it ended. Default: safe; never where a "
        "browser clicks, presses, uploads or downloads.",
        examples=["never"],
    )
    rebuild: Literal["checkpoint", "rerun"] = Field(
        "checkpoint",
        description="rerun: after a restore run the step again, as a checkpoint cannot hold what it made.",
        examples=["rerun"],
    )
    rescue: Handlers | None = Field(
        None,
        description="What to do when every attempt has failed; one that passes may recover the step.",
        examples=[[{"run": "./restore-backup.sh"}]],
    )
    on_empty: Handlers | None = Field(
        None,
        description="What to do when the step ended well with nothing to show.",
        examples=[[{"run": "./notify.sh nothing new"}]],
    )
    always: Handlers | None = Field(
        None,
        description="What to do after the step, however it ended.",
        examples=[[{"run": "docker compose down"}]],
    )

    def value(self, number: int) -> Step:
        step = Step(
            id=self.id or default_id(number),
            action=self.action(),
            title=self.title,
            expect=self.checks(),
            outputs={name: _output(shape) for name, shape in self.outputs.items()},
            env=dict(self.env),
            when=self.when,
            repeat=self.usual_repeat() if self.repeat is None else Repeat(self.repeat),
            rebuild=Rebuild(self.rebuild),
            rescue=_handlers(self.rescue),
            on_empty=_handlers(self.on_empty),
            always=_handlers(self.always),
        )
        # Left out when it says nothing, as in a step made without limits: both have one digest.
        return step if (limits := self.limits()) == Limits() else msgspec.structs.replace(step, limits=limits)

    def usual_repeat(self) -> Repeat:
        """Where the plan does not say."""
        return Repeat.SAFE


def default_id(number: int) -> str:
    return f"step-{number}"


def _output(shape: Any) -> Output:
    output: Output = shape.value()
    return output


def _handlers(shapes: Sequence[HandlerShape] | None) -> tuple[Handler, ...]:
    return tuple(shape.value() for shape in shapes or ())


class RunStepShape(RunWork, WorkStepShape):
    """A step that runs a command."""


class PythonStepShape(PythonWork, WorkStepShape):
    """A step that calls a Python function."""


class AgentStepShape(AgentWork, WorkStepShape):
    """A step that asks a coding agent."""


class BrowserStepShape(BrowserWork, WorkStepShape):
    """A step that does one thing in the run's browser."""

    heal: AnyHeal | None = Field(
        None,
        description="What to do where its target is not as it was. Default: as the plan says.",
        examples=HEAL_EXAMPLES,
    )

    def value(self, number: int) -> Step:
        step, heal = super().value(number), heal_value(self.heal)
        return step if heal == Heal() else msgspec.structs.replace(step, heal=heal)

    def usual_repeat(self) -> Repeat:
        return Repeat.NEVER if self.browser.verb in NEVER_REPEATED else Repeat.SAFE


def _brief(message: str) -> str:
    if len(message) > MESSAGE_CHARS_MAX:
        raise ValueError(f"is longer than {MESSAGE_CHARS_MAX:,} characters: ask more briefly")
    return message


Message = Annotated[Text, AfterValidator(_brief)]


class ApproveShape(Shape):
    message: Message = Field(
        description="What an operator is asked to approve.", examples=["Release to the bank?"]
    )


class ApproveStepShape(StepKeys):
    """A step that waits until an operator approves or rejects."""

    kind = "approve"
    title: AnyText = TITLE
    approve: Annotated[
        Annotated[ApproveShape, Tag(TAG + "approve")] | Annotated[Message, Tag(TAG + "text")],
        branch(lambda value: TAG + ("approve" if isinstance(value, dict) else "text")),
    ] = Field(
        description="What an operator is asked; the run waits for the answer.",
        examples=["Release to the bank?", {"message": "Release to the bank?"}],
    )

    def value(self, number: int) -> Step:
        message = self.approve if isinstance(self.approve, str) else self.approve.message
        return Step(
            id=self.id or default_id(number), action=ApproveAction(message), title=self.title, when=self.when
        )


def _which_step(value: Any) -> str:
    """Without any kind it counts as `run`, so that everything else in it is looked at too."""
    given = [kind for kind in STEP_KINDS if isinstance(value, dict) and kind in value]
    return f"{TAG}step-{given[0] if given else 'run'}"


StepShape = Annotated[
    Annotated[RunStepShape, Tag(TAG + "step-run")]
    | Annotated[PythonStepShape, Tag(TAG + "step-python")]
    | Annotated[AgentStepShape, Tag(TAG + "step-agent")]
    | Annotated[BrowserStepShape, Tag(TAG + "step-browser")]
    | Annotated[ApproveStepShape, Tag(TAG + "step-approve")],
    branch(_which_step),
]
