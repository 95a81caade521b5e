"""`approve:` as people write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, Tag

from recoup.model.plan import ApproveAction
from recoup.shapes.shape import TAG, Shape, Text, branch, text_or
from recoup.steps.kind_shape import KindShape

MESSAGE_CHARS_MAX = 4_000


def _brief(message: str) -> str:
    if len(message) > MESSAGE_CHARS_MAX:
        raise ValueError(f"is longer than {MESSAGE_CHARS_MAX:,} characters: ask more briefly")
    return message


Message = Annotated[Text, AfterValidator(_brief)]


class ApproveShape(Shape):
    message: Message = Field(
        description="What an operator is asked to approve.", examples=["Release to the bank?"]
    )


class ApproveKeys(KindShape):
    phrase = "waits until an operator approves or rejects"
    approve: Annotated[
        Annotated[ApproveShape, Tag(TAG + "approve")] | Annotated[Message, Tag(TAG + "text")],
        branch(text_or("approve")),
    ] = Field(
        description="What an operator is asked; the run waits for the answer.",
        examples=["Release to the bank?", {"message": "Release to the bank?"}],
    )

    def action(self) -> ApproveAction:
        return ApproveAction(self.approve if isinstance(self.approve, str) else self.approve.message)

    @classmethod
    def shapes(cls) -> Mapping[str, type[Shape]]:
        return {TAG + "approve": ApproveShape}
