"""A step as people write it: one of `run`, `python`, `agent`, `browser` and `approve` says of what kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import Field, Tag

from recoup.documents.forms import FieldName, StepId
from recoup.documents.later import Later
from recoup.documents.limits_shape import LimitsShape
from recoup.documents.shape import TAG, Shape, Text, branch
from recoup.documents.work_shape import RunWork, Work
from recoup.model.plan import Handler, Limits, Output, Rebuild, Repeat, Step

if TYPE_CHECKING:
    from recoup.documents.handler_shape import HandlerShape

OUTPUTS_MAX = 100
HANDLERS_MAX = 20
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


def _outputs() -> Any:
    from recoup.documents.output_shape import OutputShape

    return OutputShape


def _any_handler() -> Any:
    from recoup.documents.handler_shape import AnyHandler

    return AnyHandler


Handlers = Annotated[list[Annotated[Any, Later(_any_handler)]], Field(min_length=1, max_length=HANDLERS_MAX)]


class WorkStepShape(Work, LimitsShape, StepKeys):
    """A step in which Recoup does something, and may have to do it again."""

    outputs: dict[FieldName, Annotated[Any, Later(_outputs)]] = Field(
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


def _which_step(value: Any) -> str:
    """Without any kind it counts as `run`, so that everything else in it is looked at too."""
    given = [kind for kind in STEP_KINDS if isinstance(value, dict) and kind in value]
    return f"{TAG}step-{given[0] if given else 'run'}"


def _other(name: str) -> Later:
    """A step of another kind, by the name of its shape."""

    def load() -> Any:
        from recoup.documents import other_step_shape

        return getattr(other_step_shape, name)

    return Later(load)


StepShape = Annotated[
    Annotated[RunStepShape, Tag(TAG + "step-run")]
    | Annotated[Any, _other("PythonStepShape"), Tag(TAG + "step-python")]
    | Annotated[Any, _other("AgentStepShape"), Tag(TAG + "step-agent")]
    | Annotated[Any, _other("BrowserStepShape"), Tag(TAG + "step-browser")]
    | Annotated[Any, _other("ApproveStepShape"), Tag(TAG + "step-approve")],
    branch(_which_step),
]
