"""A listening port whose connections are passed on to another one, so many at a time."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from recoup.model.probe import BindingKind

CONNECTIONS_MAX: Final = 256
"""At a time; further ones are closed at once."""
CHUNK_BYTES: Final = 64 << 10


class Forward:
    """From the first `listen` to `close`."""

    def __init__(self, kind: BindingKind) -> None:
        self._host, self._port = {"localhost": "127.0.0.1"}.get(kind.host, kind.host), kind.port
        self._timeout_s = kind.timeout_s
        target, _, port = kind.forward_to.rpartition(":")
        self._target = (target.strip("[]"), int(port))
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._own: set[tuple[str, int]] = set()
        """Where our own looks come from."""

    async def listen(self) -> int:
        """The port; with 0 in the file, the one that the system chose. Raises OSError."""
        self._server = await asyncio.start_server(self._arrived, self._host, self._port, limit=CHUNK_BYTES)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self._port

    async def look(self) -> None:
        """Raises OSError when nobody accepts connections here any more."""
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as ours:
            ours.bind((_reachable(self._host), 0))
            own = ours.getsockname()[:2]
            self._own.add(own)
            try:
                await loop.sock_connect(ours, (_reachable(self._host), self._port))
                await loop.sock_recv(ours, 1)  # its end: somebody here has taken it
            finally:
                self._own.discard(own)

    async def close(self) -> None:
        """Nobody listens, and nothing is passed on any more."""
        if self._server is not None:
            self._server.close()
        for task in self._passing:
            task.cancel()
        if self._passing:
            await asyncio.wait(self._passing)

    def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if writer.get_extra_info("peername")[:2] in self._own or len(self._passing) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        task.add_done_callback(lambda _task: writer.transport.abort())

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                far_reader, far_writer = await asyncio.open_connection(*self._target, limit=CHUNK_BYTES)
        except OSError:
            return  # nobody is there: the connection ends
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, far_writer))
                both.create_task(_pump(far_reader, writer))
        except* OSError:
            pass  # one side is gone, and so is the other then
        finally:
            far_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the end of it, which is passed on too. Never more in hand than the other side takes."""
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _reachable(host: str) -> str:
    """Where to reach what listens on every address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
