"""Steps of the other kinds as people write them: `python`, `agent`, `browser` and `approve`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from pydantic import AfterValidator, Field, Tag

from recoup.documents.heal_shape import AnyHeal, heal_value
from recoup.documents.other_work_shape import AgentWork, BrowserWork, PythonWork
from recoup.documents.plan_shape import HEAL_EXAMPLES
from recoup.documents.shape import TAG, AnyText, Shape, Text, branch, text_or
from recoup.documents.step_shape import StepKeys, WorkStepShape, default_id
from recoup.documents.work_shape import TITLE
from recoup.model.plan import NEVER_REPEATED, ApproveAction, Repeat, Step
from recoup.model.target import Heal

MESSAGE_CHARS_MAX = 4_000


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
        branch(text_or("approve")),
    ] = Field(
        description="What an operator is asked; the run waits for the answer.",
        examples=["Release to the bank?", {"message": "Release to the bank?"}],
    )

    def value(self, number: int) -> Step:
        message = self.approve if isinstance(self.approve, str) else self.approve.message
        return Step(
            id=self.id or default_id(number), action=ApproveAction(message), title=self.title, when=self.when
        )
