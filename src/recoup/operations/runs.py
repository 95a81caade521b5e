"""Runs, looked at: listed, counted, each as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from recoup.errors import NotFound, RowUnreadable
from recoup.kernel.documents import run_document
from recoup.kernel.rows import attempt_row_document, run_row_document
from recoup.model.answers.runs import Attempt, RunDocument, RunSummary
from recoup.model.run import RunStatus
from recoup.model.storage import AttemptRow, History, LeaseRow, RunFilter, RunRow, Span
from recoup.operations.cursor import cursor_of

if TYPE_CHECKING:
    from recoup.app import App


class RunList(msgspec.Struct, frozen=True):
    """Runs, newest first."""

    rows: Sequence[RunRow]
    next_cursor: str | None


async def list_runs(
    app: App, wanted: RunFilter, limit: int, before: tuple[int, str] | None = None
) -> RunList:
    """One page, which may be short: as much as was looked through for it."""
    page = await app.ledger.runs(wanted, limit=limit, before=before)
    return RunList(page.rows, None if page.behind is None else cursor_of(*page.behind))


async def newest_runs(app: App, wanted: RunFilter, limit: int) -> list[RunRow]:
    """Exactly `limit` of them, unless there are fewer: reads as many pages as that takes."""
    page = await app.ledger.runs(wanted, limit=limit)
    found = list(page.rows)
    while page.behind is not None and len(found) < limit:
        page = await app.ledger.runs(wanted, limit=limit - len(found), before=page.behind)
        found += page.rows
    return found


async def row_documents(app: App, rows: Sequence[RunRow]) -> list[RunSummary]:
    return [run_row_document(row, await app.runs.unreadable(row)) for row in rows]


async def show_run(app: App, run_id: str, row: RunRow | None = None) -> RunDocument:
    """Raises NotFound."""
    return run_document(await app.runs.shown(run_id, row), await app.driving.is_driven(run_id))


async def show_run_or_forgotten(app: App, run_id: str) -> dict[str, Any]:
    """Also for one that was forgotten meanwhile."""
    try:
        document: dict[str, Any] = msgspec.to_builtins(await show_run(app, run_id))
    except NotFound:
        return {"runId": run_id, "status": "forgotten"}
    return document


async def attempts_of(app: App, run_id: str) -> Sequence[AttemptRow]:
    """In the order of its steps."""
    return await app.ledger.attempts(run_id)


def attempt_documents(rows: Sequence[AttemptRow]) -> list[Attempt]:
    return [attempt_row_document(row) for row in rows]


async def linked_runs(app: App, run_id: str) -> list[str]:
    """The others that go back to the same run."""
    return [one for one in await app.ledger.family(run_id) if one != run_id]


async def lease_of(app: App, run_id: str) -> tuple[LeaseRow | None, RowUnreadable | None]:
    """The lease of a run, or why it cannot be read."""
    try:
        return await app.ledger.lease(run_id), None
    except RowUnreadable as error:
        return None, error


async def count_runs(app: App, wanted: RunFilter) -> dict[str, Any]:
    """How many a list with these filters would hold, up to ten thousand."""
    found = await app.ledger.count_runs(wanted)
    return {"count": found.count, "capped": found.capped}


async def tallies(app: App) -> dict[str, int]:
    """How many runs there are with each status."""
    found = await app.ledger.tallies()
    return {status.value: found.get(status.value, 0) for status in RunStatus}


async def history(app: App, span: Span, workflow: str | None = None) -> History:
    """What ended, was healed and recovered, in equal parts of time."""
    return await app.ledger.history(span, workflow)
