"""What is kept of endless output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recoup.runtimes.capture import Capture

chunks = st.lists(st.binary(max_size=40), max_size=30)


@given(chunks, st.integers(2, 64))
def test_the_beginning_and_the_end_are_kept_and_the_rest_is_counted(parts: list[bytes], limit: int) -> None:
    capture = Capture(limit)
    for part in parts:
        capture.feed(part)
    whole, kept = b"".join(parts), capture.captured()
    assert kept.total == len(whole)
    assert whole.startswith(kept.head)
    assert whole.endswith(kept.tail)
    assert len(kept.head) + len(kept.tail) <= limit
    assert kept.gap == len(whole) - len(kept.head) - len(kept.tail)
    if len(whole) <= limit // 2:
        assert kept.head == whole


@given(chunks, st.integers(2, 64), st.integers(1, 20))
def test_the_last_bytes_are_the_last_bytes(parts: list[bytes], limit: int, wanted: int) -> None:
    capture = Capture(limit)
    for part in parts:
        capture.feed(part)
    last = capture.captured().last(wanted)
    assert b"".join(parts).endswith(last)
    assert len(last) <= wanted


def test_a_gap_is_said_in_the_text() -> None:
    capture = Capture(8)
    capture.feed(b"0123456789abcdef")
    assert capture.captured().text() == "0123\n[8 bytes not kept]\ncdef"
