"""`json:` checks: a value inside a JSON file, which must exist, or equal another."""

from __future__ import annotations

from typing import Any

import msgspec

from recoup.checks.files import json_value
from recoup.checks.kind import Absent, CheckKind, Shapes, Surroundings
from recoup.checks.spots import Fill, Spot
from recoup.checks.text_match import quoted
from recoup.kernel.canonical import canonical_json
from recoup.model.plan import JsonCheck


class JsonKind(CheckKind[JsonCheck]):
    any_json = ("equals",)

    def make_shapes(self) -> Shapes:
        from typing import Annotated

        from pydantic import Field

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import JsonPath
        from recoup.shapes.json_values import exact
        from recoup.shapes.shape import Text

        class JsonShape(CheckShape):
            file: Text = Field(
                alias="json", description="A JSON file, relative to the workspace.", examples=["out.json"]
            )
            path: JsonPath = Field(
                description="The way to a value in it, which must exist.", examples=["count", "items[0].name"]
            )
            equals: Annotated[Any, exact("compare it as text")] = Field(
                None, description="What the value must be.", examples=[3, "done", None]
            )

            def value(self) -> JsonCheck:
                equals = self.equals if "equals" in self.model_fields_set else msgspec.UNSET
                return JsonCheck(self.file, self.path, equals)

        return Shapes({"json": JsonShape})

    def words(self, check: JsonCheck) -> str:
        return f"json: {check.file} {check.path}"

    def filled(self, check: JsonCheck, fill: Fill) -> JsonCheck:
        equals = check.equals if check.equals is msgspec.UNSET else fill(check.equals, Spot.VALUE)
        return JsonCheck(fill(check.file, Spot.TEXT), fill(check.path, Spot.TEXT), equals)

    async def examine(self, check: JsonCheck, around: Surroundings) -> str:
        value = json_value(around.scene.cwd, check.file, check.path)
        if check.equals is not msgspec.UNSET and not _equal(value, check.equals):
            raise Absent(f"{check.path} is {quoted(value)}, wanted {quoted(check.equals)}")
        return f"{check.path} is {quoted(value)}"


def _equal(one: Any, other: Any) -> bool:
    """As JSON values: the order of keys and the spelling of numbers do not matter, true is not 1."""
    try:
        return canonical_json(one) == canonical_json(other)
    except ValueError:
        return type(one) is type(other) and bool(one == other)  # numbers that canonical JSON has no form for


CHECK = JsonKind()
