from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.wording import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("as it is   with its columns", "as it is   with its columns"),
        ("a\nb", "a b"),
        ("a \r\n\r\n  b\n", "a b"),
        ("a\u2028b\x0bc", "a b c"),
        ("\x1b[2Jcleared\tout", "\\x1b[2Jcleared\\tout"),
        ("", ""),
    ],
)
def test_line_breaks_become_spaces_and_controls_are_escaped(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(st.text())
def test_any_text_becomes_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1
    assert one_line(one_line(text)) == one_line(text)
