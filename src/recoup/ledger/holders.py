"""Who holds SQLite's write lock, for a message that says which process to look at."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_WRITE_LOCK_BYTE = 120
"""Of the `-shm` file, as SQLite's WAL format lays down."""


def lock_holders(database: Path) -> list[int]:
    """Best effort: Linux only, and only processes of this PID namespace."""
    with contextlib.suppress(OSError, ValueError):
        status = database.with_name(database.name + "-shm").stat()
        file_id = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        return sorted(set(_holders_in(Path("/proc/locks").read_text(), file_id)) - {0, os.getpid()})
    return []


def _holders_in(table: str, file_id: str) -> Iterator[int]:
    for line in table.splitlines():
        _, kind, *_, mode, pid, where, first, last = line.split()
        covers = last == "EOF" or int(first) <= _WRITE_LOCK_BYTE <= int(last)
        if kind == "POSIX" and mode == "WRITE" and where == file_id and covers:
            yield int(pid)
