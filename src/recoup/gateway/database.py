"""`gateway.db` of the home, opened the same way by everyone who uses it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from recoup.errors import StateError
from recoup.files.held import HeldDatabase, Replaced
from recoup.files.present import has_entries, size_bytes
from recoup.machine import shortage

_BUSY_S: Final = 5.0


class GatewayConnection(sqlite3.Connection):
    """Refuses to go on once its file was removed or replaced: what it writes then, nobody would read."""

    held: HeldDatabase | None = None

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        """Raises StateError, also after the statement: nothing is answered that was lost."""
        self._require_in_place()
        cursor = super().execute(*statement)
        self._require_in_place()
        return cursor

    def close(self) -> None:
        held, self.held = self.held, None
        if held is None:
            super().close()
        else:
            held.close(self, may_remove_log=held.is_in_place())

    def _require_in_place(self) -> None:
        if self.held is None:
            return
        try:
            self.held.require_in_place()
        except Replaced as replaced:
            raise StateError(
                f"{replaced.path} was {replaced.how} while in use",
                hint="Stop every Recoup process on this home, restore gateway.db, then start them again.",
            ) from None


def open_database(path: Path, *, threads: bool = False) -> GatewayConnection:
    """Made if it is missing, owner-only. `threads`: used by one thread at a time, but not always the same.

    Raises OSError, sqlite3.Error, StateError.
    """
    _require_no_loss(path)
    # Only if it is new: opening and closing the file again would drop the locks that SQLite holds on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)
    held = HeldDatabase(path)
    connection: GatewayConnection | None = None
    try:
        held.guard()  # a file that turns out to be damaged, or another one, keeps the log beside it
        connection = sqlite3.connect(
            path,
            timeout=_BUSY_S,
            isolation_level=None,
            check_same_thread=not threads,
            factory=GatewayConnection,
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA schema_version").fetchone()
        held.guard()
        held.opened()
        connection.held = held
    except BaseException:
        held.close(connection, may_remove_log=False)
        raise
    return connection


def unusable(path: Path, error: OSError | sqlite3.Error, hint: str) -> StateError:
    """The machine is asked first: SQLite reports a full disk as "disk I/O error"."""
    trouble = shortage(path.parent)
    if trouble is not None:
        return StateError(
            f"{path} cannot be used: {trouble} ({error})", hint="Free some space, or mount the disk."
        )
    return StateError(f"{path} cannot be used: {error}", hint=hint)


def _require_no_loss(path: Path) -> None:
    """A new file in its place would know no token and no webhook, and SQLite would delete the log of the old one."""
    if size_bytes(path):
        return
    signs = [f"{path.name}-wal"] * bool(size_bytes(path.with_name(f"{path.name}-wal")))
    signs += ["webhooks/"] * has_entries(path.with_name("webhooks"))
    # Looked at again: another process may have made them meanwhile, after the file.
    if signs and not size_bytes(path):
        raise StateError(
            f"{path} is missing or empty, but there was one; still there: {', '.join(signs)}",
            hint=f"Restore it from a backup; or move {' and '.join(signs)} away to start over: then new tokens"
            " are made, and webhooks must be added again.",
        )
