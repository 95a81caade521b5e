"""The list of runs, and the page where one is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.answering import read_run_cursor
from recoup.gateway.console.lists import Progress, progress_of
from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.overview_view import progress_words
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.console.runs_query import AGES, RunsQuery, filter_of, form, runs_query
from recoup.gateway.console.words import from_us
from recoup.gateway.house import House, house_of
from recoup.kernel.elapsed import TimeSpent, spent_words, time_spent
from recoup.kernel.unreadable import unreadable_words
from recoup.model.run import RunStatus, Unreadable
from recoup.model.storage import RunRow
from recoup.operations.queues import driven_by, queues_taken
from recoup.operations.runs import list_runs
from recoup.operations.workflows import workflows as known_workflows
from recoup.reports.spoken import lasting

router = Pages(MenuEntry("/runs", "Runs"))
_PAGE_RUNS: Final = 50
_WORKFLOWS_MAX: Final = 500
"""Behind that no database could look."""
_EXAMPLE: Final = "version: 1\nname: hello\nsteps:\n  - id: greet\n    run: echo hello\n"


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list."""

    run_id: str
    workflow: str
    status: str
    progress: str
    failure_class: str
    worker: str
    submitted: str | None
    lasted: str
    reason: str
    is_stopped: bool
    """It is `running` in the ledger, and nobody drives it: it was interrupted, or its driver was lost."""
    can_cancel: bool
    can_retry: bool


@router.get("/runs")
async def runs(request: Request) -> Response:
    house = house_of(request)
    app = house.app
    wanted = runs_query(request.query_params.multi_items())
    cursor = request.query_params.get("cursor", "")
    before = read_run_cursor(cursor) if cursor else None
    meant = filter_of(wanted, app.world.clock.now().wall_us)
    found = await list_runs(app, meant, _PAGE_RUNS, before)
    lines = await _lines(house, found.rows)
    workflows = dict.fromkeys((await known_workflows(app))[:_WORKFLOWS_MAX], "")
    behind = found.next_cursor
    return page(
        request,
        "runs.html",
        title="Runs",
        wanted=wanted,
        lines=lines,
        first=before is None,
        behind=None if behind is None else f"/runs?{_with_cursor(wanted, behind)}",
        statuses=wanted.many("status"),
        chips=[(s.value, wanted.toggled("status", s), s in wanted.many("status")) for s in RunStatus],
        fields=form(wanted, {"workflow": workflows, "since": AGES}),
    )


@router.get("/runs/new")
async def new_run(request: Request) -> Response:
    house = house_of(request)
    return page(
        request,
        "new_run.html",
        title="New run",
        folders=[str(folder) for folder in house.plan_folders],
        queues=await queues_taken(house.app),
        example=_EXAMPLE,
    )


def line_of(
    row: RunRow,
    how_far: Progress | None,
    worker: str,
    spent: TimeSpent | None,
    unreadable: Unreadable | None = None,
    *,
    driven: bool = True,
) -> RunLine:
    return RunLine(
        run_id=row.run_id,
        workflow=row.workflow,
        status=row.status,
        progress=progress_words(how_far),
        failure_class=row.failure_class or "",
        worker=worker,
        submitted=from_us(row.submitted_at_us),
        lasted="" if spent is None else spent_words(spent, lasting),
        reason=row.reason if unreadable is None else unreadable_words(unreadable),
        is_stopped=row.status == "running" and not driven,
        can_cancel=unreadable is None and row.status not in ("succeeded", "cancelled", "dead_letter"),
        can_retry=row.status in ("failed", "cancelled", "dead_letter"),
    )


async def _lines(house: House, rows: Sequence[RunRow]) -> list[RunLine]:
    app, workers = house.app, await driven_by(house.app)
    driven = {
        row.run_id for row in rows if row.status == "running" and await app.driving.is_driven(row.run_id)
    }
    return [
        line_of(
            row,
            await progress_of(app, row),
            workers.get(row.run_id) or row.worker or "",
            await _spent(house, row, driven=row.run_id in driven),
            await app.runs.unreadable(row),
            driven=row.run_id in driven,
        )
        for row in rows
    ]


async def _spent(house: House, row: RunRow, *, driven: bool) -> TimeSpent | None:
    """None: it has not begun, or it would take long to find out."""
    clocks = None if row.status == "queued" else await house.states.clocks(row)
    return None if clocks is None else time_spent(clocks, house.app.world.clock.now(), driven=driven)


def _with_cursor(wanted: RunsQuery, cursor: str) -> str:
    return "&".join(filter(None, (wanted.query(), f"cursor={cursor}")))
