"""A gateway for probes on loopback: a small real server that keeps everything in memory and passes `GatewaySuite`.

Tests close and open it on the same port, have it answer what they like for a while, and look into its book.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import h11
import msgspec

from recoup.model.probe_wire import (
    BODY_BYTES_MAX,
    COMMANDS_PATH,
    ESCALATIONS_PATH,
    EVENTS_PATH,
    PROBLEM_MEDIA_TYPE,
    WAIT_S_MAX,
    Commands,
)
from recoup.testing.gateway_book import GatewayBook, Refused

_CHUNK_BYTES = 1 << 16
_EVENTS_PAGE = 1_000
_REQUEST_S = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    asked: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = b"{}"
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class GatewayStandIn:
    """One gateway. What it knows outlives its being closed."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.token = secrets.token_hex(16)
        self.book = GatewayBook()
        self.requests: deque[Request] = deque(maxlen=1_000)
        self.replies: deque[Reply] = deque()
        """Given to the next batches of events, which are not taken."""
        self.before_answer: Callable[[Request], None] = lambda _request: None
        """Called when a request was carried out and has yet to be answered."""
        self._tls = tls
        self._port = 0
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._ordered = asyncio.Event()

    @property
    def people_token(self) -> str:
        """It does not ask who anybody is."""
        return self.token

    @property
    def probe(self) -> str:
        return "suite"

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    async def open(self) -> None:
        """On the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, ssl=self._tls)
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Requests that are under way are cut off."""
        assert self._server is not None, "it is not open"
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving)
        await self._server.wait_closed()
        self._server = None

    async def restart(self) -> None:
        await self.close()
        await self.open()

    async def __aenter__(self) -> GatewayStandIn:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            await self.close()

    def order(self, probe_id: str, **command: Any) -> None:
        """Have the probe told; nothing is checked, so that a test can ask for what is forbidden."""
        self.book.order(msgspec.json.encode({"probe_id": probe_id, "command": command}))
        self._wake()

    def types(self, probe_id: str) -> list[str]:
        """Of the events that it was told, in order."""
        return [event["type"] for event in self.book.events(probe_id, 0, 1 << 30)]

    # One connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a server gives every connection a task"
        self._serving.add(task)
        try:
            async with asyncio.timeout(WAIT_S_MAX + _REQUEST_S):
                await self._converse(reader, writer)
            writer.close()
        except (OSError, TimeoutError, h11.ProtocolError, asyncio.CancelledError):
            # Cancelled by `close`, and nobody else: the streams report a task that ends so as a fault.
            writer.transport.abort()
        finally:
            self._serving.discard(task)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection: nothing is kept alive."""
        wire = h11.Connection(h11.SERVER)
        try:
            request = await self._request(wire, reader)
            reply = await self._reply(request)
            self.before_answer(request)
        except Refused as refused:
            reply = _refusal(refused)
        except h11.RemoteProtocolError:
            reply = _refusal(Refused(400, "malformed", "this is not HTTP"))
        writer.write(_written(wire, reply))
        await writer.drain()
        if wire.their_state is not h11.DONE:
            # Closing with something unread would reset the connection, and take the answer with it.
            writer.write_eof() if writer.can_write_eof() else None
            await _drain(reader)

    async def _request(self, wire: h11.Connection, reader: asyncio.StreamReader) -> Request:
        """Raises Refused before a body is read that is too long, or not from one who may send it."""
        head, body = await _head(wire, reader), bytearray()
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        self._check_token(headers.get("authorization", ""))
        if int(headers.get("content-length", "0")) > BODY_BYTES_MAX:
            raise _too_long()
        while not isinstance(event := await _next(wire, reader), h11.EndOfMessage):
            assert isinstance(event, h11.Data), f"{event} in a body"
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                raise _too_long()
        parts = urlsplit(head.target.decode("latin-1"))
        return Request(head.method.decode(), parts.path, dict(parse_qsl(parts.query)), bytes(body))

    def _check_token(self, sent: str) -> None:
        if not hmac.compare_digest(sent.encode(), f"Bearer {self.token}".encode()):
            raise Refused(401, "token", "send the gateway's token: Authorization: Bearer TOKEN")

    # One request

    async def _reply(self, request: Request) -> Reply:
        self.requests.append(request)
        if self.replies and (request.method, request.path) == ("POST", EVENTS_PATH):
            return self.replies.popleft()
        match request.method, request.path:
            case "POST", "/api/probe/events":
                reply = msgspec.json.encode(self.book.ingest(request.body))
                self._wake()
                return Reply(200, reply)
            case "GET", "/api/probe/events":
                return Reply(200, msgspec.json.encode({"events": self._page(request)}))
            case "GET", "/api/probe/commands":
                return Reply(200, msgspec.json.encode(await self._commands(request)))
            case "POST", "/api/probe/commands":
                self.book.order(request.body)
                self._wake()
                return Reply(201)
            case "GET", "/api/escalations":
                return Reply(200, msgspec.json.encode({"escalations": list(self.book.escalations.values())}))
            case _, path if path in (EVENTS_PATH, COMMANDS_PATH, ESCALATIONS_PATH):
                raise Refused(405, "method", f"{path} does not know {request.method}")
            case _, path:
                raise Refused(404, "not_found", f"there is nothing at {path}")

    def _page(self, request: Request) -> list[dict[str, Any]]:
        after = _number(request, "after", 0)
        return self.book.events(_said(request, "probe_id"), int(after), _EVENTS_PAGE)

    async def _commands(self, request: Request) -> Commands:
        probe_id, epoch = _said(request, "probe_id"), int(_number(request, "lease_epoch", None))
        waiting = self.book.waiting(probe_id, epoch)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_number(request, "wait_s", 0), WAIT_S_MAX)):
                while not waiting:
                    await self._ordered.wait()
                    waiting = self.book.waiting(probe_id, epoch)
        return Commands(commands=tuple(waiting))

    def _wake(self) -> None:
        self._ordered.set()
        self._ordered = asyncio.Event()


def _said(request: Request, name: str) -> str:
    if not (value := request.asked.get(name)):
        raise Refused(400, "malformed", f"`{name}` is missing")
    return value


def _number(request: Request, name: str, default: float | None) -> float:
    try:
        value = float(request.asked.get(name, "" if default is None else str(default)))
    except ValueError:
        value = -1
    if not 0 <= value <= 2**53:
        raise Refused(400, "malformed", f"`{name}` must be a number")
    return value


def _too_long() -> Refused:
    return Refused(413, "too_long", f"a body may have {BODY_BYTES_MAX} bytes")


def _refusal(refused: Refused) -> Reply:
    headers = {"WWW-Authenticate": "Bearer"} if refused.problem.status == 401 else {}
    body = msgspec.json.encode(refused.problem)
    return Reply(refused.problem.status, body, PROBLEM_MEDIA_TYPE, headers)


def _written(wire: h11.Connection, reply: Reply) -> bytes:
    headers = {
        "Content-Type": reply.media_type,
        "Content-Length": str(len(reply.body)),
        "Connection": "close",
        **reply.headers,
    }
    response = h11.Response(status_code=reply.status, headers=list(headers.items()))
    return b"".join(wire.send(one) or b"" for one in (response, h11.Data(reply.body), h11.EndOfMessage()))


async def _head(wire: h11.Connection, reader: asyncio.StreamReader) -> h11.Request:
    event = await _next(wire, reader)
    if not isinstance(event, h11.Request):
        raise ConnectionResetError("closed without a request")
    return event


async def _next(wire: h11.Connection, reader: asyncio.StreamReader) -> h11.Event:
    while (event := wire.next_event()) in (h11.NEED_DATA, h11.PAUSED):
        wire.receive_data(await reader.read(_CHUNK_BYTES))
    assert not isinstance(event, type), f"{event} is nothing to answer"
    return event


async def _drain(reader: asyncio.StreamReader) -> None:
    for _ in range(100):
        if not await reader.read(_CHUNK_BYTES):
            return
