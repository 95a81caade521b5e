"""Histories that cannot be read as a whole: what acts on them stops, what only shows them reads on.

must_be_understood      no event of a type that this version does not know
state_after, following  no event that cannot follow those before it
read_leniently          to be shown: what cannot be decoded is in its place, marked
readable_part           to be shown: the events before the first that cannot be read or cannot follow those before it
"""

from __future__ import annotations

from collections.abc import Sequence

from recoup.errors import EventUnreadable
from recoup.kernel.fold import advance, fold
from recoup.model.events import Event, UnknownPayload, UnreadablePayload
from recoup.model.instant import Instant
from recoup.model.run import RunState
from recoup.ports import Ledger

_REASON_MAX = 200
_MISFIT = (AssertionError, LookupError, ArithmeticError, TypeError, ValueError)
"""What folding raises for a fact that cannot be: a step that the plan does not have, an attempt that never began."""


def must_be_understood(events: Sequence[Event]) -> None:
    """Raises EventUnreadable. Nobody goes on with a run whose history holds facts of a type that they do not know. The
    streams that runs share may hold some, so that a newer release can add types while older workers go on."""
    for event in events:
        if isinstance(event.payload, UnknownPayload):
            reason = "this version does not know its type"
            raise EventUnreadable(event.stream, event.seq, event.type, reason, event.at.wall_us)


def state_after(run_id: str, events: Sequence[Event]) -> RunState:
    """The state of a run after these events, all of them from the first on. Raises EventUnreadable."""
    first, *others = events
    if first.seq != 1:
        raise _behind_a_gap(first, 0)
    try:
        state = fold(run_id, (first,))
    except _MISFIT as error:
        raise _misfit(first, error) from error
    for event in others:
        state = following(state, event)
    return state


def following(state: RunState, event: Event) -> RunState:
    """The state one event later. Raises EventUnreadable."""
    if event.seq > state.seq + 1:
        raise _behind_a_gap(event, state.seq)
    try:
        return advance(state, event.payload, event.at, event.seq)
    except _MISFIT as error:
        raise _misfit(event, error) from error


def _misfit(event: Event, error: Exception) -> EventUnreadable:
    words = " ".join(str(error).split())[:_REASON_MAX] or type(error).__name__
    reason = f"it cannot follow the events before it: {words}"
    return EventUnreadable(event.stream, event.seq, event.type, reason, event.at.wall_us)


def _behind_a_gap(event: Event, last: int) -> EventUnreadable:
    """Names the event behind the gap: of the missing ones nothing is known but their numbers."""
    first = last + 1
    gone = f"event {first} is" if event.seq == first + 1 else f"events {first} to {event.seq - 1} are"
    reason = f"it cannot follow the events before it: {gone} missing"
    return EventUnreadable(event.stream, event.seq, event.type, reason, event.at.wall_us)


async def read_leniently(ledger: Ledger, stream: str, after: int = 0, limit: int = 10_000) -> list[Event]:
    """The events of a stream in order, to be shown and never acted on. One that cannot be decoded is in its place, with
    an `UnreadablePayload`."""
    events: list[Event] = []
    while len(events) < limit:
        try:
            return events + await ledger.read(stream, after, limit - len(events))
        except EventUnreadable as error:
            events += await _read_before(ledger, stream, after, error.seq)
            events.append(unreadable_event(error))
            after = error.seq
    return events


async def _read_before(ledger: Ledger, stream: str, after: int, seq: int) -> list[Event]:
    """The events between two places, where the one at `seq` is the first that cannot be decoded. Reads are limited by a
    count, and events may be missing: so the largest count is looked for that ends before it."""
    events: list[Event] = []
    at_least, at_most = 0, seq - 1 - after
    count = at_most
    while at_least < at_most:
        try:
            events = await ledger.read(stream, after, count)
            at_least = count
        except EventUnreadable:
            at_most = count - 1
        count = (at_least + at_most + 1) // 2
    return events


def readable_part(run_id: str, events: Sequence[Event]) -> tuple[Sequence[Event], EventUnreadable | None]:
    """Of all events of a run, those before the first that cannot be read, and what is wrong with that one."""
    state: RunState | None = None
    for place, event in enumerate(events):
        try:
            if event.unreadable is not None:
                raise EventUnreadable(event.stream, event.seq, event.type, event.unreadable, event.at.wall_us)
            if state is None:
                state = state_after(run_id, (event,))
            else:
                state = following(state, event)
        except EventUnreadable as error:
            return events[:place], error
    return events, None


def unreadable_event(error: EventUnreadable) -> Event:
    payload = UnreadablePayload(reason=error.reason)
    return Event(error.stream, error.seq, Instant(error.wall_us, 0, ""), error.event_type, payload, b"null")
