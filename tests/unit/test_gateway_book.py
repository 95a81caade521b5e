"""The rules by which a gateway takes events, whatever is sent and however often."""

from __future__ import annotations

import contextlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from recoup.testing.gateway_book import GatewayBook, Refused
from recoup.testing.gateway_suite import escalation, event

EPOCHS = (1, 1, 1, 2, 2, 4, 4, 4, 4, 5)
STREAM = [event(number, epoch) for number, epoch in enumerate(EPOCHS, 1)]
STREAM[4] = {**escalation(5, "e-1"), "lease_epoch": 2}

batches = st.tuples(st.integers(0, 9), st.integers(0, 10), st.integers(1, 6))


def send(book: GatewayBook, start: int, length: int, epoch: int) -> int:
    batch = {"probe_id": "suite", "lease_epoch": epoch, "events": STREAM[start : start + length]}
    return book.ingest(msgspec.json.encode(batch)).acknowledged_seq


@given(st.lists(batches, max_size=30))
def test_what_is_kept_is_the_stream_from_its_beginning_without_a_gap(
    sent: list[tuple[int, int, int]],
) -> None:
    book, before = GatewayBook(), 0
    for start, length, epoch in sent:
        with contextlib.suppress(Refused):
            assert send(book, start, length, epoch) >= before
        kept = book.events("suite", 0, 100)
        assert kept == STREAM[: len(kept)] and len(kept) >= before, "nothing is lost, reordered or doubled"
        assert list(book.escalations) == (["e-1"] if len(kept) >= 5 else [])
        before = len(kept)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 4))
def test_who_sends_from_where_it_was_acknowledged_gets_everything_through(
    lost: list[bool], length: int
) -> None:
    """`lost`: the answer did not come back, so the sender sends the same again."""
    book, cursor = GatewayBook(), 0
    for answer_lost in [*lost, *[False] * len(STREAM)]:
        acknowledged = send(book, cursor, length, 5)
        cursor = cursor if answer_lost else acknowledged
    assert book.events("suite", 0, 100) == STREAM and list(book.escalations) == ["e-1"]
