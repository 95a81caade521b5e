"""Who drives what: workers, leases, queues, and what was given up."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.errors import DispatchError, EventUnreadable, NotFound
from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.house import house_of
from recoup.model.storage import HeldRun
from recoup.operations.queues import held_runs, seen_workers, show_queue, worker_documents

router = Pages(MenuEntry("/fleet", "Fleet"))
WORKERS_MAX: Final = 200
LEASES_MAX: Final = 200
RUNS_NAMED_MAX: Final = 10
"""Of one worker."""


@router.get("/fleet")
async def fleet(request: Request) -> Response:
    app = house_of(request).app
    seen = await seen_workers(app)
    trouble = ""
    try:
        queues = await show_queue(app)
    except DispatchError as error:
        queues, trouble = {"queues": [], "deadLetters": [], "moreDeadLetters": False}, error.message
    held = await held_runs(app, LEASES_MAX)
    driven = [run for one in seen[:WORKERS_MAX] for run in one.worker.runs[:RUNS_NAMED_MAX]]
    return page(
        *(request, "fleet.html"),
        title="Fleet",
        workers=worker_documents(app, seen[:WORKERS_MAX]),
        workers_count=len(seen),
        held=held,
        workflows=await _workflows(app, driven, held),
        held_cut=len(held) == LEASES_MAX,
        queues=queues["queues"],
        dead=queues["deadLetters"],
        more_dead=queues["moreDeadLetters"],
        trouble=trouble,
    )


async def _workflows(app: App, run_ids: Sequence[str], held: Sequence[HeldRun]) -> dict[str, str]:
    """Whose run each is: an id says nothing to people."""
    known = {one.run.run_id: one.run.workflow for one in held}
    for run_id in run_ids:
        if run_id not in known:
            with contextlib.suppress(NotFound, EventUnreadable):
                known[run_id] = (await app.runs.beginning(run_id)).workflow
    return known
