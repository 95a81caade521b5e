"""What others wrote is made plain before anybody is shown it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.redaction.redactor import SecretRedactor
from recoup.reports.plain import Plain
from recoup.reports.spoken import count, lasting, short_digest, since

PLAIN = Plain()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://a.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07after", "after"),
        ("\x9b31mred", "red"),
        ("a\x1b[2Kb\x1b(Bc", "abc"),
        ("bell\x07", "bell␇"),
        ("nul\x00del\x7f", "nul␀del␡"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("\u2066isolated\u2069", "⟨U+2066⟩isolated⟨U+2069⟩"),
        ("tag\U000e0041", "tag⟨U+E0041⟩"),
        ("half\ud800", "half\ufffd"),
        ("two\r\nlines\rthree\u2028four", "two lines three four"),
        ("ordinary: äöü 日本語 🙂 <b>&amp;</b>", "ordinary: äöü 日本語 🙂 <b>&amp;</b>"),
    ],
)
def test_what_acts_or_hides_is_taken_out_or_named(said: str, shown: str) -> None:
    assert PLAIN.line(said) == shown


def test_a_code_without_its_end_hides_nothing_after_it() -> None:
    assert PLAIN.line("\x1b]0;and the failure") == "␛]0;and the failure"


@pytest.mark.parametrize("between", ["\x1b[1m", "\x1b]0;x\x07", "\u200b", "\u2060", "\x00"])
def test_a_secret_that_was_kept_apart_by_what_nobody_sees_is_hidden(between: str) -> None:
    redactor = SecretRedactor()
    secret = "correct-horse" + "-battery-staple"
    redactor.register("TOKEN", secret)
    shown = Plain(lambda text: redactor.redact(text).text)
    said = f"the token is {secret[:9]}{between}{secret[9:]}"
    assert secret[9:] not in shown.line(said)
    assert all(secret[9:] not in line for line in shown.end(f"a\n{said}\n", 10))
    assert shown.line(f"no secret{between}").startswith("no secret")


def test_long_lines_and_many_lines_are_cut_and_counted() -> None:
    assert PLAIN.line("x" * 1_000, 10) == "xxxxxxxxxx… [990 more characters]"
    assert PLAIN.end("a\nb\nc\nd\n", 2) == ("[2 lines before]", "c", "d")
    assert PLAIN.start("a\nb\nc\n", 2) == ("a", "b")
    assert PLAIN.end(" \n", 2) == ()


def test_stacked_accents_do_not_tower() -> None:
    assert len(PLAIN.line("a" + "\u0301" * 500)) < 10


@given(st.text(st.characters(codec=None), max_size=300))
def test_whatever_is_said_nothing_invisible_is_shown(said: str) -> None:
    shown = PLAIN.line(said, 10_000)
    shown.encode()
    assert "\n" not in shown
    assert not [
        c
        for c in shown
        if unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in _TURNING
    ]


_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@given(st.text(max_size=300))
def test_making_plain_twice_changes_nothing_more(said: str) -> None:
    once = PLAIN.line(said, 10_000)
    assert PLAIN.line(once, 10_000) == once


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.0123, "12 ms"),
        (0.9999, "1.0 s"),
        (59.99, "1 min 00 s"),
        (125, "2 min 05 s"),
        (7265, "2 h 01 min"),
        (90_000, "1 d 01 h"),
    ],
)
def test_lengths_of_time_are_said_as_people_do(seconds: float, words: str) -> None:
    assert lasting(seconds) == words


def test_moments_and_counts_and_digests_are_short() -> None:
    assert [since(0.25), since(65), since(3_725)] == ["+0.2 s", "+1:05", "+1:02:05"]
    assert [count(1, "step"), count(2_000, "step")] == ["1 step", "2,000 steps"]
    assert [short_digest("sha256:" + "a" * 64), short_digest(None)] == ["sha256:aaaaaaaaaaaa", ""]
