"""What is answered about controls, before and after they are made."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from recoup.model.answers.answer import Answer
from recoup.model.answers.runs import RunDocument


class AttemptUnderWay(Answer, frozen=True, kw_only=True):
    step_id: str
    attempt: int


class ControlScope(Answer, frozen=True, kw_only=True):
    """Exactly what it would touch; empty where it is not possible."""

    ends: Annotated[list[AttemptUnderWay], Meta(description="Attempts that are cut off.")]
    again: Annotated[list[str], Meta(description="Steps that are performed again: the first fifty.")]
    again_count: int
    restores: Annotated[
        str | None, Meta(description="What the workspace is brought back to; null: it is left as it is.")
    ]
    ends_run: bool
    words: Annotated[list[str], Meta(description="The same for people.")]


class ControlPreview(Answer, frozen=True, kw_only=True):
    action: Annotated[
        str, Meta(description="As in a request; `new_run` is POST /api/runs with reuse and fromStep.")
    ]
    step_id: str | None
    as_: str | None = msgspec.field(name="as")
    force: bool
    allowed: bool
    why: Annotated[str, Meta(description="Why not.")]
    scope: ControlScope


class ControlPreviews(Answer, frozen=True, kw_only=True):
    items: list[ControlPreview]
    next_cursor: str | None


class Controlled(Answer, frozen=True, kw_only=True):
    control_id: str
    action: str
    outcome: Annotated[str | None, Meta(description="null: its driver has not answered yet.")]
    epoch: int | None
    detail: str
    run: RunDocument
