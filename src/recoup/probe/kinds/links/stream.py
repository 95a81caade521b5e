"""A bare connection: TCP, or a unix socket. What arrives is read and forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from recoup.probe.kinds.links.link import Broken, Lost, trouble_in

CHUNK_BYTES: Final = 64 << 10
KEEPALIVE_IDLE_S: Final = 10
KEEPALIVE_EVERY_S: Final = 5
KEEPALIVE_FAILURES: Final = 3
"""The kernel asks an idle peer so often: a machine that vanished without a word is noticed in under half a minute."""


Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def tcp_link(host: str, port: int, lost: Lost) -> StreamLink:
    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(host, port)
        keep_alive(writer)
        return reader, writer

    return StreamLink(f"{host}:{port}", connect, lost)


def unix_link(path: Path, lost: Lost) -> StreamLink:
    return StreamLink(str(path), lambda: asyncio.open_unix_connection(path), lost)


class StreamLink:
    """Held open by a reader that waits for its end."""

    def __init__(self, shown: str, connect: Connect, lost: Lost) -> None:
        self.shown = shown
        self._connect = connect
        self._lost = lost
        self._writer: asyncio.StreamWriter | None = None
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        assert self._writer is None, "one connection at a time"
        reader, self._writer = await self._connect()
        self._watching = asyncio.create_task(self._watch(reader))

    async def look(self) -> None:
        if self._watching is None or self._watching.done():
            raise Broken("the connection is closed", "closed")

    async def close(self) -> None:
        writer, watching, self._writer, self._watching = self._writer, self._watching, None, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait({watching})
        if writer is not None:
            writer.transport.abort()

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        try:
            while await reader.read(CHUNK_BYTES):
                pass
        except OSError as error:
            self._lost(*trouble_in(error))
        else:
            self._lost("the other side has closed the connection", "closed")


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Where the system has words for it."""
    raw: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_EVERY_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_FAILURES)
