"""From any earlier version of the schema to this one, forward only, while older workers go on.

A migration only adds (tables, columns with defaults, indexes, functions under new names). `oldest_reader` is the oldest
version of the schema that a program must know to go on with this one.
"""

from __future__ import annotations

from collections.abc import Sequence

from recoup.errors import LedgerError, LedgerTooNew
from recoup.ledger.postgres.connecting import Address, Connection
from recoup.ledger.postgres.queries import sql_file

OLDEST_READER = 1
"""Of the newest script here."""

SCRIPTS = ("schema.sql", "schema-2.sql", "schema-3.sql", "schema-4.sql", "schema-5.sql", "schema-6.sql")
"""The script at index n leads from version n to version n + 1."""

LOCK_WAIT_MAX_MS = 3_000
"""A migration that has to wait for a table keeps everybody else waiting behind it."""

TURN_WAIT_MAX_MS = 60_000
"""For another process that migrates just now."""

_LOCK = 1380270926
_WHOLE_TABLES = "; ".join(
    f"SET LOCAL enable_{way} TO DEFAULT" for way in ("seqscan", "hashjoin", "mergejoin")
)
"""A migration reads them once, from end to end."""


async def migrate(
    connection: Connection,
    address: Address,
    scripts: Sequence[str] | None = None,
    oldest_reader: int = OLDEST_READER,
) -> None:
    """All in one transaction, under a lock that only migrations take and that ends with the connection; the version is
    read again there."""
    scripts = [sql_file(name) for name in SCRIPTS] if scripts is None else scripts
    if await schema_version(connection, address, len(scripts)) >= len(scripts):
        return
    # Before the transaction: one that was begun earlier may go on believing that there are no tables yet.
    patience = f"SET statement_timeout = {TURN_WAIT_MAX_MS}; SET lock_timeout = {TURN_WAIT_MAX_MS}"
    await connection.execute(patience.encode())
    await connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
    async with connection.transaction():
        await connection.execute(
            f"SET LOCAL lock_timeout = {LOCK_WAIT_MAX_MS}; SET LOCAL statement_timeout = 0; {_WHOLE_TABLES}".encode()
        )
        version = await schema_version(connection, address, len(scripts))
        for script in scripts[version:]:
            await connection.execute(script.encode())
        if version < len(scripts):
            await connection.execute("DELETE FROM ledger_version")
            said = (len(scripts), oldest_reader)
            await connection.execute("INSERT INTO ledger_version VALUES (%s, %s)", said)


async def schema_version(connection: Connection, address: Address, newest: int = len(SCRIPTS)) -> int:
    """0 for a database without a ledger. Raises LedgerTooNew."""
    # Asked for by name: a failed query would spoil the transaction.
    answer = await connection.execute("SELECT to_regclass('recoup.ledger_version') IS NOT NULL")
    if await answer.fetchone() != (True,):
        return 0
    answer = await connection.execute("SELECT version, oldest_reader FROM ledger_version")
    row = await answer.fetchone()
    version, oldest_reader = row or (0, 0)
    if oldest_reader > newest:
        raise LedgerTooNew(
            f"the ledger {address.name} has schema version {version}; this version of Recoup knows up to {newest}",
            hint="Upgrade Recoup, or choose another database with RECOUP_DATABASE.",
        )
    return int(version)


async def require_utf8(connection: Connection, address: Address) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise LedgerError(
            f"the database {address.name} keeps text as {encoding}, which cannot hold every character",
            hint="Create one with UTF-8: createdb --encoding=UTF8 --template=template0 NAME",
        )
