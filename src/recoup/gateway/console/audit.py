"""Who did what and why: the events of all streams, newest first, and the chain that holds them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.gateway.console.audit_views import AuditLine, Wanted, audit_line, fits, since_us
from recoup.gateway.console.pages import new_pages, page
from recoup.gateway.house import house_of
from recoup.model.storage import Arrival

router = new_pages()
LISTED_MAX: Final = 50
READ_MAX: Final = 5_000
"""Events that are looked through for one page."""
_CHUNK: Final = 1_000
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
    before: Annotated[int | None, Query(ge=1)] = None,
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
    end = before if before is not None else await _last_number(app) + 1
    lines: list[AuditLine] = []
    looked = 0
    while end > 1 and looked < READ_MAX and len(lines) < LISTED_MAX:
        begin = max(1, end - _CHUNK)
        came = await _between(app, begin, end)
        looked += _CHUNK
        for one in reversed(came):
            if wanted.since_us is not None and one.at.wall_us < wanted.since_us:
                return Found(lines, None, looked)
            if fits(one, wanted):
                lines.append(audit_line(one))
            if len(lines) == LISTED_MAX:
                return Found(lines, one.number if one.number > 1 else None, looked)
        end = begin
    return Found(lines, end if end > 1 else None, looked)


async def _between(app: App, begin: int, end: int) -> list[Arrival]:
    """With numbers from `begin` on, less than `end`; numbers may have gaps."""
    came = await app.ledger.arrivals(begin - 1, end - begin)
    return [one for one in came if one.number < end]


async def _last_number(app: App) -> int:
    """The number of the newest event: found by halving, with one row for each look."""
    low, high = 0, 1
    while await app.ledger.arrivals(high, 1):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if await app.ledger.arrivals(middle, 1):
            low = middle
        else:
            high = middle
    return high
