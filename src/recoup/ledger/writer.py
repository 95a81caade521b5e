"""Whole transactions: one commit for all the work that waits, a savepoint each."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from recoup.errors import LedgerError
from recoup.ledger.connection import WAL_KEPT_BYTES
from recoup.ledger.faults import is_busy, is_io, ledger_error, spoils_the_connection, spoils_the_transaction
from recoup.ledger.opened import OpenedFile
from recoup.ledger.outcomes import Outcome
from recoup.ledger.transaction import Transaction
from recoup.ledger.wal import Log

LOG_CHECKED_EVERY = 8
"""Commits. A command that writes a line or two does not pay for speed it will not use."""

T = TypeVar("T")


class Job(Protocol[T]):
    """Work for a transaction. It may be performed again, but only one of the transactions is kept."""

    def perform(self, transaction: Transaction) -> T: ...

    def is_written(self, transaction: Transaction, value: T, /) -> bool:
        """After a commit that failed half-way: whether the work is certainly in the database nevertheless."""
        ...


class Deed(msgspec.Struct, Generic[T], frozen=True):
    """A job that a repetition does not harm: when in doubt it was not done."""

    perform: Callable[[Transaction], T]

    def is_written(self, _transaction: Transaction, _value: T) -> bool:
        return False


class Busy(Exception):
    """Somebody else holds SQLite's write lock. Nothing was done."""


class Writer:
    """The one connection of this process that writes. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = Log(path)
        self._begun = 0
        self._was_open = False
        self._file: OpenedFile | None = None
        self._transaction: Transaction | None = None
        self._opened()

    def transact(self, jobs: Sequence[Job[Any]]) -> list[Outcome]:
        """Raises Busy, or LedgerError: then none of the jobs was done, or what they did was lost with the log."""
        file, transaction = self._opened()
        file.require_in_place()
        outcomes: list[Outcome] = []
        try:
            self._begin(transaction)
            _perform(transaction, jobs, outcomes)
            if transaction.connection.in_transaction:
                transaction.execute("COMMIT")
        except sqlite3.Error as error:
            _roll_back(transaction)
            return self._after(error, jobs, outcomes)
        except BaseException:
            _roll_back(transaction)
            raise
        # Nothing is acknowledged that went into a file without a name.
        file.require_log()
        if transaction.number is not None:
            file.reach(transaction.number)
        return outcomes

    def close(self) -> None:
        if self._file and self._begun and self._log.size_bytes() > WAL_KEPT_BYTES:
            self._file.shorten_log()
        self._discard()

    def _opened(self) -> tuple[OpenedFile, Transaction]:
        if self._file is None or self._transaction is None:
            self._file = OpenedFile(self._path, again=self._was_open)
            self._was_open = True
            self._transaction = Transaction(self._file.connection)
        return self._file, self._transaction

    def _begin(self, transaction: Transaction) -> None:
        transaction.begin()
        self._begun += 1
        if self._begun % LOG_CHECKED_EVERY == 0:
            self._log.keep_ahead()

    def _after(
        self, error: sqlite3.Error, jobs: Sequence[Job[Any]], outcomes: list[Outcome]
    ) -> list[Outcome]:
        if is_busy(error):
            raise Busy from error
        if spoils_the_connection(error):
            self._discard()
        if is_io(error) and len(outcomes) == len(jobs):
            return self._confirmed(error, jobs, outcomes)
        raise ledger_error(error, self._path) from error

    def _confirmed(
        self, error: sqlite3.Error, jobs: Sequence[Job[Any]], outcomes: list[Outcome]
    ) -> list[Outcome]:
        # A commit whose fsync failed may be in the log or not, and the log cannot be trusted any more. A new
        # connection reads what is there; a full checkpoint makes that durable in the main file and empties
        # the log.
        with contextlib.suppress(sqlite3.Error, LedgerError):
            _, transaction = self._opened()
            busy, *_ = transaction.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                cause = ledger_error(error, self._path)
                return [_settled(transaction, *pair, cause) for pair in zip(jobs, outcomes, strict=True)]
        self._discard()
        hint = "Check the disk, then look with `recoup show` at what was recorded before you repeat anything."
        raise LedgerError(f"the ledger {self._path} could not confirm its last commit ({error})", hint=hint)

    def _discard(self) -> None:
        file, self._file, self._transaction = self._file, None, None
        if file:
            file.close()


def _perform(transaction: Transaction, jobs: Sequence[Job[Any]], outcomes: list[Outcome]) -> None:
    if len(jobs) == 1:
        outcomes.append(_attempt(transaction, jobs[0], undo="ROLLBACK"))
        return
    for job in jobs:
        transaction.execute("SAVEPOINT job")
        outcomes.append(_attempt(transaction, job, undo="ROLLBACK TO job"))
        transaction.execute("RELEASE job")


def _attempt(transaction: Transaction, job: Job[Any], undo: str) -> Outcome:
    try:
        return Outcome(job.perform(transaction))
    except Exception as error:
        # One job's error must not fail its neighbours.
        if spoils_the_transaction(error):
            raise
        transaction.execute(undo)
        transaction.forget()
        return Outcome(error=error)


def _roll_back(transaction: Transaction) -> None:
    transaction.forget()
    with contextlib.suppress(sqlite3.Error):
        if transaction.connection.in_transaction:
            transaction.execute("ROLLBACK")


def _settled(transaction: Transaction, job: Job[Any], outcome: Outcome, cause: LedgerError) -> Outcome:
    if outcome.error or job.is_written(transaction, outcome.value):
        return outcome
    return Outcome(error=cause)
