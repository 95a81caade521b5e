from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.wording import clean, json_escaped, one_line, plain_log


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


ODD = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x9d[]0;8m\x07\\\u202e\U000e0041\u200b\r\n\t\ud800"))
)


@given(ODD)
def test_nothing_that_acts_or_hides_is_left_in_what_is_shown(text: str) -> None:
    for shown in (one_line(text), clean(text), plain_log(text)):
        strange = {char for char in shown if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")}
        assert strange <= {"\n", "\t"}
        assert not set(shown) & set("\u200b\u202a\u202e\u2066\ufeff\U000e0041")


@given(st.text())
def test_json_is_the_same_value_with_what_is_invisible_escaped(text: str) -> None:
    encoded = json_escaped(json.dumps(text, ensure_ascii=False))
    assert json.loads(encoded) == text
    assert not {char for char in encoded if unicodedata.category(char) in ("Cc", "Zl", "Zp")}


def test_the_colours_of_a_log_are_left_out() -> None:
    assert plain_log("\x1b[8m\x1b[1;31mred\x1b[0m\r\n\x1b[2J") == "red\n\\x1b[2J"
