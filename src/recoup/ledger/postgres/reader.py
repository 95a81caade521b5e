"""Connections that (with one exception) only read: a few, made when they are needed, each for one question at a time.

Not psycopg's own pool: after a restart of the server that one tries again only after one, two, four seconds, and it
cannot say why it has no connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg

from recoup.errors import LedgerError
from recoup.ledger.postgres.connecting import READ_MAX_MS, Address, Connection, connect, cut_off_after
from recoup.ledger.postgres.faults import is_lock, is_passing, ledger_busy, ledger_error
from recoup.ledger.postgres.queries import queries

CONNECTIONS_MAX = 4
_RETRY_S = 0.02
_RETRY_MAX_S = 0.5
_CONNECT_MIN_S = 0.1
_Q = queries()

Values = Sequence[Any] | Mapping[str, Any]
T = TypeVar("T")


class Reader:
    """The connections of one process. Belongs to one event loop."""

    def __init__(
        self,
        address: Address,
        busy_max_s: float,
        connections_max: int = CONNECTIONS_MAX,
        *,
        writes: bool = False,
    ) -> None:
        """`writes`: for questions that may be asked again although they change something."""
        self._address = address
        self._writes = writes
        self._busy_max_s = busy_max_s
        self._free = asyncio.Semaphore(connections_max)
        self._idle: list[Connection] = []
        self._closed = False

    async def rows(self, name: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Of a named query."""

        async def question(connection: Connection) -> list[tuple[Any, ...]]:
            answer = await connection.execute(_Q[name], values, binary=True)
            return await answer.fetchall()

        return await self.ask(question)

    async def row(self, name: str, values: Values = ()) -> tuple[Any, ...] | None:
        return next(iter(await self.rows(name, values)), None)

    async def ask(self, question: Callable[[Connection], Awaitable[T]]) -> T:
        """Asked again when the connection was lost. Raises LedgerBusy, LedgerError."""
        deadline_s = time.monotonic() + self._busy_max_s
        pause_s = _RETRY_S
        while True:
            try:
                async with self._connection(deadline_s) as connection:
                    with cut_off_after(connection, READ_MAX_MS / 1000 + self._busy_max_s):
                        return await question(connection)
            except (psycopg.Error, OSError) as error:
                if not is_passing(error) or time.monotonic() + pause_s >= deadline_s:
                    raise self._words(error) from error
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(pause_s * 2, _RETRY_MAX_S)

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            await _close(self._idle.pop())

    @contextlib.asynccontextmanager
    async def _connection(self, deadline_s: float) -> AsyncIterator[Connection]:
        await self._enter(deadline_s)
        connection: Connection | None = None
        try:
            connection = self._idle.pop() if self._idle else await self._connected(deadline_s)
            yield connection
        finally:
            self._free.release()
            if connection is not None:
                await self._give_back(connection)

    async def _connected(self, deadline_s: float) -> Connection:
        left_s = max(_CONNECT_MIN_S, deadline_s - time.monotonic())
        return await connect(self._address, writes=self._writes, within_s=left_s)

    async def _enter(self, deadline_s: float) -> None:
        if self._closed:
            raise LedgerError(f"the ledger {self._address.name} was closed", hint="Open it again.")
        try:
            async with asyncio.timeout(max(0.0, deadline_s - time.monotonic())):
                await self._free.acquire()
        except TimeoutError:
            raise ledger_busy(None, self._address, self._busy_max_s) from None

    async def _give_back(self, connection: Connection) -> None:
        """One that was interrupted in the middle of an answer is of no use."""
        idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if idle and not connection.closed and not self._closed:
            self._idle.append(connection)
        else:
            await _close(connection)

    def _words(self, error: Exception) -> LedgerError:
        if is_lock(error):
            return ledger_busy(error, self._address, self._busy_max_s)
        return ledger_error(error, self._address)


async def _close(connection: Connection) -> None:
    with contextlib.suppress(psycopg.Error, OSError):
        await connection.close()
