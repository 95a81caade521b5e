"""Opening the database file: modes, pragmas, version."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from functools import partial
from pathlib import Path

from recoup.errors import LedgerBusy, LedgerError
from recoup.files.folders import make_folder
from recoup.ledger.faults import is_busy, ledger_error
from recoup.ledger.loss import require_present, require_whole
from recoup.ledger.mark import Marked
from recoup.ledger.migrations import migrate, schema_version

OPEN_MAX_S = 10.0
READ_WAIT_MAX_MS = 2_000
CHECKPOINT_PAGES = 1_000
WAL_KEPT_BYTES = 8 << 20
STATEMENTS_CACHED = 256

_RETRY_S = 0.01
_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}",
    f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}",
)


def create_missing(path: Path) -> None:
    """Makes an empty file where no ledger has ever been. Raises LedgerError."""
    require_present(path)
    _make_private(path)


def open_writer(path: Path, marked: Marked | None = None) -> sqlite3.Connection:
    """Creates and migrates as needed. Afterwards it never waits for a lock: its user decides where.

    Raises LedgerError; nothing has changed then if the ledger is not the one that was `marked`, or a part of it."""
    create_missing(path)
    deadline_s = time.monotonic() + OPEN_MAX_S
    while True:
        try:
            return _prepared(path, marked)
        except sqlite3.Error as error:
            if not is_busy(error):
                raise ledger_error(error, path) from error
            if time.monotonic() >= deadline_s:
                hint = "Another process holds it: end or resume that one, then try again."
                raise LedgerBusy(
                    f"the ledger {path} stayed locked for {OPEN_MAX_S:g} s", hint=hint
                ) from error
        # Two processes that switch a new file to WAL at once: SQLite refuses one of them without waiting.
        time.sleep(_RETRY_S)


def open_reader(path: Path) -> sqlite3.Connection:
    """For a file that a writer has opened before. Closing it never removes the log: it may not lock for writing."""
    try:
        connection = _connect(path, "ro")
        connection.execute(f"PRAGMA busy_timeout = {READ_WAIT_MAX_MS}")
        connection.execute("PRAGMA query_only = ON")
        # Reads something: only then SQLite opens the log, and locks the database until the connection is closed.
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error as error:
        raise ledger_error(error, path) from error
    return connection


def _make_private(path: Path) -> None:
    try:
        make_folder(path.parent)
        # Exclusively, because opening and closing an existing file would drop the locks SQLite holds on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        for folder in (path.parent, path.parent.parent):
            _sync(folder)
    except FileExistsError:
        pass
    except OSError as error:
        hint = "Make the folder writable for this user, or choose another place with RECOUP_HOME."
        raise LedgerError(f"the ledger {path} cannot be created: {error.strerror}", hint=hint) from error


def _sync(folder: Path) -> None:
    """So that a new name in it survives a power cut; a folder that we may not read was not made by us."""
    with contextlib.suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _prepared(path: Path, marked: Marked | None) -> sqlite3.Connection:
    # A connection that may write copies the log into whatever database it found, and deletes it, when it is closed. One
    # that may only read cannot: so it looks first, and stays open until the other was closed or is needed. Where there
    # is no log it would leave an empty one.
    mode = "ro" if path.with_name(f"{path.name}-wal").exists() else "rw"
    with contextlib.closing(_connect(path, mode)) as looking:
        schema_version(looking, path)
        require_whole(looking, path, marked)
        return _ready_to_write(path)


def _ready_to_write(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    try:
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            hint = "Choose a place on a local disk with RECOUP_HOME."
            raise LedgerError(f"the ledger {path} cannot have a write-ahead log there", hint=hint)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    # Every use is by one thread at a time; which one changes (see commits.py).
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_CACHED,
    )
    # One text that is no UTF-8 would otherwise take down every list that it stands in.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection
