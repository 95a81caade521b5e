"""The one connection of this process that only reads. It never waits for writers, nor they for it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from recoup.errors import LedgerError
from recoup.files.held import HeldDatabase, Replaced
from recoup.ledger.connection import open_reader
from recoup.ledger.faults import ledger_error, spoils_the_connection
from recoup.ledger.opened import replaced_error
from recoup.ledger.queries import queries
from recoup.model.run import WorkflowState

_REMEMBERED_MAX = 1_000
T = TypeVar("T")
_Q = queries()


class Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._held: HeldDatabase | None = None
        self._openings = 0
        self._closed = False
        self.states: dict[str, WorkflowState] = {}
        """Of workflows, as they were asked for last through this connection."""

    def rows(self, name: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Of a named query. All are fetched, because an open cursor would keep the log from being reset."""
        return self.ask(lambda connection: connection.execute(_Q[name], parameters).fetchall())

    def row(self, name: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        return next(iter(self.rows(name, parameters)), None)

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is not None and self._held is not None:
                self._held.require_log()
            return question(self._connection or self._opened())
        except Replaced as replaced:
            raise replaced_error(replaced.path, replaced.how) from None
        except sqlite3.Error as error:
            if spoils_the_connection(error):
                self._discard()
            raise ledger_error(error, self._path) from error

    def remember(self, workflow: str, state: WorkflowState) -> None:
        if len(self.states) >= _REMEMBERED_MAX:
            self.states.clear()
        self.states[workflow] = state

    def change_marker(self) -> int:
        # SQLite counts per connection: a new one must not repeat what an older one said.
        (version,) = self.ask(lambda connection: connection.execute("PRAGMA data_version").fetchone())
        return self._openings << 32 | int(version)

    def close(self) -> None:
        self._closed = True
        self._discard()

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        held, self._held = self._held, None
        self.states.clear()
        if connection:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if held:
            held.release()

    def _opened(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerError(f"the ledger {self._path} was closed", hint="Open it again.")
        try:
            self._held = HeldDatabase(self._path)
        except OSError:
            raise Replaced(str(self._path)) from None
        self._connection = open_reader(self._path)
        self._held.opened()
        self._openings += 1
        return self._connection
