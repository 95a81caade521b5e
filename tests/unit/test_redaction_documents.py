"""Documents sealed as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.redaction.redactor import SecretRedactor
from recoup.redaction.registration import environment_redactor


class Event(msgspec.Struct, rename="camel"):
    step_id: str
    at: datetime
    raw: bytes
    payload: dict[str, Any]


def sealed(document: Any, *values: str) -> Any:
    redactor = SecretRedactor()
    for number, value in enumerate(values):
        redactor.register(f"SECRET_{number}", value)
    return json.loads(redactor.seal(document).data)


def test_a_clean_document_is_sealed_as_it_is() -> None:
    event = Event(
        "build", datetime(2026, 11, 15, tzinfo=UTC), b"\x00", {"n": 1.5, "none": None, "text": "é\n"}
    )
    for values in ((), ("open-sesame",)):
        assert sealed(event, *values) == json.loads(msgspec.json.encode(event))


def test_strings_and_keys_are_redacted_wherever_they_are() -> None:
    document = {"a": ["x open-sesame y", {"open-sesame": {"deep": ["open-sesame"]}}], "n": 7, "ok": True}
    assert sealed(document, "open-sesame") == {
        "a": ["x [redacted] y", {"[redacted]": {"deep": ["[redacted]"]}}],
        "n": 7,
        "ok": True,
    }


def test_neighbours_share_a_mask() -> None:
    assert sealed(["open-sesameopen-sesame"], "open-sesame") == ["[redacted]"]


def test_a_secret_registered_later_is_hidden_from_then_on() -> None:
    redactor = SecretRedactor()
    redactor.register("EARLY", "open-sesame")
    assert redactor.seal("another-word").data == b'"another-word"'
    redactor.register("LATE", "another-word")
    assert redactor.seal("another-word").data == b'"[redacted]"'


def test_keys_that_become_equal_keep_their_values_apart() -> None:
    out = sealed({"first-secret": 1, "second-secret": 2, "[redacted]": 3}, "first-secret", "second-secret")
    assert sorted(out.values()) == [1, 2, 3]


def test_bytes_of_a_struct_are_redacted_in_their_base64() -> None:
    event = Event("build", datetime(2026, 11, 15, tzinfo=UTC), b"ab open-sesame cd", {})
    assert "[redacted]" in sealed(event, "open-sesame")["raw"]


@pytest.mark.parametrize("value", ['quo"ted\\value', "two\nlines", "tab\tbed-value", "bell\x07-value"])
def test_what_json_escapes_is_found_in_strings_and_in_json_inside_strings(value: str) -> None:
    document = {"plain": f"<{value}>", "nested": json.dumps({"deeper": json.dumps(value)})}
    out = sealed(document, value)
    assert out["plain"] == "<[redacted]>"
    assert json.loads(json.loads(out["nested"])["deeper"]) == "[redacted]"


def test_a_secret_that_is_a_document_itself_is_found_when_it_was_parsed() -> None:
    account = {"kind": "service", "private": "four-score", "id": 12}
    value = json.dumps(account, separators=(",", ":"))
    out = sealed({"name": "kept", "account": account}, value)
    assert value not in json.dumps(out, separators=(",", ":"))
    assert out["name"] == "kept"
    assert out["account"] == {"kind": "[redacted]", "private": "[redacted]", "id": 12}


def test_a_secret_made_of_punctuation_and_keys_still_leaves_valid_json() -> None:
    assert sealed([{"a": {"b": {}}}], '{"a":{"b":{}}}') == ["[redacted]"]


def test_numbers_stay_numbers() -> None:
    assert sealed({"port": 48_212, "text": "48212"}, "48212") == {"port": 48_212, "text": "[redacted]"}


def test_a_letter_after_an_escape_does_not_complete_a_secret() -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", "nine-lives")
    out = redactor.seal({"a": "x\nine-lives", "b": "kept"}).data
    assert b"nine-lives" not in out
    assert b"kept" in out


def test_a_mask_does_not_complete_a_secret() -> None:
    redactor = SecretRedactor()
    redactor.register("ONE", "open-sesame")
    redactor.register("TWO", "ted]and-more")
    assert redactor.seal({"a": "open-sesameand-more"}).data == b'{"a":"<redacted>and-more"}'


def test_names_that_are_no_utf_8_can_be_sealed() -> None:
    odd = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    assert sealed({"files": [odd], odd: 1}) == {"files": ["caf�.txt"], "caf�.txt": 1}
    assert sealed({"files": [f"{odd}-open-sesame"]}, "open-sesame") == {"files": ["caf�.txt-[redacted]"]}


def test_an_invalid_name_that_is_secret_is_hidden() -> None:
    odd = b"caf\xe9-noir-9".decode("utf-8", "surrogateescape")
    assert sealed({"file": f"/tmp/{odd}/x"}, odd) == {"file": "/tmp/[redacted]/x"}


WORDS = (
    *("AKIA" + "Q3EGRTUVWXYZ2345", "ghp" + "_" + "a1B2c3D4e5" * 3 + "f6G7h8", "AIza" + "SyD4f5G6h7J8k9L0m1N2o3P4q5R6s7T8u9V"),
    *("mysql -uroot -p" + "Zq8wK3mT5vRx db", "docker login -u ci -p " + "Zq8wK3mT5vRx registry.example"),
    *("redis-cli -a " + "Zq8wK3mT5vRx ping", "sshpass -p " + "Zq8wK3mT5vRx ssh host"),
    "postgres://u:" + "Zq8wK3mT5vRx@host/db",
)  # fmt: skip
"""Each holds something that the patterns find; made of parts, so that nobody takes this file for a leak."""


@settings(max_examples=300, deadline=None)
@given(
    before=st.text(st.sampled_from("ab \n\t\r\0\x1b\"\\/'é"), max_size=6),
    word=st.sampled_from(WORDS),
    after=st.text(st.sampled_from("ab \n\t\r\0\"\\/'é"), max_size=6),
    nested=st.booleans(),
)
def test_what_is_found_in_a_text_by_itself_is_found_in_a_document(
    before: str, word: str, after: str, nested: bool
) -> None:
    """In JSON a line break is a backslash and a letter, right before the word of the next line."""
    document = {"one": [{"run": before + word + after}]} if nested else {"run": before + word + after}
    redactor = environment_redactor({})
    named = redactor.masked_in(document)
    changed = redactor.seal(document).data != msgspec.json.encode(document)
    assert bool(named) == changed


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("before", ["set -e\n", "\t", "first\r\n", "a\0", 'say "\\n"\n'])
def test_a_secret_at_the_start_of_any_line_is_masked(word: str, before: str) -> None:
    assert word.encode() not in environment_redactor({}).seal({"run": before + word + " || true\n"}).data
