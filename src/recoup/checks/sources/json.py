"""An output that is a value in a JSON file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recoup.checks.files import json_value
from recoup.checks.sources.kind import OutputSource
from recoup.model.outcome import Scene
from recoup.model.plan import JsonOutput

if TYPE_CHECKING:
    from recoup.checks.sources.source_shape import SourceShape


class JsonSource(OutputSource[JsonOutput]):
    key = "json"
    how = "`path` beside `json: FILE`"

    def make_shape(self) -> type[SourceShape]:
        from pydantic import Field

        from recoup.checks.sources.source_shape import SECRET, SourceShape
        from recoup.shapes.forms import JsonPath
        from recoup.shapes.shape import Text

        class JsonOutputShape(SourceShape):
            file: Text = Field(
                alias="json", description="A JSON file, relative to the workspace.", examples=["out.json"]
            )
            path: JsonPath = Field(
                description="The way to the value in it.", examples=["count", "items[0].name"]
            )
            secret: bool = SECRET

            def value(self) -> JsonOutput:
                return JsonOutput(self.file, self.path, self.secret)

        return JsonOutputShape

    def find(self, output: JsonOutput, scene: Scene) -> Any:
        return json_value(scene.cwd, output.file, output.path)


SOURCE = JsonSource()
