"""Whether a ledger's file is whole, for `recoup doctor`. Opens it read-only, and never waits for a pipe."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from recoup.errors import LedgerError
from recoup.files.present import size_bytes
from recoup.ledger.faults import ledger_error
from recoup.ledger.loss import last_number, require_present, require_whole
from recoup.ledger.mark import read_mark
from recoup.ledger.migrations import schema_version

CHECK_MAX_S = 10.0
READ_WAIT_MAX_S = 2.0
_STEPS = 10_000
"""Of SQLite's machine, between two looks at the time."""
_RUNS_MAX = 1_000


def examine(path: Path) -> str:
    """What is worth saying of a ledger that can be used; "" for most. Raises LedgerError with what is wrong."""
    require_present(path)
    if not size_bytes(path):
        return " (made with the first run)"
    try:
        return _examined(path)
    except sqlite3.Error as error:
        raise ledger_error(error, path) from error


def _examined(path: Path) -> str:
    try:
        return _read(path)
    except sqlite3.Error:
        if not _is_in_use(path):
            raise
    # Another process may have opened it meanwhile: now SQLite's locks are asked.
    return _read(path)


def _read(path: Path) -> str:
    marked = read_mark(path)  # before the database: it is never ahead of that
    with _reading(path) as connection:
        schema_version(connection, path)
        complete = _is_sound(connection, path)
        require_whole(connection, path, marked)
        _require_known_runs(connection, path)
    return "" if complete else f" (checked for {CHECK_MAX_S:g} s, not to its end)"


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    # Without a log nobody has it open, and SQLite need not make one to read it.
    how = "mode=ro" if _is_in_use(path) else "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.as_uri()}?{how}", uri=True, timeout=READ_WAIT_MAX_S, isolation_level=None
    )
    with contextlib.closing(connection):
        yield connection


def _is_in_use(path: Path) -> bool:
    return path.with_name(f"{path.name}-wal").exists()


def _is_sound(connection: sqlite3.Connection, path: Path) -> bool:
    """False: it would have taken too long. Raises LedgerError."""
    deadline_s = time.monotonic() + CHECK_MAX_S
    connection.set_progress_handler(lambda: time.monotonic() > deadline_s, _STEPS)
    try:
        (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
            raise
        return False
    finally:
        connection.set_progress_handler(None, 0)
    if answer != "ok":
        hint = "Stop every Recoup process, keep a copy of the folder, and restore a backup."
        raise LedgerError(f"the ledger {path} is damaged: {answer}", hint=hint)
    return True


def _require_known_runs(connection: sqlite3.Connection, path: Path) -> None:
    """Raises LedgerError if runs were driven here, and the ledger has no event at all."""
    driven = (folder.parent.name for folder in path.with_name("runs").glob("*/.epoch-*"))
    runs = list(islice(driven, _RUNS_MAX))
    if runs and not last_number(connection):
        hint = f"Restore {path.name} from a backup; or move runs/ away to start over."
        raise LedgerError(f"the ledger {path} has no events, but runs/ has runs such as {runs[0]}", hint=hint)
