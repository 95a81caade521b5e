"""From any earlier version of the schema to this one, forward only.

A migration only adds (tables, columns with defaults, indexes): an older process that still runs can go on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from recoup.errors import LedgerError, LedgerTooNew
from recoup.ledger.queries import sql_file

APPLICATION_ID = 0x5265636F

SCRIPTS = (
    *("schema.sql", "schema-2.sql", "schema-3.sql", "schema-4.sql", "schema-5.sql"),
    *("schema-6.sql", "schema-7.sql"),
)
"""The script at index n leads from version n to version n + 1."""

_IDENTITY = (
    "CREATE TABLE IF NOT EXISTS ledger_identity (id TEXT NOT NULL)",
    "INSERT INTO ledger_identity SELECT lower(hex(randomblob(16)))"
    " WHERE NOT EXISTS (SELECT 1 FROM ledger_identity)",
)
"""Not a version of its own: earlier versions of Recoup need not know it, and can still open the ledger."""


def migrate(connection: sqlite3.Connection, path: Path, scripts: Sequence[str] | None = None) -> None:
    """All in one transaction, under SQLite's write lock; the version is read again there."""
    newest = len(SCRIPTS if scripts is None else scripts)
    if schema_version(connection, path, newest) == newest and identity_of(connection):
        return
    scripts = [sql_file(name) for name in SCRIPTS] if scripts is None else scripts
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in scripts[schema_version(connection, path, newest) :]:
            for statement in _statements(script):
                connection.execute(statement)
        for statement in _IDENTITY:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def schema_version(connection: sqlite3.Connection, path: Path, newest: int = len(SCRIPTS)) -> int:
    """0 for an empty file. Raises LedgerTooNew, and LedgerError for a database that is not a ledger."""
    # Asked first: whoever makes the ledger meanwhile gives it its tables and its mark at once.
    empty = _is_empty(connection)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID and not empty:
        raise LedgerError(
            f"{path} is a database of another program",
            hint="Choose another place with RECOUP_HOME or RECOUP_DATABASE.",
        )
    if version > newest:
        raise LedgerTooNew(
            f"the ledger {path} has schema version {version}; this version of Recoup knows up to {newest}",
            hint="Upgrade Recoup, or choose another place with RECOUP_HOME or RECOUP_DATABASE.",
        )
    return int(version)


def identity_of(connection: sqlite3.Connection) -> str | None:
    """What tells this ledger from every other one. None: an earlier version made it."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger_identity'").fetchone() is None:
        return None
    row = connection.execute("SELECT id FROM ledger_identity").fetchone()
    return None if row is None else str(row[0])


def _is_empty(connection: sqlite3.Connection) -> bool:
    row: object = connection.execute("SELECT EXISTS (SELECT 1 FROM sqlite_master)").fetchone()
    return row == (0,)


def _statements(script: str) -> Iterator[str]:
    # executescript would commit first, and so split the transaction.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
