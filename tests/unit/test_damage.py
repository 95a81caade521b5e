"""A stored history that cannot have happened names the event that does not fit, and nothing else is raised."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.test_golden_ledgers import GOLDEN, events_of

from recoup.damage import readable_part, state_after
from recoup.errors import EventUnreadable
from recoup.kernel.documents import run_document
from recoup.kernel.fold import fold
from recoup.kernel.prefix import ledger_document

LEDGERS = [json.loads(path.read_text()) for path in GOLDEN]
NUMBERS = [-(2**40), -3, -1, 0, 1, 2, 7, 9999, 2**40]


@st.composite
def changed_histories(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """A run in which one number of one event is another one, and the place of that event."""
    golden = draw(st.sampled_from(LEDGERS))
    places = [
        (place, key)
        for place, line in enumerate(golden["events"])
        for key, value in line["payload"].items()
        if type(value) is int
    ]
    place, key = draw(st.sampled_from(places))
    events = list(golden["events"])
    payload = {**events[place]["payload"], key: draw(st.sampled_from(NUMBERS))}
    events[place] = {**events[place], "payload": payload}
    return {**golden, "events": events}, place


@given(changed_histories())
def test_a_history_with_another_number_is_folded_or_names_an_event(
    changed: tuple[dict[str, Any], int],
) -> None:
    golden, place = changed
    run_id, events = golden["runId"], events_of(golden)
    part, error = readable_part(run_id, events)
    if error is None:
        assert part == events
    else:
        assert error.seq > place, "what comes before the changed event is as it was"
        assert len(part) == error.seq - 1
        assert (error.stream, error.event_type) == (events[0].stream, events[error.seq - 1].type)
    if part:
        state = state_after(run_id, part)
        msgspec.json.encode([run_document(state), ledger_document(state)])


@given(st.sampled_from(LEDGERS), st.data())
def test_a_history_without_one_of_its_events_names_the_next(
    golden: dict[str, Any], data: st.DataObject
) -> None:
    events = events_of(golden)
    missing = data.draw(st.integers(0, len(events) - 2))
    part, error = readable_part(golden["runId"], events[:missing] + events[missing + 1 :])
    assert isinstance(error, EventUnreadable) and error.seq == missing + 2
    assert "cannot follow the events before it" in error.message
    assert part == events[:missing]


@given(st.sampled_from(LEDGERS))
def test_a_whole_history_is_folded_as_ever(golden: dict[str, Any]) -> None:
    events = events_of(golden)
    assert readable_part(golden["runId"], events) == (events, None)
    assert state_after(golden["runId"], events) == fold(golden["runId"], events)
