"""An output that an expression finds in what was printed, or in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recoup.checks.files import text_of
from recoup.checks.kind import Absent
from recoup.checks.sources.kind import OutputSource
from recoup.checks.text_match import search
from recoup.model.outcome import Scene
from recoup.model.plan import RegexOutput, StreamName

if TYPE_CHECKING:
    from recoup.checks.sources.source_shape import SourceShape


class RegexSource(OutputSource[RegexOutput]):
    key = "regex"
    how = "a `regex`"

    def make_shape(self) -> type[SourceShape]:
        from typing import Literal

        from pydantic import Field, model_validator

        from recoup.checks.sources.source_shape import SECRET, SourceShape
        from recoup.shapes.forms import Regex
        from recoup.shapes.shape import Text

        class RegexOutputShape(SourceShape):
            regex: Regex = Field(
                description="A regular expression (RE2 syntax); its first group, or the whole match, is the value.",
                examples=["id: ([0-9]+)"],
            )
            stream: Literal["stdout", "stderr"] | None = Field(
                None, alias="in", description="Where to look. Default: stdout.", examples=["stderr"]
            )
            file: Text | None = Field(
                None, description="Look in this file instead.", examples=["out/report.txt"]
            )
            secret: bool = SECRET

            @model_validator(mode="after")
            def _looks_in_one_place(self) -> RegexOutputShape:
                if self.stream is not None and self.file is not None:
                    raise ValueError("looks in two places: keep `in` or `file`")
                return self

            def value(self) -> RegexOutput:
                return RegexOutput(self.regex, StreamName(self.stream or "stdout"), self.file, self.secret)

        return RegexOutputShape

    def reads_printed(self, data: Mapping[str, Any]) -> bool:
        return "file" not in data

    def find(self, output: RegexOutput, scene: Scene) -> Any:
        hit = search(output.regex, _text(output, scene))
        if hit is None:
            raise Absent(f"{output.file or output.stream.value} does not match /{output.regex}/")
        return hit.group(1) if hit.re.groups else hit.group(0)


def _text(output: RegexOutput, scene: Scene) -> str:
    if output.file is not None:
        return text_of(scene.cwd, output.file)
    if scene.outcome is None:
        raise Absent("what the attempt printed is lost")
    return (scene.outcome.stdout if output.stream is StreamName.STDOUT else scene.outcome.stderr).text()


SOURCE = RegexSource()
