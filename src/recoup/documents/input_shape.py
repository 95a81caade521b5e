"""An input of a plan: its default alone, or in full."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag, model_validator

from recoup.kernel.typed_inputs import why_not
from recoup.model.plan import Input, InputType
from recoup.shapes.shape import TAG, AnyText, Shape, branch, text_or


class InputShape(Shape):
    required: bool = Field(False, description="A run cannot begin without it.", examples=[True])
    default: AnyText | None = Field(
        None, description="Its value when a run gives none.", examples=["2026-11"]
    )
    secret: bool = Field(False, description="Keep the value encrypted and show it nowhere.", examples=[True])
    type: Literal["text", "integer", "number", "boolean"] = Field(
        "text",
        description="What a value must look like; any other is refused before the run begins.",
        examples=["integer"],
    )

    @model_validator(mode="after")
    def _default_makes_sense(self) -> InputShape:
        if self.default is not None and self.secret:
            raise ValueError("a secret has no default: remove `default` and pass the value with --input")
        if self.default is not None and self.required:
            raise ValueError("an input with a default is never missing: keep `required` or `default`")
        if self.default is not None and (wrong := why_not(self.default, InputType(self.type))):
            raise ValueError(f"the default {wrong}, as `type: {self.type}` says")
        return self

    def value(self) -> Input:
        return Input(self.required, self.default, self.secret, InputType(self.type))


InputOrDefault = Annotated[
    Annotated[InputShape, Tag(TAG + "input")] | Annotated[AnyText, Tag(TAG + "text")],
    branch(text_or("input")),
]


def input_value(written: InputShape | str) -> Input:
    return Input(default=written) if isinstance(written, str) else written.value()
