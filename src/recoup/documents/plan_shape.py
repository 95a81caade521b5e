"""A plan as people write it: every key, its type, its limits, and what it is for; source of the JSON Schema.

Text may be given as a number or a boolean wherever text belongs (`env: {PORT: 8080}`, `run: [sleep, 5]`); it
is taken as it was written. Nothing else is converted.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from recoup.documents.limits_shape import LimitsShape
from recoup.documents.step_shape import StepShape
from recoup.shapes.forms import FieldName, VariableName, WorkflowName
from recoup.shapes.later import Later
from recoup.shapes.page_keys import HEAL_EXAMPLES
from recoup.shapes.shape import AnyText, Shape, Version

NAMES_MAX = 1_000


def _input() -> Any:
    from recoup.documents.input_shape import InputOrDefault

    return InputOrDefault


def _workspace() -> Any:
    from recoup.documents.workspace_shape import WorkspaceShape

    return WorkspaceShape


def _heal() -> Any:
    from recoup.shapes.heal_shape import AnyHeal

    return AnyHeal


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
    inputs: dict[FieldName, Annotated[Any, Later(_input)]] = Field(
        {},
        max_length=NAMES_MAX,
        description="Values that a run is given: ${{ inputs.NAME }}.",
        examples=[{"customer": {"required": True}, "month": "2026-11"}],
    )
    workspace: Annotated[Any, Later(_workspace)] | None = Field(
        None,
        description="A clone of a repository or a copy of a folder to run in. Default: the plan's folder.",
        examples=[{"git": ".", "ref": "main"}, {"folder": "./site"}],
    )
    defaults: LimitsShape | None = Field(
        None, description="Limits of every step that says nothing else.", examples=[{"timeout": "15m"}]
    )
    heal: Annotated[Any, Later(_heal)] | None = Field(
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
