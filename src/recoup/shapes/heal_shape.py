"""What a plan or a step says about healing: in a word, or in full."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from recoup.model.target import Heal, HealMode
from recoup.shapes.shape import TAG, Shape, branch, text_or

LEVEL_MAX = 2
Mode = Literal["off", "report", "apply"]


class HealShape(Shape):
    mode: Mode | None = Field(
        None,
        description="What to do where a target is not as it was: nothing, say what would fit, or take it.",
        examples=["apply"],
    )
    max_level: Annotated[int, Field(ge=0, le=LEVEL_MAX)] | None = Field(
        None, description="How far attempts may look: 0 is the strictest.", examples=[2]
    )
    learn: Literal["on_verified", "never"] | None = Field(
        None, description="Whether a heal is remembered once it was verified.", examples=["on_verified"]
    )

    def value(self) -> Heal:
        return Heal(
            None if self.mode is None else HealMode(self.mode),
            self.max_level,
            None if self.learn is None else self.learn == "on_verified",
        )


AnyHeal = Annotated[
    Annotated[HealShape, Tag(TAG + "heal")] | Annotated[Mode, Tag(TAG + "text")], branch(text_or("heal"))
]


def heal_value(written: HealShape | str | None) -> Heal:
    if written is None:
        return Heal()
    return Heal(HealMode(written)) if isinstance(written, str) else written.value()
