"""The SQLite databases that this process has open."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections import Counter
from pathlib import Path

COMPANIONS = ("-wal", "-shm", "-journal")
FileId = tuple[int, int]
"""Device and inode: whatever the file is called."""

_held: Counter[FileId] = Counter()
_lock = threading.Lock()


class Replaced(Exception):
    """A file of an open database was deleted or replaced: what is written now, nobody else would read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class HeldDatabase:
    """One open connection's claim on the files of its database. One for each connection."""

    __slots__ = ("_database", "_database_id", "_guard", "_handle", "_ids", "_log", "_log_id")

    def __init__(self, path: Path) -> None:
        """To be made before the connection is. Raises OSError where there is no file."""
        self._database = str(path)
        self._log = f"{path}-wal"
        self._database_id = _id_of(self._database)
        self._log_id: FileId | None = None
        self._ids: tuple[FileId, ...] = ()
        self._guard: sqlite3.Connection | None = None
        self._handle: int | None = None
        """Of the log. It gives no access, so closing it drops no lock."""
        self._hold([self._database_id])

    def opened(self) -> None:
        """After the first statement: SQLite has opened or made the files beside the database by then."""
        self._log_id = file_id(self._log)
        beside = (file_id(self._database + suffix) for suffix in COMPANIONS)
        self._hold([one for one in beside if one is not None])
        if self._handle is None and self._log_id is not None and hasattr(os, "O_PATH"):
            self._handle = os.open(self._log, os.O_PATH | os.O_CLOEXEC)

    def require_in_place(self) -> None:
        """Raises Replaced. Asked before every commit: two system calls."""
        if file_id(self._database) != self._database_id:
            raise Replaced(self._database)
        if file_id(self._log) != self._log_id:
            raise Replaced(self._log)

    def require_log(self) -> None:
        """Raises Replaced if the log has no name any more. Asked after every commit: one cheap system call."""
        if self._handle is None:
            self.require_in_place()
        elif not os.fstat(self._handle).st_nlink:
            raise Replaced(self._log)

    def guard(self) -> None:
        """Opens a second connection, which may only read, so that `close` can leave the log where it is. To be called
        again when the database has got its log."""
        if self._guard is None:
            uri = f"{Path(self._database).as_uri()}?mode=ro"
            self._guard = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        # Reads something: only then SQLite locks the database until the connection is closed.
        self._guard.execute("PRAGMA schema_version").fetchone()

    def is_in_place(self) -> bool:
        try:
            self.require_in_place()
        except Replaced:
            return False
        return True

    def close(self, connection: sqlite3.Connection | None, *, may_remove_log: bool) -> None:
        """The connection and its guard.

        The last connection that SQLite closes copies the log into the database and deletes whatever has the log's name.
        One that may only read cannot lock the database for that: closed last, it leaves both alone.
        """
        guard, self._guard = self._guard, None
        if guard is not None and may_remove_log:
            guard.close()
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if guard is not None:
            guard.close()
        self.release()

    def release(self) -> None:
        """After the connection was closed; harmless twice."""
        with _lock:
            _held.subtract(self._ids)
            for one in self._ids:
                if _held[one] <= 0:
                    del _held[one]
            self._ids = ()
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _hold(self, ids: list[FileId]) -> None:
        with _lock:
            _held.update(ids)
            self._ids += tuple(ids)


def is_held(status: os.stat_result) -> bool:
    """Whether closing a descriptor of this file would drop locks that this process needs."""
    return (status.st_dev, status.st_ino) in _held


def file_id(path: str) -> FileId | None:
    """None: there is no such file."""
    try:
        return _id_of(path)
    except OSError:
        return None


def _id_of(path: str) -> FileId:
    status = os.stat(path)  # noqa: PTH116 - three times as fast as Path.stat
    return status.st_dev, status.st_ino
