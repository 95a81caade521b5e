"""How long a connection is waited for: for the head of a request, for its body, for whoever does not take an answer.

uvicorn waits between two requests only. Whoever sends a letter a minute would keep a connection for ever, and whoever
asks for much and reads nothing would keep the answer in memory.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import MutableMapping
from functools import partial
from typing import Any, Final, cast

import h11
import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from recoup.serving.brake import sender_of
from recoup.serving.places import Places

CLOSE_S_MAX: Final = 0.5
WRITE_BUFFER_BYTES: Final = 32 << 10
"""So much waits here for a client before nobody writes to it; and about so much again in the system."""
SOCKET_BUFFER_BYTES: Final = 128 << 10
TAKEN_BYTES_MIN: Final = 4 << 10
"""Whoever takes less in the time given takes nothing."""


_CONNECTION: Final = "recoup.connection"


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a client is waited for."""

    first_head_s_max: float = 3.0
    """From the beginning of a connection to the end of its first head."""
    head_s_max: float = 10.0
    """From the first byte of a later request to the end of its head."""
    body_s_max: float = 30.0
    """From there to the end of its body."""
    send_s_max: float = 10.0
    """While it takes nothing of what it is sent."""


def protocol(patience: Patience, places: Places) -> type[asyncio.Protocol]:
    """For `uvicorn.Config.http`, which calls it for each connection."""
    return cast("type[asyncio.Protocol]", partial(PatientProtocol, patience, places))


def prove(scope: MutableMapping[str, Any]) -> None:
    """This request showed a valid token or session: its connection keeps its place when others must go."""
    if (connection := scope.get(_CONNECTION)) is not None:
        connection.prove()


class PatientProtocol(H11Protocol):
    """Patient within limits."""

    def __init__(self, patience: Patience, places: Places, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._patience = patience
        self._places = places
        self._is_new = True
        self.app = cast("Any", self._known_to(cast("ASGIApp", self.app)))
        self._asked: asyncio.TimerHandle | None = None
        self._asked_for: Any = None
        self._taking: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self.limit_concurrency = None if self._places.enter(self) else 0
        self._wait_for_request()

    # Its place

    @property
    def sender(self) -> str:
        return sender_of(self.client[0]) if self.client else ""

    @property
    def is_idle(self) -> bool:
        return bool(getattr(self.cycle, "response_complete", True))  # there is none before the first request

    def drop(self) -> None:
        self.transport.abort()

    def prove(self) -> None:
        self._places.prove(self)

    def _known_to(self, app: ASGIApp) -> ASGIApp:
        """The application can report that this connection has authenticated."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, _CONNECTION: self}, receive, send)

        return answer

    # How long it is waited for

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._places.leave(self)
        self._wait_no_more()
        if self._closing is not None:
            self._closing.cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
        super().resume_writing()

    def _wait_for_request(self) -> None:
        """From the first byte of a part to its last, however many there are between them."""
        missing = self.conn.their_state
        if missing is self._asked_for and self._asked is not None:
            return
        self._wait_no_more()
        head_s_max = self._patience.first_head_s_max if self._is_new else self._patience.head_s_max
        limits_s = {h11.IDLE: head_s_max, h11.SEND_BODY: self._patience.body_s_max}
        self._is_new = self._is_new and missing is h11.IDLE
        if missing in limits_s:
            self._asked_for = missing
            self._asked = self.loop.call_later(limits_s[missing], self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._asked is not None:
            self._asked.cancel()
            self._asked = None

    def on_response_complete(self) -> None:
        self._wait_no_more()  # until the next one begins uvicorn waits
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_soon()
        if self.conn.their_state is h11.SEND_BODY:
            self._wait_for_request()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._close_soon()

    def _close_soon(self) -> None:
        """Under TLS both say goodbye, and whoever does not answer would be waited for half a minute."""
        self._closing = self.loop.call_later(CLOSE_S_MAX, self._close_now)

    def _close_now(self) -> None:
        if self.transport.get_write_buffer_size():
            self._close_soon()
        else:
            self.transport.abort()

    def _wait_for_reader(self) -> None:
        held = self.transport.get_write_buffer_size()
        self._taking = self.loop.call_later(self._patience.send_s_max, self._look_at_reader, held)

    def _look_at_reader(self, held: int) -> None:
        if held - self.transport.get_write_buffer_size() < TAKEN_BYTES_MIN:
            self.transport.abort()
        else:
            self._wait_for_reader()


def bound_buffers(listening: socket.socket) -> None:
    """Of every connection that it takes."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
