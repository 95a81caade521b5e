"""pgqueuer, told where its tables are, how it reaches them, and how they are made."""

from __future__ import annotations

import asyncio
import re
from typing import Any, NoReturn, Self, cast

import psycopg
from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.tm import TaskManager
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel
from pgqueuer.ports.driver import Driver, NotifyCallback
from psycopg import AsyncRawCursor

from recoup.dispatch.pg_connections import Connection, Connections
from recoup.dispatch.queries import queries

CHANNEL = "recoup_dispatch"
INSTALL_MAX_S = 60.0
LOCK_MAX_S = 30

_INSTALLING = 0x7265636F75700051
_Q = queries("pg.sql")


async def fetch(connection: Connection, sql: str, *args: object) -> list[dict[str, Any]]:
    """All rows of a query with PostgreSQL's own placeholders."""
    cursor = AsyncRawCursor(connection)
    await cursor.execute(sql, args or None)
    return await cursor.fetchall() if cursor.description else []


def queuer(driver: Driver) -> Queries:
    """Every name is given: others pgqueuer would read from the environment, under names as common as CHANNEL."""
    settings = DBSettings(
        prefix="",
        db_schema="recoup",
        channel=Channel(CHANNEL),
        function="fn_pgqueuer_changed",
        statistics_table="pgqueuer_statistics",
        queue_status_type="pgqueuer_status",
        queue_table="pgqueuer",
        queue_table_log="pgqueuer_log",
        trigger="tg_pgqueuer_changed",
        schedules_table="pgqueuer_schedules",
        durability=Durability.balanced,
        widen_id=True,
    )
    return Queries(
        driver,
        QueryBuilderEnvironment(settings),
        QueryQueueBuilder(settings),
        QuerySchedulerBuilder(settings),
    )


class BorrowingDriver(Driver):
    """Each question on a connection of the few. It never listens: pgqueuer's own driver would, on the connection that
    it works with, and so hold up all work for up to a second."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._shutdown = asyncio.Event()
        self._tm = TaskManager()

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        return await self._connections.run(lambda connection: fetch(connection, query, *args))

    async def execute(self, query: str, *args: object) -> str:
        await self.fetch(query, *args)
        return ""

    async def notify(self, channel: str, payload: str) -> None:
        await self.execute("SELECT pg_notify($1, $2)", channel, payload)

    async def add_listener(self, channel: str, callback: NotifyCallback) -> NoReturn:
        raise AssertionError(f"{callback} on {channel}: pg_listener.py has a connection of its own for that")

    @property
    def shutdown(self) -> asyncio.Event:
        return self._shutdown

    @property
    def tm(self) -> TaskManager:
        return self._tm

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


async def install(connections: Connections) -> None:
    """Makes the tables, or brings those of an older version up to date; a newer version's are left as they are."""
    rows = await connections.run(lambda connection: fetch(connection, _Q["installed"]))
    if not _is_enough(rows):
        await connections.run_alone(_install, INSTALL_MAX_S)


async def _install(connection: Connection) -> None:
    await fetch(connection, "SET statement_timeout = 0")
    await fetch(connection, f"SET lock_timeout = '{LOCK_MAX_S}s'")
    # Held until the connection is closed: the statements of an upgrade cannot share a transaction.
    await fetch(connection, "SELECT pg_advisory_lock($1)", _INSTALLING)
    if _is_enough(await fetch(connection, _Q["installed"])):
        return
    await _make_schema(connection)
    queries = queuer(PsycopgDriver(cast("psycopg.AsyncConnection", connection)))
    if await queries.schema_is_installed():
        await queries.apply_upgrade()
    else:
        await queries.install(create_schema=False)
    await queries.optimize_autovacuum()
    # That is meant for a log from which nothing is ever deleted.
    await fetch(
        connection,
        "ALTER TABLE recoup.pgqueuer_log RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold)",
    )
    await fetch(connection, _Q["tell_of_additions"])
    await fetch(connection, f"COMMENT ON TABLE recoup.pgqueuer IS '{_mark()}'")


async def _make_schema(connection: Connection) -> None:
    """Where it is there already, a user who may not make schemas can go on."""
    (row,) = await fetch(connection, _Q["schema_exists"])
    if row["found"]:
        return
    try:
        await fetch(connection, "CREATE SCHEMA IF NOT EXISTS recoup")
    except psycopg.errors.UniqueViolation:
        # The ledger made it at the same instant.
        return


def _is_enough(rows: list[dict[str, Any]]) -> bool:
    installed = rows[0]["mark"]
    return installed is not None and _version(installed) >= _version(_mark())


def _mark() -> str:
    from importlib.metadata import version

    return f"pgqueuer {version('pgqueuer')}"


def _version(mark: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", mark)[:3])
