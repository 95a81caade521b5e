"""Telling others of events, as pure rules."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from recoup.kernel.webhooks import (
    GIVEN_UP_S,
    KINDS_MAX,
    RETRIES_S,
    is_hidden,
    is_hopeless,
    matches,
    refuse_hook,
    refuse_kinds,
    retry_s,
    shown_hook,
    signature,
)


def test_a_kind_is_a_name_or_how_names_begin() -> None:
    kinds = ("Escalated", "task.run.*")
    assert matches(kinds, ("Escalated",)) and matches(kinds, ("probe.reported", "Escalated"))
    assert matches(kinds, ("task.run.failed",)) and not matches(kinds, ("task.runs", "EscalationDelivered"))
    assert refuse_kinds(kinds) is None
    for wrong in ((), ("",), ("*",), ("a b",), tuple(f"k{n}" for n in range(KINDS_MAX + 1))):
        assert refuse_kinds(wrong)


@pytest.mark.parametrize(
    "url", ["https://a.example/x?k=1", "https://a:8443", "http://127.0.0.1:9/x", "http://localhost"]
)
def test_https_may_go_anywhere_and_http_stays_here(url: str) -> None:
    assert refuse_hook(url) is None


@pytest.mark.parametrize(
    "url",
    [
        *("", "ftp://a", "https://", "http://a.example", "http://10.0.0.1", "https://u:p@a", "https://a/#x"),
        *("https://a:port", "https://a/ b", "https://ä.example", "https://a/\n"),
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    assert refuse_hook(url)


def test_what_may_be_a_key_is_not_shown() -> None:
    for whole in ("https://a.example:8443/services/key?key=1", "https://a.example:8443"):
        assert shown_hook(whole) == shown_hook(shown_hook(whole)) == "https://a.example:8443/…"
        assert is_hidden(shown_hook(whole)) and not is_hidden(whole)


def test_the_signature_is_of_the_time_and_the_body() -> None:
    made = hmac.new(b"s", b'7.{"a": 1}', hashlib.sha256).hexdigest()
    assert signature("s", 7, b'{"a": 1}') == f"t=7,v1={made}"


def test_waits_grow_and_end_after_a_day() -> None:
    waits = [retry_s(failed) for failed in range(1, 12)]
    assert waits[: len(RETRIES_S)] == list(RETRIES_S) and waits[-1] == RETRIES_S[-1]
    assert not is_hopeless(5, 5 + GIVEN_UP_S - 1) and is_hopeless(5, 5 + GIVEN_UP_S)
