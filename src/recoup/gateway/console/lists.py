"""What pages say of runs beside their rows: how far they are. Bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from recoup.app import App
from recoup.errors import EventUnreadable
from recoup.model.storage import AttemptRow, RunRow
from recoup.operations.runs import attempts_of

_EVENTS_CHEAP_MAX: Final = 2_000
"""Of a run whose attempts are counted for a list."""


class Progress(msgspec.Struct, frozen=True):
    """How far a run is, as its attempts tell."""

    done: int
    total: int
    step_id: str = ""
    """The step under way, or the one that ended last."""
    since_us: int = 0
    attempt: int = 0


async def progress_of(app: App, row: RunRow) -> Progress | None:
    """None: it would take long to find out."""
    if row.status == "succeeded":
        return Progress(row.step_count, row.step_count)
    if row.seq > _EVENTS_CHEAP_MAX:
        return None
    try:
        return progress(await attempts_of(app, row.run_id), row.step_count)
    except EventUnreadable:
        return None


def progress(attempts: Sequence[AttemptRow], total: int) -> Progress:
    """By the last attempt of each step."""
    last = {row.step_index: row for row in attempts}
    done = sum(row.state == "finished" for row in last.values())
    if not last:
        return Progress(0, total)
    now = max(last.values(), key=lambda row: row.started_at_us)
    return Progress(min(done, total), total, now.step_id, now.started_at_us, now.attempt)
