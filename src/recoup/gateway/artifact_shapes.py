"""What stands in answers about one attempt."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from recoup.gateway.shapes import Attempt, EventLine, Shape


class LogSection(Shape):
    """What one attempt printed: its end, and where all of it stands in the log of the step."""

    offset: Annotated[
        int, Field(description="Of the section, in bytes of the log: `after` for the rest of it.")
    ]
    size: Annotated[int, Field(description="Of the section, in bytes.")]
    text: Annotated[str, Field(description="Its end, 64,000 bytes at most.")]


class AttemptDetail(Attempt):
    """Everything that is known about one attempt."""

    duration_ms: int | None
    exit_code: int | None
    summary: str | None
    facts: Annotated[dict[str, Any] | None, Field(description="What it was classified by, if it failed.")]
    changed_files: list[str]
    changed_files_count: int
    evidence: list[str]
    events: list[EventLine]
    events_left_out: int
    log: Annotated[LogSection | None, Field(description="null: nothing is kept where the gateway runs.")]
