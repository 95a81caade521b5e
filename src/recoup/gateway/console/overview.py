"""The first page: what runs, what is stuck and why, what waits for a person, what healed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.gateway.console import inbox
from recoup.gateway.console import overview_view as view
from recoup.gateway.console.lists import progress_of
from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.house import House, house_of
from recoup.kernel.description import describe
from recoup.model.events import TargetHealed
from recoup.model.ids import EVERY_WORKFLOW, targets_stream
from recoup.model.storage import RunFilter, RunRow, Span
from recoup.operations.events import last_events, stream_heads
from recoup.operations.queues import driven_by
from recoup.operations.runs import history, list_runs, tallies
from recoup.operations.workflows import modes as modes_of
from recoup.operations.workflows import workflows

router = Pages(MenuEntry("/", "Overview"))
_RUNNING_MAX: Final = 10
_FAILED_MAX: Final = 8
_WAITING_MAX: Final = 20
_INBOX_MAX: Final = 200
_WORKFLOWS_MAX: Final = 100
_HEALED_MAX: Final = 6
_STREAMS_MAX: Final = 20
_HEALS_READ_MAX: Final = 500
_FOLDED_EVENTS_MAX: Final = 5_000
_REGION: Final = "overview"


@router.get("/")
async def overview(request: Request) -> Response:
    app = house_of(request).app
    span = request.query_params.get("span", "24h")
    span = span if span in view.SPANS else "24h"
    bucket_us, buckets = view.SPANS[span][0] * 1_000_000, view.SPANS[span][1]
    now_us = app.world.clock.now().wall_us
    since_us = (now_us // bucket_us + 1 - buckets) * bucket_us
    healed = await heals_since(app, since_us)
    values: dict[str, Any] = {
        "tiles": view.tiles(await tallies(app)),
        "waiting": await waiting_for_people(house_of(request)),
        "failed": await _newest(app, ("failed", "dead_letter"), _FAILED_MAX),
        "running": await running_now(app, now_us),
        "healed": healed[:_HEALED_MAX],
        "charts": [],
        "span": span,
        "spans": list(view.SPANS),
    }
    # They are beside the region that is fetched again and again.
    if request.headers.get("HX-Target") != _REGION:
        past = await history(app, Span(since_us, since_us + buckets * bucket_us, bucket_us))
        values["charts"] = view.charts(past.buckets, bucket_us)
    return page(request, "overview.html", title="Overview", **values)


async def _newest(app: App, statuses: tuple[str, ...], limit: int) -> Sequence[RunRow]:
    return (await list_runs(app, RunFilter(statuses=statuses), limit)).rows


async def running_now(app: App, now_us: int) -> list[view.Running]:
    rows = await _newest(app, ("running",), _RUNNING_MAX)
    workers = await driven_by(app)
    return [
        view.running(row, await progress_of(app, row), workers.get(row.run_id) or row.worker or "", now_us)
        for row in rows
    ]


async def waiting_for_people(house: House) -> list[view.Waiting]:
    """Escalations, gates, pauses, workflows that are stopped, and what a second person must agree to."""
    app = house.app
    modes = await modes_of(app, [EVERY_WORKFLOW, *(await workflows(app))[:_WORKFLOWS_MAX]])
    found = [view.stopped_workflow(mode) for mode in modes]
    for row in await _newest(app, ("escalated", "waiting"), _WAITING_MAX):
        state = await house.states.shown(row.run_id) if row.seq <= _FOLDED_EVENTS_MAX else None
        found.append(view.waiting_run(row, state))
    handed = await inbox.items(house, "open", 0, _INBOX_MAX)
    found += [view.handed_over(one) for one in handed if one.source == "probe"][:_WAITING_MAX]
    asked = await inbox.approvals(house, _WAITING_MAX)
    found += [view.asked_for(one) for one in asked if one.state == "waiting"]
    return [one for one in found if one is not None]


async def heals_since(app: App, since_us: int) -> list[view.HealLine]:
    """Newest first; of the workflows in which something was healed or learned last."""
    heads = await stream_heads(app, targets_stream(""))
    newest = sorted(heads, key=lambda head: -head.at.wall_us)[:_STREAMS_MAX]
    found = list[view.HealLine]()
    for head in newest:
        if head.at.wall_us < since_us:
            break
        workflow = head.stream.removeprefix(targets_stream(""))
        for event in await last_events(app, head.stream, _HEALS_READ_MAX, head.seq):
            fact, told = event.payload, describe(event.payload)
            if isinstance(fact, TargetHealed) and event.at.wall_us >= since_us:
                words = told.detail if told else ""
                found.append(view.HealLine(event.at.wall_us, workflow, fact.run_id, fact.step_id, words))
    return sorted(found, key=lambda one: -one.at_us)
