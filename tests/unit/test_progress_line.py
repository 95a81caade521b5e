"""What a line of progress says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.runtimes.progress_line import NOTE_CHARS_MAX, Said, one_line, said_in


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"3/10 loading", Said("loading", 3, 10)),
        (b"3/?  loading pages\r", Said("loading pages", 3, None)),
        (b'1/2 "two\\nlines"', Said("two\nlines", 1, 2)),
        (b'1/2 "torn', Said('"torn', 1, 2)),
        (b"1/2 " + b"x" * 9_000, Said("", 1, 2)),
        (b"word " + b"x" * 9_000, Said("word")),
        (b"?/? 1/2 cup", Said("1/2 cup")),
        (b"0.5/1", Said("", 0.5, 1)),
        (b"loading", Said("loading")),
        (b"and/or", Said("and/or")),
        (b"nan/3 x", Said("nan/3 x")),
        (b"1/2/3 x", Said("1/2/3 x")),
        (b"\xff\x00", Said("\ufffd\x00")),
    ],
)
def test_numbers_come_first_and_words_after(line: bytes, said: Said) -> None:
    assert said_in(line) == said


@given(st.binary(max_size=5000))
def test_any_line_says_something_bounded(line: bytes) -> None:
    said = said_in(line)
    assert len(one_line(said.note)) <= NOTE_CHARS_MAX
    assert "\n" not in one_line(said.note)
    assert all(number is None or math.isfinite(number) for number in (said.done, said.total))
