"""Who has written: one connection of its own listens, and what this process has written is told, a few times a second.

Whoever asks before the listening has begun, or while it is interrupted, hears each time that something may be new.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

import psycopg

from recoup.errors import LedgerError
from recoup.ledger.postgres.connecting import Address, Connection, connect
from recoup.ledger.postgres.queries import queries
from recoup.ledger.postgres.reader import Reader

TELL_EVERY_S = 0.05
"""A notification takes a lock that all commits with one share: hence after the commit, and one for many."""

_BEGIN_MAX_S = 2.0
_AGAIN_S = 0.2
_AGAIN_MAX_S = 2.0
_Q = queries()


class Listener:
    """Counts what is heard. Begins when it is asked for the first time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._heard = 0
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()

    async def marker(self) -> int:
        """Differs from the last answer when another process has written."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="recoup-listener")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BEGIN_MAX_S):
                    await self._listening.wait()
        if not self._listening.is_set():
            self._heard += 1
        return self._heard

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _listen(self) -> None:
        pause_s = _AGAIN_S
        while True:
            with contextlib.suppress(psycopg.Error, OSError):
                connection = await connect(self._address, writes=True)
                try:
                    await connection.execute("LISTEN recoup")
                    pause_s = _AGAIN_S
                    await self._hear(connection)
                finally:
                    self._listening.clear()
                    self._heard += 1
                    await connection.close()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(pause_s * 2, _AGAIN_MAX_S)

    async def _hear(self, connection: Connection) -> None:
        # What was written before this moment was perhaps not heard.
        self._heard += 1
        self._listening.set()
        async for _ in connection.notifies():
            self._heard += 1


class Teller:
    """Tells everybody that this process has written, soon after."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._task: asyncio.Task[None] | None = None
        self._untold = False

    def written(self) -> None:
        self._untold = True
        if self._task is None:
            self._task = asyncio.create_task(self._tell(), name="recoup-teller")

    async def close(self) -> None:
        if self._task:
            await self._task

    async def _tell(self) -> None:
        try:
            while self._untold:
                self._untold = False
                # Lost with the connection: whoever listens has lost his, too, and looks.
                with contextlib.suppress(LedgerError):
                    await self._reader.rows("notify")
                await asyncio.sleep(TELL_EVERY_S)
        finally:
            self._task = None
