"""One connection that does nothing but listen, so that nobody who works waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import random

import psycopg

from recoup.dispatch.pg_connections import Connection, Connections, undisturbed
from recoup.dispatch.pg_queuer import CHANNEL

RETRY_MAX_S = 2.0
ANSWER_MAX_S = 5.0
_RETRY_S = 0.05


class Listener:
    """Counts what may be news. A connection that was made (again) is news, too: nobody knows what was missed."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._task: asyncio.Task[None] | None = None
        self.heard = 0
        self.news = asyncio.Event()

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="recoup-queue-listener")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _listen(self) -> None:
        retry_s = _RETRY_S
        while True:
            with contextlib.suppress(psycopg.Error, OSError):
                connection = await self._connections.connect()
                retry_s = _RETRY_S
                try:
                    await self._hear(connection)
                finally:
                    await connection.close()
            await asyncio.sleep(retry_s * random.uniform(0.5, 1))
            retry_s = min(2 * retry_s, RETRY_MAX_S)

    async def _hear(self, connection: Connection) -> None:
        async with asyncio.timeout(ANSWER_MAX_S):
            await undisturbed(connection, lambda one: one.execute(f"LISTEN {CHANNEL}"))
        self._tell()
        async for _ in connection.notifies():
            self._tell()

    def _tell(self) -> None:
        self.heard += 1
        self.news.set()
