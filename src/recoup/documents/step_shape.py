"""A step as people write it: the keys of its kind, with those that all steps have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import Field

from recoup.documents.by_kind import ByKind
from recoup.documents.limits_shape import LimitsShape
from recoup.documents.work_shape import TITLE, Work, composed
from recoup.model.plan import Handler, Limits, Output, Rebuild, Repeat, Step
from recoup.shapes.forms import FieldName, StepId
from recoup.shapes.later import Later
from recoup.shapes.plan_written import default_id
from recoup.shapes.shape import AnyText, Shape, Text
from recoup.steps.kind import StepKind
from recoup.steps.kind_shape import KindShape

if TYPE_CHECKING:
    from recoup.documents.handler_shape import HandlerShape

OUTPUTS_MAX = 100
HANDLERS_MAX = 20


class StepKeys(Shape):
    """What every step has."""

    kind: ClassVar[StepKind[Any]]

    id: StepId | None = Field(
        None, description="Unique in the plan. Default: step-1, step-2 and so on.", examples=["fetch"]
    )
    when: Text | None = Field(
        None, description="The step is skipped unless this holds.", examples=["${{ inputs.deploy }} == yes"]
    )


class GateShape(KindShape, StepKeys):
    """A step in which a person is asked."""

    title: AnyText = TITLE

    def value(self, number: int) -> Step:
        return Step(id=self.id or default_id(number), action=self.action(), title=self.title, when=self.when)


def _outputs() -> Any:
    from recoup.documents.output_shape import OutputShape

    return OutputShape


def _handler_shape(kind: StepKind[Any]) -> type[Shape] | None:
    from recoup.documents.handler_shape import handler_shape

    return handler_shape(kind)


HANDLERS = ByKind("handler", _handler_shape)
Handlers = Annotated[list[Annotated[Any, HANDLERS]], Field(min_length=1, max_length=HANDLERS_MAX)]


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
        if (limits := self.limits()) != Limits():
            step = msgspec.structs.replace(step, limits=limits)
        return self.completed(step)


def _output(shape: Any) -> Output:
    output: Output = shape.value()
    return output


def _handlers(shapes: Sequence[HandlerShape] | None) -> tuple[Handler, ...]:
    return tuple(shape.value() for shape in shapes or ())


@cache
def step_shape(kind: StepKind[Any]) -> type[Shape]:
    """A whole step of this kind."""
    common = WorkStepShape if kind.is_work else GateShape
    return composed(kind, kind.shape.in_steps(), common, "Step")


STEPS = ByKind("step", step_shape)
StepShape = Annotated[Any, STEPS]
