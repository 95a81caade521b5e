"""`ledger.mark`, beside the database: which ledger belongs here, and the number of an event that it certainly has.

It is written after a commit and not synced. So it may lie behind the ledger, after a power cut for example, but never
ahead of it: a ledger that ends before its mark has lost events. A process that has the ledger open also holds a shared
lock on this file. Locks of this kind (`flock`) stay until their own descriptor is closed, unlike those of SQLite.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from recoup.errors import LedgerError
from recoup.files.named import is_misplaced, open_own, read_named

JOIN_MAX_S = 5.0
"""How long a process that opens the ledger waits for the last one that closes it."""

_POLL_S = 0.001
_LINE = re.compile(rb"recoup-ledger 1 ([0-9a-f]{32}) ([0-9]{19})\n")
_BYTES = 70


class Marked(NamedTuple):
    """What the mark says."""

    ledger_id: str
    number: int


class Mark:
    """The open file. One for each writer."""

    def __init__(self, database: Path) -> None:
        """Made if it is missing. Raises LedgerError."""
        self.path = mark_path(database)
        try:
            self._file = open_own(self.path)
        except OSError as error:
            if is_misplaced(error):
                words = f"{self.path} is not a regular file, so it is not the mark of this ledger"
                raise LedgerError(words, hint=_hint(self.path)) from error
            hint = "Make the folder writable for this user, or choose another place with RECOUP_HOME."
            raise LedgerError(f"{self.path} cannot be opened: {error.strerror}", hint=hint) from error
        self._prefix = b""
        self._number = 0

    def read(self) -> Marked | None:
        """To be asked before the database is: what is written meanwhile is in the database first."""
        return _parsed(os.pread(self._file, _BYTES, 0), self.path)

    def begin(self, ledger_id: str, number: int, before: Marked | None) -> None:
        """The ledger was opened, and ends with this number."""
        self._prefix = f"recoup-ledger 1 {ledger_id} ".encode()
        self._number = number
        if before is None or before.ledger_id != ledger_id:
            self._write(number)
            with contextlib.suppress(OSError):
                os.fsync(self._file)

    def reach(self, number: int) -> None:
        """After a commit. One that cannot be written lies behind, which harms nothing."""
        if number > self._number:
            self._number = number
            self._write(number)

    def join(self) -> None:
        """Among those who have the ledger open. Who closes it for longer than the limit is frozen: go on."""
        deadline_s = time.monotonic() + JOIN_MAX_S
        while not _locked(self._file, fcntl.LOCK_SH) and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)

    def is_last(self) -> bool:
        """Whether nobody else has the ledger open; then nobody joins until this is closed."""
        return _locked(self._file, fcntl.LOCK_EX)

    def close(self) -> None:
        os.close(self._file)

    def _write(self, number: int) -> None:
        try:  # noqa: SIM105 - done at every commit, and contextlib.suppress costs as much as the call itself
            os.pwrite(self._file, b"%b%019d\n" % (self._prefix, number), 0)
        except OSError:
            pass


def mark_path(database: Path) -> Path:
    return database.with_suffix(".mark")


def read_mark(database: Path) -> Marked | None:
    """None: there is none. Raises LedgerError for one that cannot be read."""
    path = mark_path(database)
    try:
        return _parsed(read_named(path, _BYTES), path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        what = "is not a regular file" if is_misplaced(error) else f"cannot be read: {error.strerror}"
        raise LedgerError(f"{path} {what}", hint=_hint(path)) from error


def _parsed(line: bytes, path: Path) -> Marked | None:
    if not line.strip(b"\0"):
        return None  # just made; or a power cut came before its first line was on the disk
    match = _LINE.match(line)
    if match is None:
        raise LedgerError(f"{path} is damaged", hint=_hint(path))
    return Marked(match[1].decode(), int(match[2]))


def _hint(path: Path) -> str:
    return f"Remove {path}: it is made again. Then see with `recoup runs` whether the newest runs are there."


def _locked(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without such locks: SQLite alone decides
    return True
