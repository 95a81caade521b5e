"""Probes: those that work on this ledger and those that report to this gateway."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.errors import NotFound
from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.console.probe_views import (
    Resource,
    actions_for,
    from_document,
    lines_of,
    orders_of,
    resources_of,
    told_by,
)
from recoup.gateway.house import house_of
from recoup.model.events import Event
from recoup.model.ids import commands_stream
from recoup.operations.events import last_events, stream_heads
from recoup.operations.probes import known_probes, probe_events_stream, probe_status

router = Pages(MenuEntry("/probes", "Probes"))
PROBES_MAX: Final = 50
EVENTS_MAX: Final = 500
SHOWN_MAX: Final = 50


@router.get("/probes")
async def probes(request: Request) -> Response:
    app = house_of(request).app
    names = await known_probes(app)
    shown = sorted(names)[:PROBES_MAX]
    return page(
        *(request, "probes.html"),
        title="Probes",
        rows=[await _row(app, name, is_local=names[name]) for name in shown],
        left_out=len(names) - len(shown),
    )


@router.get("/probes/{probe_id}")
async def probe(request: Request, probe_id: str) -> Response:
    app = house_of(request).app
    names = await known_probes(app)
    if probe_id not in names:
        raise NotFound(f"no probe {probe_id!r} is known here", hint="Start one: recoup probe run probe.yaml")
    is_local = names[probe_id]
    told = told_by(await _events(app, probe_id, is_local))
    document, resources = await _standing(app, probe_id, is_local, told)
    commands = await last_events(app, commands_stream(probe_id), EVENTS_MAX)
    return page(
        *(request, "probe.html"),
        title=f"Probe {probe_id}",
        probe_id=probe_id,
        is_local=is_local,
        document=document,
        resources=resources,
        lines=lines_of(told, SHOWN_MAX),
        orders=orders_of(commands, told, SHOWN_MAX),
        actions=actions_for(is_local),
        post=f"/api/probes/{quote(probe_id, safe='')}/act",
    )


async def _row(app: App, name: str, *, is_local: bool) -> dict[str, Any]:
    told = [] if is_local else told_by(await _events(app, name, is_local))
    document, resources = await _standing(app, name, is_local, told)
    heads = await stream_heads(app, probe_events_stream(name, is_local=is_local))
    mine = [head for head in heads if head.stream.partition(":")[2] == name]
    return {
        "name": name,
        "is_local": is_local,
        "document": document,
        "resources": resources,
        "heard": mine[0].at.iso() if mine else None,
    }


async def _standing(
    app: App, name: str, is_local: bool, told: list[dict[str, Any]]
) -> tuple[dict[str, Any] | None, list[Resource]]:
    if not is_local:
        return None, resources_of(told)
    document = await probe_status(app, name)
    return document, from_document(document)


async def _events(app: App, name: str, is_local: bool) -> list[Event]:
    return await last_events(app, probe_events_stream(name, is_local=is_local), EVENTS_MAX)
