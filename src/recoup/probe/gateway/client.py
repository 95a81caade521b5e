"""One request to the gateway and its answer: HTTP/1.1 by h11, over the event loop's own streams, so that a request that
waits can be given up at once.

A connection is used once. Certificates are verified, redirections are not followed: the token goes to the address in
the probe file and nowhere else.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import urlencode, urlsplit

import h11
import msgspec

from recoup import __version__
from recoup.errors import UsageError
from recoup.kernel.probe_gateway import refuse_address
from recoup.model.probe_wire import BODY_BYTES_MAX, Problem

CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
CHUNK_BYTES: Final = 1 << 16
HEAD_BYTES_MAX: Final = 1 << 14
_PORTS: Final = {"http": 80, "https": 443}


class Unreachable(Exception):
    """There was no answer, or none that is HTTP; `str` says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    retry_after_s: float | None = None
    """How long the gateway wants to be left alone."""

    @property
    def problem(self) -> Problem:
        """What it says is wrong; an empty one where it does not say it in our words."""
        try:
            return msgspec.json.decode(self.body, type=Problem)
        except msgspec.DecodeError:
            return Problem()


class GatewayClient:
    """Asks one gateway. Raises UsageError at once when its address must not be sent a token."""

    def __init__(self, url: str, token: str) -> None:
        if why := refuse_address(url):
            raise UsageError(
                f"the gateway's address {url!r} cannot be used: {why}",
                hint="Write `gateway: https://HOST:PORT` in the probe file.",
            )
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise UsageError(
                "the gateway's token is empty, or holds what cannot be sent",
                hint="Set RECOUP_TOKEN to the token that the gateway accepts: printable ASCII, no spaces.",
            )
        self._url = urlsplit(url.rstrip("/"))
        self._token = token
        self.shown = f"{self._url.scheme}://{self._url.netloc}{self._url.path}"

    async def post(self, path: str, body: bytes) -> Answer:
        return await self._ask("POST", path, body, ANSWER_S)

    async def get(self, path: str, asked: Mapping[str, str], wait_s: float = 0) -> Answer:
        """With `wait_s`: the gateway may take so long before it answers."""
        return await self._ask("GET", f"{path}?{urlencode(asked)}", b"", wait_s + ANSWER_S)

    async def _ask(self, method: str, target: str, body: bytes, within_s: float) -> Answer:
        try:
            async with asyncio.timeout(within_s):
                return await self._exchange(method, target, body)
        except TimeoutError:
            raise Unreachable(f"{self.shown} has not answered within {within_s:g} s") from None
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreachable(f"{self.shown} cannot be reached: {why}") from error
        except h11.RemoteProtocolError as error:
            raise Unreachable(f"{self.shown} does not answer in HTTP: {error}") from error

    async def _exchange(self, method: str, target: str, body: bytes) -> Answer:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(
                self._url.hostname, self._url.port or _PORTS[self._url.scheme], ssl=self._tls
            )
        try:
            wire = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
            # Not drained: an answer may come before everything was taken, and says more than a broken pipe.
            writer.write(self._written(wire, method, target, body))
            return await _answer(wire, reader)
        finally:
            writer.transport.abort()

    def _written(self, wire: h11.Connection, method: str, target: str, body: bytes) -> bytes:
        headers = [
            ("Host", self._url.netloc),
            ("User-Agent", f"recoup-probe/{__version__}"),
            ("Authorization", f"Bearer {self._token}"),
            ("Accept", "application/json, application/problem+json"),
            ("Connection", "close"),
            ("Content-Length", str(len(body))),
        ]
        if body:
            headers.append(("Content-Type", "application/json"))
        request = h11.Request(method=method, target=self._url.path + target, headers=headers)
        written = (wire.send(one) or b"" for one in (request, h11.Data(body), h11.EndOfMessage()))
        return b"".join(written)

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        return ssl.create_default_context() if self._url.scheme == "https" else None


async def _answer(wire: h11.Connection, reader: asyncio.StreamReader) -> Answer:
    status, told, body = 0, None, bytearray()
    wire.receive_data(await _first(reader))
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wire.receive_data(await reader.read(CHUNK_BYTES))
        elif isinstance(event, h11.Response):
            status, told = event.status_code, _seconds(dict(event.headers).get(b"retry-after"))
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                raise h11.RemoteProtocolError(f"an answer of more than {BODY_BYTES_MAX} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, bytes(body), told)
        else:
            assert isinstance(event, h11.InformationalResponse), f"{event} is no part of an answer"


async def _first(reader: asyncio.StreamReader) -> bytes:
    if chunk := await reader.read(CHUNK_BYTES):
        return chunk
    raise ConnectionResetError("the connection was closed before an answer")


def _seconds(written: bytes | None) -> float | None:
    """A date is passed by: clocks differ."""
    return float(written) if written and written.isdigit() and len(written) < 10 else None
