"""The list of runs, and the page where one is submitted."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.gateway.answering import cursor_of, read_cursor
from recoup.gateway.console.lists import Progress, driven_by, listed, progress_of
from recoup.gateway.console.overview_view import progress_words
from recoup.gateway.console.pages import new_pages, page
from recoup.gateway.console.wanting import AGES, CLASSES, STATUSES, Wanted, wanted_of
from recoup.gateway.console.words import from_us
from recoup.gateway.house import House, house_of
from recoup.gateway.problems import Refused
from recoup.kernel.documents import unreadable_words
from recoup.model.run import Unreadable
from recoup.model.storage import RunRow
from recoup.reports.spoken import lasting

router = new_pages()
_PAGE_RUNS: Final = 50
_WORKFLOWS_MAX: Final = 500
_PLACE_MAX: Final = 2**62
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
    can_cancel: bool
    can_retry: bool


@router.get("/runs")
async def runs(request: Request) -> Response:
    app = house_of(request).app
    wanted = wanted_of(request.query_params, request.query_params.getlist("status"))
    before = _before(request.query_params.get("cursor", ""))
    found = await listed(app, wanted, _PAGE_RUNS, before)
    lines = await _lines(app, found.rows)
    behind = None if found.behind is None else cursor_of(*found.behind)
    return page(
        request,
        "runs.html",
        title="Runs",
        wanted=wanted,
        lines=lines,
        first=before is None,
        behind=None if behind is None else f"/runs?{_with_cursor(wanted, behind)}",
        chips=[(status, wanted.toggled(status), status in wanted.statuses) for status in STATUSES],
        classes=CLASSES,
        ages=AGES,
        workflows=(await app.workflows())[:_WORKFLOWS_MAX],
    )


@router.get("/runs/new")
async def new_run(request: Request) -> Response:
    house = house_of(request)
    return page(
        request,
        "new_run.html",
        title="New run",
        folders=[str(folder) for folder in house.plan_folders],
        queues=await _queues(house),
        example=_EXAMPLE,
    )


def line_of(
    row: RunRow, how_far: Progress | None, worker: str, now_us: int, unreadable: Unreadable | None = None
) -> RunLine:
    end_us = now_us if row.ended_at_us is None else row.ended_at_us
    return RunLine(
        run_id=row.run_id,
        workflow=row.workflow,
        status=row.status,
        progress=progress_words(how_far),
        failure_class=row.failure_class or "",
        worker=worker,
        submitted=from_us(row.submitted_at_us),
        lasted=lasting(max(0, end_us - row.submitted_at_us) / 1e6),
        reason=row.reason if unreadable is None else unreadable_words(unreadable),
        can_cancel=unreadable is None and row.status not in ("succeeded", "cancelled", "dead_letter"),
        can_retry=row.status in ("failed", "cancelled", "dead_letter"),
    )


async def _lines(app: App, rows: tuple[RunRow, ...]) -> list[RunLine]:
    workers, now_us = await driven_by(app), app.world.clock.now().wall_us
    return [
        line_of(
            row,
            await progress_of(app, row),
            workers.get(row.run_id) or row.worker or "",
            now_us,
            await app.runs.unreadable(row),
        )
        for row in rows
    ]


def _before(cursor: str) -> tuple[int, str] | None:
    if not cursor:
        return None
    at_us, run_id = read_cursor(cursor, tuple[int, str])
    if abs(at_us) > _PLACE_MAX:
        raise Refused(400, "this cursor was not given by this gateway", "Leave it out.")
    return at_us, run_id


def _with_cursor(wanted: Wanted, cursor: str) -> str:
    return "&".join(filter(None, (wanted.query(), f"cursor={cursor}")))


async def _queues(house: House) -> list[str]:
    seen = await house.app.ledger.workers(house.app.world.clock.now())
    return sorted({"default", *(queue for one in seen for queue in one.worker.queues)})
