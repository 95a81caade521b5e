"""The ledger's file as one process has it open, and what keeps its commits from being lost."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from recoup.errors import LedgerError
from recoup.files.held import HeldDatabase, Replaced
from recoup.ledger.connection import create_missing, open_writer
from recoup.ledger.faults import ledger_error
from recoup.ledger.loss import last_number
from recoup.ledger.mark import Mark
from recoup.ledger.migrations import identity_of


class OpenedFile:
    """Raises LedgerError.

    SQLite removes the log when the last connection closes, and asks the POSIX locks whether it is the last. A process
    that lost its locks would go on writing into a log without a name. So nobody removes the log while another process
    holds the lock on the mark.
    """

    def __init__(self, path: Path, *, again: bool = False) -> None:
        """`again`: this process had it open before, so a missing one was lost, and none is made."""
        self._path = path
        if again and not path.exists():
            raise replaced_error(str(path))
        with contextlib.ExitStack() as undone:
            create_missing(path)
            self._mark = Mark(path)
            undone.callback(self._mark.close)
            self._mark.join()
            marked = self._mark.read()
            self._held = _held(path)
            undone.callback(self._held.release)
            self.connection = open_writer(path, marked)
            undone.callback(self._held.close, self.connection, may_remove_log=False)
            _guard(self._held, path)
            self._held.opened()
            self._mark.begin(identity_of(self.connection) or "", last_number(self.connection), marked)
            undone.pop_all()

    def require_in_place(self) -> None:
        """Raises LedgerError: what is written now would be lost. Asked before every commit."""
        try:
            self._held.require_in_place()
        except Replaced as replaced:
            raise replaced_error(replaced.path, replaced.how) from None

    def require_log(self) -> None:
        """Raises LedgerError: what was written last is lost. Asked after every commit."""
        try:
            self._held.require_log()
        except Replaced as replaced:
            raise replaced_error(replaced.path, replaced.how) from None

    def reach(self, number: int) -> None:
        """The event with this number is durable."""
        self._mark.reach(number)

    def shorten_log(self) -> None:
        """Copies the log into the database and empties it, if nobody reads. Not from a log that was replaced."""
        with contextlib.suppress(sqlite3.Error, LedgerError):
            self.require_in_place()
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        may_remove_log = self._held.is_in_place() and self._mark.is_last()
        self._held.close(self.connection, may_remove_log=may_remove_log)
        self._mark.close()


def _guard(held: HeldDatabase, path: Path) -> None:
    """Raises LedgerError: the second connection may be the one for which no descriptor is left."""
    try:
        held.guard()
    except sqlite3.Error as error:
        raise ledger_error(error, path) from error


def replaced_error(path: str, how: str = Replaced.how) -> LedgerError:
    hint = (
        "Stop every Recoup process on this home, then look with `recoup doctor` and `recoup runs` at what was recorded"
        " before you repeat anything. What was running can be resumed."
    )
    return LedgerError(f"the ledger's file {path} was {how} while in use", hint=hint)


def _held(path: Path) -> HeldDatabase:
    try:
        return HeldDatabase(path)
    except OSError as error:
        raise replaced_error(str(path)) from error
