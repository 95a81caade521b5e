"""Checks as people write them under `expect`: one of the main keys says which check it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field, Tag, model_validator

from recoup.model.plan import DiffCheck, ExitCheck, FileCheck, JsonCheck, OutputCheck, RunCheck, StreamName
from recoup.shapes.forms import Command, JsonPath, Match, command_value, list_or_text, match_value
from recoup.shapes.json_values import exact
from recoup.shapes.later import Later
from recoup.shapes.page_keys import PAGE_CHECK_KEYS
from recoup.shapes.shape import TAG, Shape, Text, branch

PATHS_MAX = 100
WORK_CHECK_KEYS = ("exit", "file", "stdout", "stderr", "json", "run", "diff")
MAIN_CHECK_KEYS = (*WORK_CHECK_KEYS, *PAGE_CHECK_KEYS)

ExitCode = Annotated[int, Field(ge=0, le=255)]


class ExitShape(Shape):
    exit: Annotated[
        Annotated[ExitCode, Tag(TAG + "text")]
        | Annotated[list[ExitCode], Field(min_length=1, max_length=256), Tag(TAG + "list")],
        branch(list_or_text),
    ] = Field(
        description="The exit code, or the exit codes, that mean success. Default: 0.", examples=[0, [0, 3]]
    )

    def value(self) -> ExitCheck:
        return ExitCheck((self.exit,) if isinstance(self.exit, int) else tuple(self.exit))


class FileShape(Shape):
    file: Text = Field(
        description="A path, relative to the workspace, that must exist.", examples=["out/invoices.json"]
    )
    absent: bool = Field(False, description="The path must not exist instead.", examples=[True])
    contains: Match | None = Field(
        None,
        description="Text that must occur in the file, or {regex: …}.",
        examples=["done", {"regex": "total: [0-9]+"}],
    )

    @model_validator(mode="after")
    def _says_one_thing(self) -> FileShape:
        if self.absent and self.contains is not None:
            raise ValueError("a file that is absent contains nothing: keep `absent` or `contains`")
        return self

    def value(self) -> FileCheck:
        contains = None if self.contains is None else match_value(self.contains)
        return FileCheck(self.file, self.absent, contains)


class StdoutShape(Shape):
    stdout: Match = Field(
        description="Text that the step must print, or {regex: …}.",
        examples=["fetched", {"regex": "[0-9]+ rows"}],
    )

    def value(self) -> OutputCheck:
        return OutputCheck(StreamName.STDOUT, match_value(self.stdout))


class StderrShape(Shape):
    stderr: Match = Field(
        description="Text that the step must print to stderr, or {regex: …}.", examples=["0 warnings"]
    )

    def value(self) -> OutputCheck:
        return OutputCheck(StreamName.STDERR, match_value(self.stderr))


class JsonShape(Shape):
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
        return JsonCheck(
            self.file, self.path, self.equals if "equals" in self.model_fields_set else msgspec.UNSET
        )


class RunShape(Shape):
    run: Command = Field(
        description="A command that must exit with 0: a shell script, or a list of words.",
        examples=["pytest -q", ["pytest", "-q"]],
    )

    def value(self) -> RunCheck:
        return RunCheck(command_value(self.run))


class DiffShape(Shape):
    diff: Literal["nonempty", "empty"] = Field(
        description="Whether the step must have changed files of the workspace.",
        examples=["nonempty", "empty"],
    )
    paths: list[Text] = Field(
        [],
        max_length=PATHS_MAX,
        description="Patterns; every changed file must match one of them.",
        examples=[["src/**", "tests/**"]],
    )

    @model_validator(mode="after")
    def _says_one_thing(self) -> DiffShape:
        if self.diff == "empty" and self.paths:
            raise ValueError("an empty diff has no paths: remove `paths`, or say `diff: nonempty`")
        return self

    def value(self) -> DiffCheck:
        return DiffCheck(self.diff, tuple(self.paths))


def _which_check(value: Any) -> str | None:
    given = [key for key in MAIN_CHECK_KEYS if isinstance(value, dict) and key in value]
    if len(given) != 1:
        return None
    return TAG + ("page" if given[0] in PAGE_CHECK_KEYS else given[0])


def _page_checks() -> Any:
    from recoup.shapes.page_check_shape import PageCheckShape

    return PageCheckShape


CheckShape = Annotated[
    Annotated[ExitShape, Tag(TAG + "exit")]
    | Annotated[FileShape, Tag(TAG + "file")]
    | Annotated[StdoutShape, Tag(TAG + "stdout")]
    | Annotated[StderrShape, Tag(TAG + "stderr")]
    | Annotated[JsonShape, Tag(TAG + "json")]
    | Annotated[RunShape, Tag(TAG + "run")]
    | Annotated[DiffShape, Tag(TAG + "diff")]
    | Annotated[Any, Later(_page_checks), Tag(TAG + "page")],
    branch(_which_check, "which_check"),
]
