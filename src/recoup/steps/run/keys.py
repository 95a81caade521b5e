"""`run:` as people write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from recoup.model.plan import RunAction
from recoup.shapes.forms import Command, command_value
from recoup.steps.kind_shape import KindShape


class RunKeys(KindShape):
    phrase = "runs a command"
    run: Command = Field(
        description="A shell script (bash -e), or a list: a program and its arguments.",
        examples=["./fetch.sh ${{ inputs.customer }}", ["python3", "fetch.py"]],
    )

    def action(self) -> RunAction:
        return RunAction(command_value(self.run))

    @classmethod
    def commands(cls, data: Mapping[str, Any]) -> Mapping[tuple[str, ...], Any]:
        return {("run",): data.get("run")}
