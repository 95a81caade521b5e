"""Who did what and why: the events of all streams, newest first, and the chain that holds them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.gateway.console.audit_views import AuditLine, Wanted, audit_line, fits, since_us
from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.house import house_of
from recoup.operations.events import arrivals_before

router = Pages(MenuEntry("/audit", "Audit"))
LISTED_MAX: Final = 50
READ_MAX: Final = 5_000
"""Events that are looked through for one page."""
_CHUNK: Final = 1_000
NEWEST: Final = 2**62
"""Above every number."""
Word = Annotated[str, Query(max_length=200)]


class Found(msgspec.Struct, frozen=True):
    lines: list[AuditLine]
    behind: int | None
    """The number before which the next page begins."""
    looked_through: int


@router.get("/audit")
async def audit(
    request: Request,
    type: Word = "",
    stream: Word = "",
    who: Word = "",
    since: Word = "",
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
) -> Response:
    app = house_of(request).app
    now_us = app.world.clock.now().wall_us
    wanted = Wanted(type=type, stream=stream, who=who, since_us=since_us(since, now_us))
    found = await _found(app, wanted, before)
    return page(
        *(request, "audit.html"),
        title="Audit",
        found=found,
        chosen={"type": type, "stream": stream, "who": who, "since": since},
        since_understood=not since or wanted.since_us is not None,
        before=before,
        folder=str(app.settings.home / "audit"),
    )


async def _found(app: App, wanted: Wanted, before: int | None) -> Found:
    """Backwards, piece by piece, until a page is full or enough was looked through."""
    end, looked = before or NEWEST, 0
    lines: list[AuditLine] = []
    while looked < READ_MAX:
        came = await arrivals_before(app, end, _CHUNK)
        looked += len(came)
        for one in came:
            if wanted.since_us is not None and one.at.wall_us < wanted.since_us:
                return Found(lines, None, looked)
            lines += [audit_line(one)] if fits(one, wanted) else []
            if len(lines) == LISTED_MAX:
                return Found(lines, one.number, looked)
        if len(came) < _CHUNK:
            return Found(lines, None, looked)
        end = came[-1].number
    return Found(lines, end, looked)
