"""The write-ahead log as a file: grown beforehand, kept small."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

GROWN_BYTES_MAX = 4_500_000
"""A little more than the pages after which a checkpoint is due; from then on SQLite begins again at the start."""

_STEP_BYTES = 1 << 20
_SPARED_BYTES = 64 << 20


class Log:
    """Keeps zeros behind the log's end.

    A commit that makes the file longer also waits for the file system's journal: half as long again. SQLite
    takes what lies behind the last valid frame for nothing; old frames lie there after every checkpoint.
    """

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-wal")
        self._grown_bytes = 0

    def size_bytes(self) -> int:
        with contextlib.suppress(OSError):
            return self._path.stat().st_size
        return 0

    def keep_ahead(self) -> None:
        """Only under SQLite's write lock. Nothing to do as long as the file has not outgrown the last zeros."""
        if self._grown_bytes < self.size_bytes() < GROWN_BYTES_MAX:
            # Failing costs speed only; a full disk is found by the commit itself.
            with contextlib.suppress(OSError):
                self._grow()

    def _grow(self) -> None:
        with self._path.open("r+b", buffering=0) as log:
            size_bytes = os.fstat(log.fileno()).st_size
            room = os.fstatvfs(log.fileno())
            if room.f_bavail * room.f_frsize > _SPARED_BYTES:
                os.pwrite(log.fileno(), bytes(_STEP_BYTES), size_bytes)
            self._grown_bytes = size_bytes + _STEP_BYTES
