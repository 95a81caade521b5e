"""Finding out that a ledger, or the end of it, was lost: before anything is made in its place."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from recoup.errors import LedgerError
from recoup.files.present import has_entries, size_bytes
from recoup.ledger.mark import Marked, mark_path, read_mark
from recoup.ledger.migrations import identity_of

_LEFT_BY_RUNS = ("runs", "audit")


def require_present(path: Path) -> None:
    """Raises LedgerError if the file is missing or empty although the folder was used; creates nothing."""
    if _is_filled(path):
        _require_plain_companions(path)
        return
    signs = list(signs_of_use(path))
    # Looked at again: another process may have made the ledger meanwhile, and these with it.
    if signs and not _is_filled(path):
        what = "is empty" if path.exists() else "is missing"
        hint = (
            f"Restore {path.name} (with {path.name}-wal, if there is one) from a backup. If the runs of this home are"
            f" in another database, set RECOUP_DATABASE. To start over without them, move away: {', '.join(signs)}."
        )
        raise LedgerError(
            f"the ledger {path} {what}, but there was one; still there: {', '.join(signs)}", hint=hint
        )


def _require_plain_companions(path: Path) -> None:
    """SQLite follows no link there, would wait or fail at a pipe, and says each time that the disk is at fault."""
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISREG(beside.lstat().st_mode):
                continue
            what = "it is made again" if suffix == "-shm" else "then restore the log, if there was one"
            raise LedgerError(
                f"{beside} is not a regular file, so the ledger cannot be opened",
                hint=f"Stop every Recoup process on this home and move {beside} away; {what}.",
            )


def require_whole(connection: sqlite3.Connection, path: Path, marked: Marked | None) -> None:
    """Raises LedgerError if this is not the ledger that was marked, or if it ends before the mark. Changes nothing."""
    if marked is None or not marked.number:
        return
    # A ledger without an identity may be what is left of this one: it was in the log that is gone.
    ledger_id, number = identity_of(connection), last_number(connection)
    if number < marked.number and ledger_id in (None, marked.ledger_id):
        raise _shortened(path, number, marked.number)
    if ledger_id != marked.ledger_id:
        raise _of_another_home(path)


def _shortened(path: Path, number: int, marked: int) -> LedgerError:
    hint = (
        f"Put {path.name}-wal back if it was removed, or restore the whole folder from a backup. If you restored an"
        f" older copy on purpose, accept it by removing {mark_path(path)}; what was recorded since then is lost."
    )
    what = f"has lost events: it ends with number {number}, but {marked} was recorded"
    return LedgerError(f"the ledger {path} {what}", hint=hint)


def _of_another_home(path: Path) -> LedgerError:
    mark = mark_path(path)
    hint = (
        f"Restore the ledger that belongs here. If you put this one here on purpose, remove {mark}; what the other one"
        " recorded is lost."
    )
    return LedgerError(f"the ledger {path} is another one than {mark.name} names", hint=hint)


def last_number(connection: sqlite3.Connection) -> int:
    """Of the newest event; 0 in a file that has no tables yet."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone() is None:
        return 0
    (number,) = connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
    return int(number)


def signs_of_use(path: Path) -> Iterator[str]:
    """What only a ledger that was used leaves beside it, by name."""
    log = path.with_name(f"{path.name}-wal")
    if size_bytes(log):
        yield log.name
    marked = read_mark(path)
    if marked is not None and marked.number:
        yield mark_path(path).name
    for name in _LEFT_BY_RUNS:
        if has_entries(path.with_name(name)):
            yield f"{name}/"


def _is_filled(path: Path) -> bool:
    """Raises LedgerError for what is no file."""
    try:
        status = path.stat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode):
        hint = "Move it away and restore the ledger, or choose another place with RECOUP_HOME or RECOUP_DATABASE."
        raise LedgerError(f"the ledger {path} is not a regular file", hint=hint)
    return status.st_size > 0
