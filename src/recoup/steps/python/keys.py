"""`python:` as people write it, with its arguments under `with`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from recoup.model.plan import PythonAction
from recoup.shapes.forms import ArgumentName, FunctionName
from recoup.shapes.json_values import exact
from recoup.steps.kind_shape import KindShape

ARGUMENTS_MAX = 100


class PythonKeys(KindShape):
    phrase = "calls a Python function"
    elsewhere: ClassVar = {"with": "is for `python` only: use `env` here"}
    python: FunctionName = Field(
        description="A function to call in a process of its own, as module:function.",
        examples=["invoices.totals:compute"],
    )
    arguments: dict[ArgumentName, Annotated[Any, exact("write it as text")]] = Field(
        {},
        alias="with",
        max_length=ARGUMENTS_MAX,
        description="Its arguments by name, each any JSON value.",
        examples=[{"count": "${{ steps.fetch.outputs.count }}", "currencies": ["EUR", "USD"]}],
    )

    def action(self) -> PythonAction:
        return PythonAction(self.python, dict(self.arguments))
