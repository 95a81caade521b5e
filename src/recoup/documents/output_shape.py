"""Outputs as people write them: found in a file, in what was printed, or written by the step itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Tag, model_validator

from recoup.model.plan import DeclaredOutput, JsonOutput, RegexOutput, StreamName
from recoup.shapes.forms import JsonPath, Regex
from recoup.shapes.shape import TAG, Shape, Text, branch

_SECRET = Field(False, description="Keep the value encrypted and show it nowhere.", examples=[True])


class JsonOutputShape(Shape):
    file: Text = Field(
        alias="json", description="A JSON file, relative to the workspace.", examples=["out.json"]
    )
    path: JsonPath = Field(description="The way to the value in it.", examples=["count", "items[0].name"])
    secret: bool = _SECRET

    def value(self) -> JsonOutput:
        return JsonOutput(self.file, self.path, self.secret)


class RegexOutputShape(Shape):
    regex: Regex = Field(
        description="A regular expression (RE2 syntax); its first group, or the whole match, is the value.",
        examples=["id: ([0-9]+)"],
    )
    stream: Literal["stdout", "stderr"] | None = Field(
        None, alias="in", description="Where to look. Default: stdout.", examples=["stderr"]
    )
    file: Text | None = Field(None, description="Look in this file instead.", examples=["out/report.txt"])
    secret: bool = _SECRET

    @model_validator(mode="after")
    def _looks_in_one_place(self) -> RegexOutputShape:
        if self.stream is not None and self.file is not None:
            raise ValueError("looks in two places: keep `in` or `file`")
        return self

    def value(self) -> RegexOutput:
        return RegexOutput(self.regex, StreamName(self.stream or "stdout"), self.file, self.secret)


class DeclaredOutputShape(Shape):
    """A name that the step itself writes into the file RECOUP_OUTPUT."""

    secret: bool = _SECRET

    def value(self) -> DeclaredOutput:
        return DeclaredOutput(self.secret)


def _which_output(value: Any) -> str | None:
    if not isinstance(value, dict) or ("json" in value and "regex" in value):
        return None
    return TAG + (
        "output-json" if "json" in value else "output-regex" if "regex" in value else "output-declared"
    )


OutputShape = Annotated[
    Annotated[JsonOutputShape, Tag(TAG + "output-json")]
    | Annotated[RegexOutputShape, Tag(TAG + "output-regex")]
    | Annotated[DeclaredOutputShape, Tag(TAG + "output-declared")],
    branch(_which_output, "which_output"),
]
