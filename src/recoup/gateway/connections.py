"""How long a connection is waited for: for the head of a request, for its body, for whoever does not take an answer.

uvicorn waits between two requests only. Whoever sends a letter a minute would keep a connection for ever, and whoever
asks for much and reads nothing would keep the answer in memory.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from recoup.gateway.limits import Patience

CLOSE_S_MAX: Final = 0.5
WRITE_BUFFER_BYTES: Final = 32 << 10
"""So much waits here for a client before nobody writes to it; and about so much again in the system."""
SOCKET_BUFFER_BYTES: Final = 128 << 10
TAKEN_BYTES_MIN: Final = 4 << 10
"""Whoever takes less in the time given takes nothing."""


class PatientProtocol(H11Protocol):
    """Patient within limits."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._patience: Patience = self.config.app.state.house.patience  # type: ignore[union-attr]
        self._asked: asyncio.TimerHandle | None = None
        self._asked_for: Any = None
        self._taking: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
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
        limits_s = {h11.IDLE: self._patience.head_s_max, h11.SEND_BODY: self._patience.body_s_max}
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
