"""Histories that cannot be read as a whole: what acts on them stops, what only shows them reads on."""

from __future__ import annotations

from collections.abc import Sequence

from recoup.errors import EventUnreadable
from recoup.model.events import Event, UnknownPayload, UnreadablePayload
from recoup.model.instant import Instant
from recoup.ports import Ledger


def must_be_understood(events: Sequence[Event]) -> None:
    """Raises EventUnreadable. Nobody goes on with a run whose history holds facts of a type that they do not know. The
    streams that runs share may hold some, so that a newer release can add types while older workers go on."""
    for event in events:
        if isinstance(event.payload, UnknownPayload):
            reason = "this version does not know its type"
            raise EventUnreadable(event.stream, event.seq, event.type, reason, event.at.wall_us)


async def read_leniently(ledger: Ledger, stream: str, after: int = 0, limit: int = 10_000) -> list[Event]:
    """The events of a stream in order, to be shown and never acted on. One that cannot be decoded is in its place, with
    an `UnreadablePayload`."""
    events: list[Event] = []
    while len(events) < limit:
        try:
            return events + await ledger.read(stream, after, limit - len(events))
        except EventUnreadable as error:
            whole = error.seq - 1 - after
            if whole > 0:
                events += await ledger.read(stream, after, whole)
            events.append(unreadable_event(error))
            after = error.seq
    return events


def unreadable_event(error: EventUnreadable) -> Event:
    payload = UnreadablePayload(reason=error.reason)
    return Event(error.stream, error.seq, Instant(error.wall_us, 0, ""), error.event_type, payload, b"null")
