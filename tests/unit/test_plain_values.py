"""Small promises of the values that everything else is made of."""

from __future__ import annotations

import msgspec
import pytest

from recoup.kernel.classify import retry_after_s
from recoup.model.decision import Decision, Escalate, GiveUp, HardReset, Retry, SoftReset, Strategy, strategy
from recoup.model.events import CheckResult, Event, UnknownPayload
from recoup.model.failure import FailureClass
from recoup.model.instant import Instant
from recoup.model.outcome import Captured, Examined
from recoup.model.redacted import Redacted, restored, sealed

CLS = FailureClass.UNKNOWN


@pytest.mark.parametrize(
    ("decision", "name"),
    [
        (Retry("", CLS, 1), "retry"),
        (SoftReset("", CLS, 1), "soft_reset"),
        (HardReset("", CLS, 1), "hard_reset"),
        (GiveUp("", CLS, redeliver=True, exhausted=True), "none"),
        (Escalate("", CLS), "none"),
    ],
)
def test_every_decision_has_a_name_in_events(decision: Decision, name: str) -> None:
    assert strategy(decision) is Strategy(name)


@pytest.mark.parametrize(
    ("held", "all_held"),
    [((), True), ((True, True), True), ((True, False), False), ((True, None), False)],
)
def test_a_check_that_could_not_be_asked_has_not_held(held: tuple[bool | None, ...], all_held: bool) -> None:
    assert Examined(tuple(CheckResult("c", one) for one in held)).all_held is all_held


def test_redacted_text_cannot_be_made_without_the_seal() -> None:
    with pytest.raises(TypeError, match="made by a Redactor only"):
        Redacted(b"x", object())


def test_redacted_text_cannot_be_changed() -> None:
    text = sealed(b"x")
    with pytest.raises(AttributeError, match="frozen"):
        text.data = b"y"
    assert text.data == b"x"


def test_redacted_text_is_equal_to_what_holds_the_same_bytes_and_to_nothing_else() -> None:
    assert sealed(b"x") == restored(b"x")
    assert hash(sealed(b"x")) == hash(restored(b"x"))
    assert sealed(b"x") != sealed(b"y")
    assert sealed(b"x") != b"x"


def test_redacted_text_shows_what_is_not_text_as_such() -> None:
    text = sealed(b"a\xff")
    assert (text.text, len(text), repr(text)) == ("a\ufffd", 2, r"Redacted(b'a\xff')")


def test_a_wait_in_more_parts_than_anybody_writes_is_read_as_far_as_four() -> None:
    assert retry_after_s("retry after 1h 1m 1s 1s 1s") == 3662


@pytest.mark.parametrize(("stream", "run_id"), [("run:r", "r"), ("workflow:w", None)])
def test_an_event_is_shown_as_it_was_stored_and_with_its_run(stream: str, run_id: str | None) -> None:
    at = Instant(1_800_000_000_000_000, 1, "boot")
    line = Event(stream, 3, at, "some.type", UnknownPayload(), b'{"n": 1}').line()
    assert msgspec.json.decode(msgspec.json.encode(line)) == {
        "stream": stream,
        "runId": run_id,
        "seq": 3,
        "at": at.iso(),
        "type": "some.type",
        "payload": {"n": 1},
    }


def test_output_that_was_kept_whole_is_one_text() -> None:
    kept = Captured(b"ab", b"cd", 4)
    assert (kept.gap, kept.text(), kept.last(3)) == (0, "abcd", b"bcd")


def test_output_with_a_gap_says_how_much_is_missing_and_ends_behind_it() -> None:
    kept = Captured(b"ab", b"cd\xff", 105)
    assert (kept.gap, kept.last(9)) == (100, b"cd\xff")
    assert kept.text() == "ab\n[100 bytes not kept]\ncd\ufffd"
