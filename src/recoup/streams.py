"""Event streams: read page by page, and appended to only behind what was read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

from recoup.errors import Conflict, LedgerBusy
from recoup.model.events import Event

PAGE_EVENTS: Final = 1_000
TRIES_MAX: Final = 20
"""Each means that someone else has appended in between."""
T = TypeVar("T")
Read = Callable[[str, int, int], Awaitable[list[Event]]]
"""`Ledger.read`, or another way to read a stream behind a place, up to a number of events."""


async def pages(
    read: Read, stream: str, after: int = 0, size: int = PAGE_EVENTS
) -> AsyncIterator[list[Event]]:
    """The events of a stream behind `after`, in order. Others are served between two pages."""
    while page := await read(stream, after, size):
        yield page
        if len(page) < size:
            return
        after = page[-1].seq
        await asyncio.sleep(0)


async def append_if(
    attempt: Callable[[], Awaitable[T]],
    busy: str,
    *,
    hint: str = "Try again in a moment.",
    tries_max: int = TRIES_MAX,
) -> T:
    """Returns what `attempt` returns: it reads, decides and appends behind exactly what it has read, or appends
    nothing. Where someone else was quicker it begins again with reading. Raises LedgerBusy when that never ends."""
    for _ in range(tries_max):
        with contextlib.suppress(Conflict):
            return await attempt()
    raise LedgerBusy(busy, hint=hint)
