"""A file that is either as it was or as it should be, whenever somebody reads it."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from recoup.files.named import read_named

PRIVATE = 0o600


def read_beginning(path: Path, limit_bytes: int) -> bytes:
    """Of a regular file: anything else may make its reader wait. Raises OSError."""
    return read_named(path, limit_bytes)


def write_whole(path: Path, data: bytes) -> None:
    """Owner and permissions stay those of the file that was there. Raises OSError; nothing has changed then."""
    real = Path(os.path.realpath(path))
    beside = real.with_name(f".{real.name}.{os.getpid()}.new")
    beside.unlink(missing_ok=True)
    try:
        _write(beside, data, real)
        beside.replace(real)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(real.parent)


def _write(path: Path, data: bytes, like: Path) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    with os.fdopen(opened, "wb") as file:
        with contextlib.suppress(FileNotFoundError):
            found = like.stat()
            if (found.st_uid, found.st_gid) != (os.getuid(), os.getgid()):
                os.fchown(file.fileno(), found.st_uid, found.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(found.st_mode))
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
