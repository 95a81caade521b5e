"""HTTP/1.1 by h11, over the event loop's own streams, so that a request that waits can be given up at once.

A connection is used once. Certificates are verified, redirections are not followed, proxies not used: what is said goes
to the address that was named and nowhere else.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult

import h11

CONNECT_S: Final = 10.0
CHUNK_BYTES: Final = 1 << 16
HEAD_BYTES_MAX: Final = 1 << 14
_PORTS: Final = {"http": 80, "https": 443}


def tls_for(url: SplitResult) -> ssl.SSLContext | None:
    """To be kept: to read all certificates of a machine takes its time."""
    return ssl.create_default_context() if url.scheme == "https" else None


class Unreachable(Exception):
    """There was no answer, or none that is HTTP; `str` says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is sent. `Host`, the length and the end of the connection are added."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: bytes = b""
    within_s: float = 30.0
    answer_bytes_max: int = 0
    """Of the body of the answer; 0: its status is enough, and no more is read."""


@dataclass(frozen=True, slots=True)
class Heard:
    status: int
    body: bytes
    retry_after_s: float | None = None
    """How long the other side wants to be left alone."""


async def exchange(url: SplitResult, asked: Asked, shown: str, tls: ssl.SSLContext | None) -> Heard:
    """Raises Unreachable, with the address as it is `shown`."""
    try:
        async with asyncio.timeout(asked.within_s):
            return await _exchange(url, asked, tls)
    except TimeoutError:
        raise Unreachable(f"{shown} has not answered within {asked.within_s:g} s") from None
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unreachable(f"{shown} cannot be reached: {why}") from error
    except h11.RemoteProtocolError as error:
        raise Unreachable(f"{shown} does not answer in HTTP: {error}") from error


async def _exchange(url: SplitResult, asked: Asked, tls: ssl.SSLContext | None) -> Heard:
    reader, writer = await _connected(url, tls)
    try:
        wire = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        # Not drained: an answer may come before everything was taken, and says more than a broken pipe.
        writer.write(_written(wire, url, asked))
        return await _answer(wire, reader, asked.answer_bytes_max)
    finally:
        writer.transport.abort()


async def _connected(
    url: SplitResult, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(CONNECT_S):
            return await asyncio.open_connection(url.hostname, url.port or _PORTS[url.scheme], ssl=tls)
    except TimeoutError:
        # Not a TimeoutError: that would be told as the time for the whole answer, which is longer.
        raise ConnectionError(f"no connection within {CONNECT_S:g} s") from None


def _written(wire: h11.Connection, url: SplitResult, asked: Asked) -> bytes:
    headers = [
        ("Host", url.netloc),
        *asked.headers,
        ("Connection", "close"),
        ("Content-Length", str(len(asked.body))),
    ]
    request = h11.Request(method=asked.method, target=asked.target, headers=headers)
    return b"".join(wire.send(one) or b"" for one in (request, h11.Data(asked.body), h11.EndOfMessage()))


async def _answer(wire: h11.Connection, reader: asyncio.StreamReader, bytes_max: int) -> Heard:
    status, told, body = 0, None, bytearray()
    wire.receive_data(await _first(reader))
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wire.receive_data(await reader.read(CHUNK_BYTES))
        elif isinstance(event, h11.Response):
            status, told = event.status_code, _seconds(dict(event.headers).get(b"retry-after"))
            if not bytes_max:
                return Heard(status, b"", told)
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > bytes_max:
                raise h11.RemoteProtocolError(f"an answer of more than {bytes_max} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return Heard(status, bytes(body), told)
        else:
            assert isinstance(event, h11.InformationalResponse), f"{event} is no part of an answer"


async def _first(reader: asyncio.StreamReader) -> bytes:
    if chunk := await reader.read(CHUNK_BYTES):
        return chunk
    raise ConnectionResetError("the connection was closed before an answer")


def _seconds(written: bytes | None) -> float | None:
    """A date is passed by: clocks differ."""
    return float(written) if written and written.isdigit() and len(written) < 10 else None
