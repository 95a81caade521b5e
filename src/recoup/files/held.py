"""The SQLite databases that this process has open."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import threading
from collections import Counter
from pathlib import Path

COMPANIONS = ("-wal", "-shm", "-journal")
FileId = tuple[int, int]
"""Device and inode: whatever the file is called."""

_held: Counter[FileId] = Counter()
_indexes: dict[FileId, dict[FileId, int]] = {}
"""Descriptors of the indexes of logs (`-shm`), for each database. Closed after the last connection of this process to
the database: closing one earlier would drop the locks that SQLite keeps on that file."""
_lock = threading.Lock()

_COPY_BYTES = 48
_INDEX_BYTES = 2 * _COPY_BYTES
"""Two copies of a header: while they differ, another process is writing it."""
_INDEX = struct.Struct("=14xHI12x8s")
"""Size of a page, number of frames in the log, salt. https://www.sqlite.org/walformat.html"""
_LOG_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_SALT_AT = 8


class Replaced(Exception):
    """A file of an open database was deleted or replaced: what is written now, nobody else would read."""

    how = "removed or replaced"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Truncated(Replaced):
    """The end of a file of an open database is gone, and with it what was committed last."""

    how = "truncated"


class HeldDatabase:
    """One open connection's claim on the files of its database. One for each connection."""

    __slots__ = (
        "_database",
        "_database_id",
        "_guard",
        "_handle",
        "_ids",
        "_index",
        "_index_id",
        "_log",
        "_log_id",
    )

    def __init__(self, path: Path) -> None:
        """To be made before the connection is. Raises OSError where there is no file."""
        self._database = str(path)
        self._log = f"{path}-wal"
        self._database_id = _id_of(self._database)
        self._log_id: FileId | None = None
        self._index_id: FileId | None = None
        self._index: int | None = None
        self._ids: tuple[FileId, ...] = ()
        self._guard: sqlite3.Connection | None = None
        self._handle: int | None = None
        """Of the log, on which SQLite keeps no locks."""
        self._hold([self._database_id])

    def opened(self) -> None:
        """After the first statement: SQLite has opened or made the files beside the database by then."""
        self._log_id = file_id(self._log)
        self._index_id = file_id(self._database + "-shm")
        beside = (file_id(self._database + suffix) for suffix in COMPANIONS)
        self._hold([one for one in beside if one is not None])
        if self._handle is None and self._log_id is not None:
            self._handle = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)

    def require_in_place(self) -> None:
        """Raises Replaced. Asked before every commit: four cheap system calls."""
        if file_id(self._database) != self._database_id:
            raise Replaced(self._database)
        if file_id(self._log) != self._log_id:
            raise Replaced(self._log)
        self._require_whole()

    def require_log(self) -> None:
        """Raises Replaced if the log lost its name or its end. Asked after every commit: three cheap system calls."""
        if self._handle is None:
            self.require_in_place()
        elif not os.fstat(self._handle).st_nlink:
            raise Replaced(self._log)
        else:
            self._require_whole()

    def _require_whole(self) -> None:
        """Raises Truncated unless the last frame that the index knows is in the log.

        Needs no lock: SQLite records a log that is emptied or restarted in the index first.
        """
        if self._handle is None or self._index_id is None:
            return
        try:
            if self._index is None:
                self._index = _opened_index(self._database, self._database_id, self._index_id)
            _compare(self._index, self._handle, self._database)
        except FileNotFoundError:
            self._index_id = (
                None  # removed or replaced before it was looked at: there is nothing to compare with
            )
        except OSError:
            return  # SQLite meets the same and says so

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
            self._index = None
            indexes = {} if _held[self._database_id] > 0 else _indexes.pop(self._database_id, {})
        for index in indexes.values():
            os.close(index)
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _hold(self, ids: list[FileId]) -> None:
        with _lock:
            _held.update(ids)
            self._ids += tuple(ids)


def _opened_index(database: str, database_id: FileId, index_id: FileId) -> int:
    """Raises OSError; FileNotFoundError if another file has its name."""
    path = f"{database}-shm"
    with _lock:
        known = _indexes.setdefault(database_id, {})
        if index_id not in known and file_id(path) == index_id:
            known[index_id] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if index_id not in known:
            raise FileNotFoundError(path)
        return known[index_id]


def _compare(index: int, log: int, database: str) -> None:
    """Raises Truncated, OSError."""
    while True:
        header = os.pread(index, _INDEX_BYTES, 0)
        if len(header) < _INDEX_BYTES:
            raise Truncated(f"{database}-shm")
        page_bytes, frames, salt = _INDEX.unpack_from(header)
        if not frames or header[:_COPY_BYTES] != header[_COPY_BYTES:]:
            return
        # 1 stands for 65536, which two bytes cannot hold.
        frame_bytes = _FRAME_HEADER_BYTES + (65_536 if page_bytes == 1 else page_bytes)
        last_frame = _LOG_HEADER_BYTES + (frames - 1) * frame_bytes
        found = os.pread(log, frame_bytes, last_frame)
        if len(found) == frame_bytes and found.startswith(salt, _SALT_AT):
            return
        if os.pread(index, _INDEX_BYTES, 0) == header:
            raise Truncated(f"{database}-wal")


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
