"""A plan as people write it: every key, its type, its limits, and what it is for; source of the JSON Schema.

Text may be given as a number or a boolean wherever text belongs (`env: {PORT: 8080}`, `run: [sleep, 5]`); it
is taken as it was written. Nothing else is converted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Tag, model_validator

from recoup.documents.forms import FieldName, VariableName, WorkflowName
from recoup.documents.heal_shape import HEAL_EXAMPLES, AnyHeal
from recoup.documents.limits_shape import LimitsShape
from recoup.documents.shape import TAG, AnyText, Shape, Text, Version, branch, text_or
from recoup.documents.step_shape import StepShape
from recoup.model.plan import Input

NAMES_MAX = 1_000


class InputShape(Shape):
    required: bool = Field(False, description="A run cannot begin without it.", examples=[True])
    default: AnyText | None = Field(
        None, description="Its value when a run gives none.", examples=["2026-11"]
    )
    secret: bool = Field(False, description="Keep the value encrypted and show it nowhere.", examples=[True])

    @model_validator(mode="after")
    def _default_makes_sense(self) -> InputShape:
        if self.default is not None and self.secret:
            raise ValueError("a secret has no default: remove `default` and pass the value with --input")
        if self.default is not None and self.required:
            raise ValueError("an input with a default is never missing: keep `required` or `default`")
        return self

    def value(self) -> Input:
        return Input(self.required, self.default, self.secret)


InputOrDefault = Annotated[
    Annotated[InputShape, Tag(TAG + "input")] | Annotated[AnyText, Tag(TAG + "text")],
    branch(text_or("input")),
]


def _not_option(text: str) -> str:
    if text.startswith("-"):
        raise ValueError("must not begin with `-`")
    return text


def _local(path: str) -> str:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/]+@[^/]+:", path):
        raise ValueError("must be a repository on this machine: clone it first, then name its folder")
    return path


def _home_known(path: str) -> str:
    try:
        Path(path).expanduser()
    except RuntimeError:
        raise ValueError(
            "begins with the home folder of somebody unknown here: write the whole path"
        ) from None
    return path


class GitShape(Shape):
    git: Annotated[Text, AfterValidator(_local), AfterValidator(_home_known)] = Field(
        description="A repository on this machine, relative to the plan. It is cloned, never written.",
        examples=["."],
    )
    ref: Annotated[Text, AfterValidator(_not_option)] | None = Field(
        None, description="A branch, tag or commit. Default: its HEAD.", examples=["main"]
    )


class FolderShape(Shape):
    folder: Annotated[Text, AfterValidator(_home_known)] = Field(
        description="A folder, relative to the plan. It is copied, never written.", examples=["./site"]
    )


def _which_workspace(value: Any) -> str | None:
    given = [key for key in ("git", "folder") if isinstance(value, dict) and key in value]
    return f"{TAG}{given[0]}" if len(given) == 1 else None


WorkspaceShape = Annotated[
    Annotated[GitShape, Tag(TAG + "git")] | Annotated[FolderShape, Tag(TAG + "folder")],
    branch(_which_workspace, "which_workspace"),
]


class PlanShape(Shape):
    """A plan of Recoup: ordered steps, each with what must hold when it is done."""

    editor_schema: str | None = Field(
        None, alias="$schema", description="For editors only.", examples=["plan.json"]
    )
    version: Version = Field(description="The version of the format: 1.", examples=[1])
    name: WorkflowName = Field(
        description="The workflow that runs of this plan belong to.", examples=["invoice-sync"]
    )
    objective: AnyText = Field(
        "",
        description="What it is all for, in a sentence; every retry is told.",
        examples=["Every invoice of the month is approved"],
    )
    inputs: dict[FieldName, InputOrDefault] = Field(
        {},
        max_length=NAMES_MAX,
        description="Values that a run is given: ${{ inputs.NAME }}.",
        examples=[{"customer": {"required": True}, "month": "2026-11"}],
    )
    workspace: WorkspaceShape | None = Field(
        None,
        description="A clone of a repository or a copy of a folder to run in. Default: the plan's folder.",
        examples=[{"git": ".", "ref": "main"}, {"folder": "./site"}],
    )
    defaults: LimitsShape | None = Field(
        None, description="Limits of every step that says nothing else.", examples=[{"timeout": "15m"}]
    )
    heal: AnyHeal | None = Field(
        None,
        description="What browser steps that say nothing else do where a target is not as it was.",
        examples=HEAL_EXAMPLES,
    )
    secrets: list[VariableName] = Field(
        [],
        max_length=NAMES_MAX,
        description="Names of environment variables whose values are never stored or shown.",
        examples=[["API_TOKEN"]],
    )
    steps: list[StepShape] = Field(
        min_length=1, description="What to do, in order.", examples=[[{"id": "hello", "run": "echo hello"}]]
    )
