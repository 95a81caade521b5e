"""A depot in the database: for fleets that have nothing else to share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from recoup.depot.names import NAMES_MAX, checked_name, checked_prefix, checked_size
from recoup.errors import DepotError, NotFound, SettingsError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")

ROW_BYTES_MAX = 4 << 20
_CONNECT_S = 10
_STATEMENT_MS = 60_000
_LOCK = 0x5265_636F_7570_4465
"""Names the right to make the table."""

_EXISTS = "SELECT to_regclass('recoup.depot') IS NOT NULL"
_MAKE = (
    "CREATE SCHEMA IF NOT EXISTS recoup",
    """CREATE TABLE IF NOT EXISTS recoup.depot (
        name text COLLATE "C" NOT NULL,
        piece int NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (name, piece)
    )""",
    # What is encrypted cannot be compressed: the server need not try.
    "ALTER TABLE recoup.depot ALTER COLUMN body SET STORAGE EXTERNAL",
)
_DELETE = "DELETE FROM recoup.depot WHERE name = %s"
_INSERT = "INSERT INTO recoup.depot (name, piece, body) VALUES (%s, %s, %s)"
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended('recoup.depot:' || %s, 0))"
_SELECT = "SELECT body FROM recoup.depot WHERE name = %s ORDER BY piece"
_NAMES = """SELECT name FROM recoup.depot
    WHERE piece = 0 AND name >= %s AND name < %s ORDER BY name LIMIT %s"""
_LAST = "~"
"""Sorts behind whatever may stand in a name."""


class PostgresDepot:
    """Rows of at most 4 MB. One connection of its own, so that a large object never holds up an append."""

    def __init__(self, url: str) -> None:
        """`url` holds a password, and is never shown."""
        self._url = url
        self._connection: AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()
        self._made = False
        _library()

    async def put(self, name: str, data: bytes) -> None:
        checked_name(name)
        checked_size(name, data)
        starts = range(0, max(len(data), 1), ROW_BYTES_MAX)
        rows = [(name, piece, data[start : start + ROW_BYTES_MAX]) for piece, start in enumerate(starts)]

        async def write(connection: AsyncConnection[Any]) -> None:
            async with connection.transaction():
                await connection.execute(_ONE_AT_A_TIME, (name,))
                await connection.execute(_DELETE, (name,))
                for row in rows:
                    await connection.execute(_INSERT, row)

        await self._do(write)

    async def get(self, name: str) -> bytes:
        checked_name(name)

        async def read(connection: AsyncConnection[Any]) -> list[Any]:
            # One statement, so that it sees one state: the object as it was before it was replaced, or after.
            return await (await connection.execute(_SELECT, (name,), binary=True)).fetchall()

        rows = await self._do(read)
        if not rows:
            raise NotFound(f"{name} is not in the depot", hint="It was removed, or never stored.")
        return b"".join(bytes(body) for (body,) in rows)

    async def names(self, prefix: str) -> list[str]:
        checked_prefix(prefix)

        async def read(connection: AsyncConnection[Any]) -> list[Any]:
            return await (await connection.execute(_NAMES, (prefix, prefix + _LAST, NAMES_MAX))).fetchall()

        return [str(name) for (name,) in await self._do(read)]

    async def remove(self, name: str) -> None:
        checked_name(name)

        async def delete(connection: AsyncConnection[Any]) -> None:
            await connection.execute(_DELETE, (name,))

        await self._do(delete)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _do(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        import psycopg

        async with self._turn:
            try:
                return await work(await self._connected())
            except psycopg.Error as error:
                await self._drop()
                raise DepotError(
                    f"the database cannot be used as a depot: {_said(error)}",
                    hint="See that it runs and that this user may write there. Then: recoup resume RUN",
                ) from None
            except BaseException:
                # Cancelled in the midst of an answer: what comes next on this connection would be that answer.
                await self._drop()
                raise

    async def _connected(self) -> AsyncConnection[Any]:
        import psycopg

        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(
                self._url,
                autocommit=True,
                connect_timeout=_CONNECT_S,
                application_name="recoup depot",
                options=_with_limits(self._url),
            )
        if not self._made:
            await _make(self._connection)
            self._made = True
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _with_limits(url: str) -> str:
    """Behind the options of the address, which would otherwise be lost."""
    from psycopg.conninfo import conninfo_to_dict

    limits = f"-c statement_timeout={_STATEMENT_MS} -c idle_in_transaction_session_timeout={_STATEMENT_MS}"
    return f"{conninfo_to_dict(url).get('options') or ''} {limits}".strip()


async def _make(connection: AsyncConnection[Any]) -> None:
    """Unless it is there. Two that find it missing at once make it one after the other."""
    found = await (await connection.execute(_EXISTS)).fetchone()
    if found is not None and found[0]:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        for statement in _MAKE:
            await connection.execute(statement)


def _said(error: Any) -> str:
    """What the server says; whatever the library says by itself may hold the URL."""
    primary = error.diag.message_primary if error.sqlstate else None
    return primary or f"no connection ({type(error).__name__})"


def _library() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise SettingsError(
            "RECOUP_DATABASE names a PostgreSQL database, for which a library is missing",
            hint="pip install 'recoup[postgres]'",
        ) from None
