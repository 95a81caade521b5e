"""One line of the audit."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.audit.line import GENESIS, BadLine, Head, chained, entry_in, entry_of, read_line, require_next
from recoup.model.events import Event, decode_payload
from recoup.model.instant import Instant
from recoup.model.redacted import Redacted
from recoup.model.storage import Arrival
from recoup.redaction.redactor import SecretRedactor

seal = SecretRedactor().seal
AT = Instant(1_750_000_000_123_456, 5, "boot")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def arrival(payload: Any, stream: str = "run:a", number: int = 7) -> Arrival:
    return Arrival(number, stream, 3, AT, "task.run.interrupted", seal(payload))


def test_a_line_is_the_event_line_and_its_place_in_the_chain() -> None:
    came = arrival({"reason": "noted", "epoch": 1})
    line, head = chained(entry_of(came), GENESIS)
    document = json.loads(line)
    event = Event("run:a", 3, AT, came.type, decode_payload(came.type, came.payload.data), came.payload.data)
    public = json.loads(msgspec.json.encode(event.line()))
    assert {key: document[key] for key in public} == public
    assert list(document) == [*public, "arrival", "n", "prev", "hash"]
    assert (document["arrival"], document["n"], document["prev"]) == (7, 1, "0" * 64)
    assert head == Head(1, document["hash"], 7)


def test_anybody_can_check_a_hash_with_two_common_tools() -> None:
    """`sed 's/,"hash":"[0-9a-f]*"}$/}/' | tr -d '\\n' | sha256sum`."""
    line, head = chained(entry_of(arrival({"reason": ',"hash":"' + "0" * 64 + '"}'})), GENESIS)
    bare = re.sub(rb',"hash":"[0-9a-f]*"}\n$', b"}", line)
    assert hashlib.sha256(bare).hexdigest() == head.hash == json.loads(line)["hash"]


def test_the_format_does_not_change() -> None:
    line, _ = chained(entry_of(arrival({"reason": "noted"}, "workflow:w")), Head(4, "ab" * 32, 6))
    body = (
        '{"stream":"workflow:w","runId":null,"seq":3,"at":"2025-06-15T15:06:40.123456Z",'
        '"type":"task.run.interrupted","payload":{"reason":"noted"},"arrival":7,"n":5,"prev":"' + "ab" * 32
    )
    assert line.decode().startswith(body + '","hash":"')


def test_text_that_was_not_redacted_cannot_enter() -> None:
    raw = Arrival(1, "run:a", 1, AT, "task.run.interrupted", cast(Redacted, b'{"reason":"x"}'))
    with pytest.raises(AssertionError, match="only redacted text reaches the audit"):
        entry_of(raw)


def test_a_payload_with_line_breaks_stays_on_one_line() -> None:
    pretty = SecretRedactor().redact('{\n  "reason": "a\\nb"\n}')
    line, _ = chained(entry_of(Arrival(1, "run:a", 1, AT, "t", pretty)), GENESIS)
    assert line.count(b"\n") == 1
    assert json.loads(line)["payload"] == {"reason": "a\nb"}


@given(
    payload=st.dictionaries(st.text(), json_values, max_size=4),
    stream=st.text(),
    number=st.integers(1, 2**40),
)
def test_what_was_written_is_read(payload: Any, stream: str, number: int) -> None:
    entry = entry_of(arrival(payload, stream, number))
    line, head = chained(entry, GENESIS)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    link = read_line(line[:-1])
    assert (entry_in(link), link.head) == (entry, head)
    require_next(link, GENESIS)


def test_a_line_must_hang_on_the_one_before_it() -> None:
    first, head = chained(entry_of(arrival({}, number=7)), GENESIS)
    again, _ = chained(entry_of(arrival({}, number=7)), head)
    elsewhere, _ = chained(entry_of(arrival({}, number=8)), Head(1, "1" * 64, 7))
    for line, words in ((first, "number 1"), (again, "does not come after"), (elsewhere, "does not hang")):
        with pytest.raises(BadLine, match=words):
            require_next(read_line(line[:-1]), head)


@pytest.mark.parametrize("line", [b"", b"{}", b"\x00" * 500, b'{"hash":"' + b"0" * 64 + b'"}', b"\xff" * 80])
def test_what_is_not_a_line_is_said_to_be_none(line: bytes) -> None:
    with pytest.raises(BadLine):
        read_line(line)


def test_a_sealed_line_of_another_kind_is_refused() -> None:
    body = b'{"stream":"run:a"}'
    with pytest.raises(BadLine, match="not a line of an audit"):
        read_line(b'%b,"hash":"%b"}' % (body[:-1], hashlib.sha256(body).hexdigest().encode()))
