"""Connections to PostgreSQL for the queue: a few for work, each used by one at a time; and how long one may try."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from recoup.errors import DispatchAway, DispatchError, SettingsError

CONNECT_MAX_S = 3
STATEMENT_MAX_MS = 10_000
SLEEP_MAX_S = 0.5
HUNG_UP_MAX_S = 0.5

_SLEEP_S = 0.02
_OPTIONS = (
    # A crash of the server may take the hints of its last moment with it: the sweeper finds the runs in the ledger.
    "synchronous_commit=off",
    f"statement_timeout={STATEMENT_MAX_MS}",
    f"idle_in_transaction_session_timeout={STATEMENT_MAX_MS}",
    # A queue empties and fills faster than its statistics are made: what is asked is always found by an index.
    "enable_seqscan=off",
    "jit=off",
)
_ALIVE: dict[str, str | int] = {
    "application_name": "recoup",
    "connect_timeout": CONNECT_MAX_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8_000,
}
_PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.FeatureNotSupported,
    TimeoutError,
)
"""Gone with another connection or a little later. The third: a newer program added a column, our plan is cached."""

_MISSING = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedObject,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)

Connection = psycopg.AsyncConnection[dict[str, Any]]
T = TypeVar("T")


class Connections:
    """Made when needed. psycopg's pool makes its own in the background, at its own pace, and tells a caller nothing but
    that time is up: here whoever asks learns why, and a server that is back is used at once."""

    def __init__(self, url: str, *, count_max: int, busy_max_s: float) -> None:
        self._conninfo, self._password = _read(url)
        self._busy_max_s = busy_max_s
        self._places = asyncio.Semaphore(count_max)
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._closed = False
        self.make_tables: Callable[[], Awaitable[None]] | None = None
        """To be called when somebody has dropped them."""

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """On a connection of the few, again with another one after a fault that may pass. Raises DispatchError."""

        async def attempt() -> T:
            async with self._borrowed() as connection:
                return await undisturbed(connection, work)

        return await self._tried(attempt, self._busy_max_s)

    async def run_alone(self, work: Callable[[Connection], Awaitable[T]], max_s: float) -> T:
        """On a connection of its own, which is closed afterwards with all that the work set or locked in it."""

        async def attempt() -> T:
            connection = await self.connect()
            try:
                return await undisturbed(connection, work)
            finally:
                await connection.close()

        return await self._tried(attempt, max_s)

    async def connect(self) -> Connection:
        """A new one; the caller closes it. Raises what psycopg raises."""
        return await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True, row_factory=dict_row)

    def words(self, error: BaseException) -> str:
        """What went wrong, without the password."""
        if isinstance(error, TimeoutError):
            return "no answer in time"
        text = " ".join(str(error).split()) or type(error).__name__
        return text.replace(self._password, "***") if self._password else text

    async def close(self) -> None:
        """Whoever still waits for an answer hears that it was closed."""
        self._closed = True
        for connection in self._busy:
            hang_up(connection)
        await self._drop_idle()

    async def _tried(self, attempt: Callable[[], Awaitable[T]], max_s: float) -> T:
        deadline_s = time.monotonic() + max_s
        sleep_s = _SLEEP_S
        while True:
            if self._closed:
                raise DispatchError("the queue was closed", hint="Open it again.")
            try:
                async with asyncio.timeout(deadline_s - time.monotonic()):
                    return await attempt()
            except _PASSING as error:
                left_s = deadline_s - time.monotonic()
                if left_s <= sleep_s:
                    raise self._gave_up(error, max_s) from None
            except psycopg.Error as error:
                if not (isinstance(error, _MISSING) and self.make_tables and time.monotonic() < deadline_s):
                    raise self._refused(error) from None
                await self.make_tables()
            # All at the same instant would find it as busy as before.
            await asyncio.sleep(sleep_s * random.uniform(0.5, 1))
            sleep_s = min(2 * sleep_s, SLEEP_MAX_S)

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[Connection]:
        async with self._places:
            connection = self._idle.pop() if self._idle else await self.connect()
            self._busy.add(connection)
            try:
                yield connection
            except BaseException as error:
                if isinstance(error, psycopg.errors.FeatureNotSupported):
                    await connection.close()
                elif connection.closed:
                    await self._drop_idle()
                raise
            finally:
                self._busy.discard(connection)
                await self._give_back(connection)

    async def _give_back(self, connection: Connection) -> None:
        if self._closed or connection.info.transaction_status != TransactionStatus.IDLE:
            await connection.close()
        else:
            self._idle.append(connection)

    async def _drop_idle(self) -> None:
        """When one of them was cut off the others probably were, too."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    def _gave_up(self, error: BaseException, max_s: float) -> DispatchError:
        return DispatchAway(
            f"the queue in PostgreSQL could not be used for {max_s:g} s: {self.words(error)}",
            hint="Check that the server runs and RECOUP_DATABASE is right. Nothing is lost: runs are in the ledger.",
        )

    def _refused(self, error: psycopg.Error) -> DispatchError:
        return DispatchError(
            f"the queue in PostgreSQL refused a request: {self.words(error)}",
            hint="Check what the user of RECOUP_DATABASE may do in the schema recoup.",
        )


async def undisturbed(connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Whoever gives up hangs up. psycopg, cancelled while it waits, would ask the server to stop, which may be frozen,
    and wait for that up to ten seconds more."""
    working = asyncio.ensure_future(work(connection))
    try:
        await asyncio.wait({working})
    except asyncio.CancelledError:
        hang_up(connection)
        # Its error is of no interest, and asyncio would complain of that.
        working.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait({working}, timeout=HUNG_UP_MAX_S)
        raise
    return working.result()


def hang_up(connection: Connection) -> None:
    """Whatever waits for an answer on it meets a lost connection at once."""
    with (
        contextlib.suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)


def _read(url: str) -> tuple[str, str]:
    """What to connect to, and the password in it."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        # What the client says about it quotes it, password and all.
        raise SettingsError(
            "RECOUP_DATABASE is no address of a PostgreSQL database",
            hint="Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters percent-encoded.",
        ) from None
    password = str(parts.get("password") or "")
    options = " ".join([str(parts.pop("options", "") or ""), *(f"-c {option}" for option in _OPTIONS)])
    return make_conninfo(make_conninfo("", **_ALIVE), **_known(parts), options=options.strip()), password


def _known(parts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in parts.items() if value is not None}
