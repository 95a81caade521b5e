"""Facts, for those who look: of a run or any other stream, and of all streams as they came. One that cannot be read is
shown in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from recoup.damage import read_leniently
from recoup.model.events import Event, RunSubmitted
from recoup.model.ids import run_stream
from recoup.model.storage import Arrival, Head
from recoup.streams import pages

if TYPE_CHECKING:
    from recoup.app import App

_PAGE_EVENTS: Final = 1_000


class EventPage(msgspec.Struct, frozen=True):
    """Some events of a stream, in order."""

    events: list[Event]
    behind: int | None
    """The place of the last one, if there are more."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [event.line() for event in self.events]


async def read_events(app: App, stream: str, after: int, limit: int) -> list[Event]:
    return await read_leniently(app.ledger, stream, after, limit)


async def events_after(app: App, stream: str, after: int, limit: int) -> EventPage:
    events = await read_events(app, stream, after, limit + 1)
    return EventPage(events[:limit], events[limit - 1].seq if len(events) > limit else None)


async def run_events_after(app: App, run_id: str, after: int, limit: int) -> EventPage:
    return await events_after(app, run_stream(run_id), after, limit)


def run_event_pages(
    app: App, run_id: str, page_events: int = _PAGE_EVENTS, after: int = 0
) -> AsyncIterator[list[Event]]:
    """All events of a run behind this one. Others are answered between two pages."""
    return pages(partial(read_leniently, app.ledger), run_stream(run_id), after, page_events)


async def last_events(app: App, stream: str, limit: int, end: int | None = None) -> list[Event]:
    """The newest ones, in order. `end`: where the stream ends, if that is known."""
    end = await app.ledger.head(stream) if end is None else end
    return await read_events(app, stream, max(0, end - limit), limit)


async def run_events_between(app: App, run_id: str, after: int, last: int) -> list[Event]:
    return await read_events(app, run_stream(run_id), after, last - after)


async def event_at(app: App, stream: str, seq: int) -> Event | None:
    found = await read_events(app, stream, seq - 1, 1)
    return found[0] if found and found[0].seq == seq else None


async def end_of_run(app: App, run_id: str) -> int:
    """The place of its last event; 0: there is no such run, or it was forgotten."""
    return await app.ledger.head(run_stream(run_id))


async def submission_of(app: App, run_id: str) -> RunSubmitted | None:
    """By the first event of the run alone. None: it cannot be read, or was forgotten."""
    for event in await read_events(app, run_stream(run_id), 0, 1):
        return event.payload if isinstance(event.payload, RunSubmitted) else None
    return None


async def stream_heads(app: App, prefix: str) -> list[Head]:
    """Where the streams end whose names begin like this."""
    return list(await app.ledger.heads(prefix))


async def must_answer(app: App) -> None:
    """Raises LedgerError where the ledger does not."""
    await app.ledger.change_marker()


async def last_arrival(app: App) -> int:
    """The number of the newest event of all."""
    return await app.ledger.last_arrival()


async def arrivals(app: App, number: int, limit: int) -> list[Arrival]:
    """The events of all streams behind this number, as they came."""
    return list(await app.ledger.arrivals(number, limit))


async def arrivals_after(app: App, number: int, limit: int) -> tuple[list[Arrival], int | None]:
    """One page of them; and the number of the last one, if there are more."""
    came = await arrivals(app, number, limit + 1)
    return came[:limit], came[limit - 1].number if len(came) > limit else None


async def arrivals_before(app: App, number: int, limit: int) -> list[Arrival]:
    """Newest first."""
    return list(await app.ledger.arrivals_before(number, limit))
