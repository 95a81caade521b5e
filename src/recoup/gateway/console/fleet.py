"""Who drives what: workers, leases, queues, and what was given up."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from recoup.errors import DispatchError
from recoup.gateway.console.pages import new_pages, page
from recoup.gateway.house import house_of

router = new_pages()
WORKERS_MAX: Final = 200
LEASES_MAX: Final = 200


@router.get("/fleet")
async def fleet(request: Request) -> Response:
    from recoup.fleet.overview import ABSENT_HEARTBEATS, queue_document, worker_document

    app = house_of(request).app
    now = app.world.clock.now()
    seen = await app.ledger.workers(now)
    late_s = ABSENT_HEARTBEATS * app.settings.heartbeat_s
    trouble = ""
    try:
        queues = await queue_document(app.ledger, await app.dispatch(), now)
    except DispatchError as error:
        queues, trouble = {"queues": [], "deadLetters": [], "moreDeadLetters": False}, error.message
    held = await app.ledger.held(now, LEASES_MAX)
    return page(
        *(request, "fleet.html"),
        title="Fleet",
        workers=[worker_document(one, late_s) for one in seen[:WORKERS_MAX]],
        workers_count=len(seen),
        held=held,
        held_cut=len(held) == LEASES_MAX,
        queues=queues["queues"],
        dead=queues["deadLetters"],
        more_dead=queues["moreDeadLetters"],
        trouble=trouble,
    )
