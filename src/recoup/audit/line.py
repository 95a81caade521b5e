"""One line of the audit, and how it hangs on the line before it."""

from __future__ import annotations

import base64
import hashlib
import re

import msgspec

from recoup.model.events import why_unreadable
from recoup.model.instant import Instant
from recoup.model.redacted import Redacted
from recoup.model.storage import Arrival

LINE_BYTES_MAX = 256 << 20
"""Its end included. Four times the largest plan that a policy allows; nothing longer is written or read."""
GAP = "audit.gap"
GAP_STREAM = "audit"
"""No stream of the ledger: it marks the lines that the audit adds by itself."""

_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}', re.ASCII)
_SEAL_BYTES = len(',"hash":""}') + 64


class Head(msgspec.Struct, frozen=True):
    """Where the chain ends."""

    n: int
    hash: str
    arrival: int
    """The number of the last event in it, by which the ledger is asked for those that follow."""


GENESIS = Head(0, "0" * 64, 0)


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """What a line says, whatever its place in the chain. The first six fields are the public event line.

    A later version may add fields: its lines are read without them, and the hash covers them all the same.
    """

    stream: str
    run_id: str | None
    seq: int
    at: str
    type: str
    payload: msgspec.Raw
    arrival: int


class Body(Entry, frozen=True, rename="camel"):
    """A line without its hash."""

    n: int
    prev: str


class Link(msgspec.Struct, frozen=True):
    """A line whose hash fits it."""

    body: Body
    hash: str

    @property
    def head(self) -> Head:
        """The end of a chain that ends here."""
        return Head(self.body.n, self.hash, self.body.arrival)

    @property
    def is_gap(self) -> bool:
        return self.body.type == GAP and self.body.stream == GAP_STREAM


class Gap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The payload of a line that marks where lines were lost. What it says is made by the program alone."""

    reason: str
    """torn (the last line has no end) | damaged | cut (the file ends too early) | lost (the file is gone)."""
    file: str
    offset: int
    bytes: int
    kept_as: str | None
    """The file in the same folder that holds these bytes."""
    lines_lost: int | None
    """How many whole lines are known to have stood there."""
    up_to: int
    """The number of the last event that is known to have stood there, or that of the last one before."""


class BadLine(Exception):
    """In words: what is wrong with a line."""


class TooLong(BadLine):
    """No event makes such a line: what stands there is read no further."""

    def __init__(self) -> None:
        super().__init__(f"the line is longer than {LINE_BYTES_MAX} bytes")


def entry_of(arrival: Arrival) -> Entry:
    payload = arrival.payload
    assert isinstance(payload, Redacted), (
        f"only redacted text reaches the audit, not {type(payload).__name__}"
    )
    stream = arrival.stream
    return Entry(
        stream=stream,
        run_id=stream[4:] if stream.startswith("run:") else None,
        seq=arrival.seq,
        at=arrival.at.iso(),
        type=arrival.type,
        payload=msgspec.Raw(_as_json(payload.data)),
        arrival=arrival.number,
    )


def gap_entry(gap: Gap, head: Head, at: Instant) -> Entry:
    return Entry(
        stream=GAP_STREAM,
        run_id=None,
        seq=head.n + 1,
        at=at.iso(),
        type=GAP,
        payload=msgspec.Raw(msgspec.json.encode(gap)),
        arrival=head.arrival,
    )


def chained(entry: Entry, head: Head) -> tuple[bytes, Head]:
    """The line that follows `head`, its end included, and the head it makes."""
    body = _encode_body(entry, head)
    seal = hashlib.sha256(body).hexdigest()
    line = b'%b,"hash":"%b"}\n' % (body[:-1], seal.encode())
    return line, Head(head.n + 1, seal, entry.arrival)


def read_line(line: bytes) -> Link:
    """Of a whole line, without its end. Raises BadLine."""
    seal = _SEAL.fullmatch(line, max(0, len(line) - _SEAL_BYTES))
    if seal is None:
        raise BadLine("it does not end with a hash")
    body = line[:-_SEAL_BYTES] + b"}"
    found = seal[1].decode()
    if hashlib.sha256(body).hexdigest() != found:
        raise BadLine("its hash does not fit: the line was altered")
    try:
        return Link(_decode_body(body), found)
    except msgspec.MsgspecError as error:
        raise BadLine(f"it is not a line of an audit: {error}") from None


def require_next(link: Link, head: Head) -> None:
    """Raises BadLine unless the link hangs on the head."""
    body = link.body
    if body.n != head.n + 1:
        raise BadLine(f"it is number {body.n} where {head.n + 1} was expected")
    if body.prev != head.hash:
        raise BadLine("it does not hang on the line before it")
    forward = body.arrival == head.arrival if link.is_gap else body.arrival > head.arrival
    if not forward:
        raise BadLine(f"event {body.arrival} does not come after event {head.arrival}")


def entry_in(link: Link) -> Entry:
    body = link.body
    return Entry(body.stream, body.run_id, body.seq, body.at, body.type, body.payload, body.arrival)


def gap_in(link: Link) -> Gap:
    """Raises BadLine."""
    try:
        return msgspec.json.decode(link.body.payload, type=Gap)
    except msgspec.MsgspecError as error:
        raise BadLine(f"its gap cannot be read: {error}") from None


_encode = msgspec.json.Encoder().encode
_decode_body = msgspec.json.Decoder(Body).decode


def _encode_body(entry: Entry, head: Head) -> bytes:
    return _encode(
        Body(
            stream=entry.stream,
            run_id=entry.run_id,
            seq=entry.seq,
            at=entry.at,
            type=entry.type,
            payload=entry.payload,
            arrival=entry.arrival,
            n=head.n + 1,
            prev=head.hash,
        )
    )


def _as_json(payload: bytes) -> bytes:
    """Bytes that are not JSON, because the ledger is damaged, are encoded: the chain must stay readable."""
    reason = why_unreadable(payload)
    if reason is None:
        return _on_one_line(payload)
    return msgspec.json.encode({"unreadable": reason, "bytes": base64.b64encode(payload).decode()})


def _on_one_line(payload: bytes) -> bytes:
    """We write JSON without line breaks; another program's may have some between its values."""
    return msgspec.json.format(payload, indent=-1) if b"\n" in payload else payload
