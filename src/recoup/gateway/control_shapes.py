"""What stands in answers about controls, before they are made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from recoup.gateway.shapes import Shape


class AttemptUnderWay(Shape):
    step_id: str
    attempt: int


class ControlScope(Shape):
    """Exactly what it would touch; empty where it is not possible."""

    ends: Annotated[list[AttemptUnderWay], Field(description="Attempts that are cut off.")]
    again: Annotated[list[str], Field(description="Steps that are performed again: the first fifty.")]
    again_count: int
    restores: Annotated[
        str | None, Field(description="What the workspace is brought back to; null: it is left as it is.")
    ]
    ends_run: bool
    words: Annotated[list[str], Field(description="The same for people.")]


class ControlPreview(Shape):
    action: Annotated[
        str, Field(description="As in a request; `new_run` is POST /api/runs with reuse and fromStep.")
    ]
    step_id: str | None
    as_: Annotated[str | None, Field(alias="as")]
    force: bool
    allowed: bool
    why: Annotated[str, Field(description="Why not.")]
    scope: ControlScope


class ControlPreviews(Shape):
    items: list[ControlPreview]
    next_cursor: str | None
