"""What SQLite reports, in words that say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from recoup.errors import LedgerError, LedgerUnwritable
from recoup.machine import is_full, shortage, write_trouble

_WORDS = {
    sqlite3.SQLITE_FULL: (
        "the disk is full",
        "Free some space; everything recorded so far is safe.",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk reported an error",
        "Check the disk (dmesg) and its free space; then resume what was running.",
    ),
    sqlite3.SQLITE_READONLY: (
        "it cannot be written",
        "Make the file and its folder writable for this user, or choose another place with RECOUP_HOME.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "Make sure that its folder is writable and not full, or choose another place with RECOUP_HOME.",
    ),
    sqlite3.SQLITE_PERM: ("access is denied", "Make the file and its folder writable for this user."),
    sqlite3.SQLITE_NOTADB: (
        "it is not a database",
        "Move that file away, or choose another place with RECOUP_HOME or RECOUP_DATABASE.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "it is damaged",
        "Stop every Recoup process, keep a copy of the folder, and restore a backup"
        " (or try the sqlite3 shell's .recover).",
    ),
    sqlite3.SQLITE_TOOBIG: ("a text is too long for it", "Shorten what is to be recorded."),
}
_OF_THE_DISK = {
    *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
}
"""What SQLite reports for a disk in trouble, and for much else: without room for its index it says "disk I/O error"."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def ledger_error(error: sqlite3.Error, path: Path) -> LedgerError:
    """The machine is asked first: what it says of the disk is more exact than what SQLite makes of it."""
    trouble = _disk_trouble(error, path.parent)
    if trouble is not None:
        _, hint = _WORDS[sqlite3.SQLITE_FULL if is_full(trouble) else sqlite3.SQLITE_IOERR]
        return LedgerUnwritable(f"the ledger {path} failed: {trouble} ({error})", hint=hint)
    what, hint = _WORDS.get(_code(error), (str(error), "Run `recoup doctor`."))
    return LedgerError(f"the ledger {path} failed: {what} ({error})", hint=hint)


def _disk_trouble(error: sqlite3.Error, folder: Path) -> str | None:
    if _code(error) not in _OF_THE_DISK:
        return None
    # A probe write also fails for want of a right, which no wait will give.
    return write_trouble(folder) if is_io(error) else shortage(folder)


def is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in _BUSY


def is_io(error: sqlite3.Error) -> bool:
    return _code(error) == sqlite3.SQLITE_IOERR


def spoils_the_connection(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def spoils_the_transaction(error: Exception) -> bool:
    """Not only the statement that met it: nothing of this transaction can be kept."""
    refusals = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)
    return isinstance(error, sqlite3.Error) and not isinstance(error, refusals)


def _code(error: sqlite3.Error) -> int:
    # Extended codes keep the primary one in the low byte; the module's own errors carry none.
    code: int = getattr(error, "sqlite_errorcode", 0) or 0
    return code & 0xFF
