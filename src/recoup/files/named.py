"""The one way to read a file whose name comes from outside."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from recoup.files.held import is_held

if TYPE_CHECKING:
    from io import BufferedReader

Name = str | bytes | Path

_MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_TRIES_MAX = 10
"""For a file that others make and remove at the same time."""
_REOPENED = "/proc/self/fd"
_HAS_HANDLES = hasattr(os, "O_PATH") and os.path.isdir(_REOPENED)  # noqa: PTH112 - loaded by every command


class DatabaseInUse(OSError):
    """The file is a database that this process has open: reading it here would drop SQLite's locks."""

    def __init__(self, path: Name) -> None:
        words = "this is a database that Recoup has open, or one of its files: name another file, or a copy"
        super().__init__(errno.EBUSY, words, os.fsdecode(path))


class NotRegular(OSError):
    """Not a regular file: reading a pipe or a device may last for ever."""

    def __init__(self, path: Name) -> None:
        super().__init__(errno.EINVAL, "this is not a regular file", os.fsdecode(path))


def open_named(path: Name, *, follow_links: bool = True, pipes: bool = False) -> int:
    """A descriptor to read from. `pipes`: also what is no regular file. Raises OSError, DatabaseInUse, NotRegular."""
    if not _HAS_HANDLES:
        return _open_checked(path, follow_links, pipes)
    # Nothing is lost when such a handle is closed, and nobody can put another file behind it.
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC | _unless(follow_links, os.O_NOFOLLOW))
    try:
        return _reopened(handle, path, pipes)
    finally:
        os.close(handle)


def read_handle(handle: int, name: str, bytes_max: int) -> bytes:
    """The first bytes of the file behind a handle of O_PATH, which stays open. Raises OSError as `open_named` does."""
    with os.fdopen(_reopened(handle, name, pipes=False), "rb") as file:
        return file.read(bytes_max)


def _reopened(handle: int, path: Name, pipes: bool) -> int:
    try:
        _require_readable(os.fstat(handle), path, pipes)
        return os.open(f"{_REOPENED}/{handle}", os.O_RDONLY | os.O_CLOEXEC | _unless(pipes, os.O_NONBLOCK))
    except OSError as error:
        error.filename = os.fsdecode(path)
        raise


def opened(path: Name, *, pipes: bool = False) -> BufferedReader:
    """The file, to be read and closed. Raises OSError as `open_named` does."""
    return os.fdopen(open_named(path, pipes=pipes), "rb")


def read_named(path: Name, bytes_max: int | None = None, *, pipes: bool = False) -> bytes:
    """Its first bytes, or all of them. Raises OSError as `open_named` does."""
    with opened(path, pipes=pipes) as file:
        return file.read(-1 if bytes_max is None else bytes_max)


def open_own(path: Path) -> int:
    """A descriptor to read and write a small file of our own, made if it is missing. Neither a link nor a pipe is
    opened, nor a database that this process has open: only a plain file is ours. Raises OSError as `open_named` does.
    """
    for _ in range(_TRIES_MAX):
        with contextlib.suppress(FileExistsError):
            return os.open(path, _MAKE, 0o600)
        with contextlib.suppress(FileNotFoundError):
            return _open_existing(path)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _open_existing(path: Path) -> int:
    if not _HAS_HANDLES:
        _require_readable(path.lstat(), path, pipes=False)
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        _require_readable(os.fstat(handle), path, pipes=False)
        return os.open(f"{_REOPENED}/{handle}", os.O_RDWR | os.O_CLOEXEC)
    finally:
        os.close(handle)


def require_no_database(path: Name) -> None:
    """Before a library opens the file by its name. Raises DatabaseInUse; what is missing is left to the library."""
    try:
        status = os.stat(path)  # noqa: PTH116 - names may be bytes
    except OSError:
        return
    if is_held(status):
        raise DatabaseInUse(path)


def is_misplaced(error: OSError) -> bool:
    """Whether a link, a pipe or a folder stands where a plain file of ours should."""
    return isinstance(error, NotRegular | IsADirectoryError) or error.errno == errno.ELOOP


def _open_checked(path: Name, follow_links: bool, pipes: bool) -> int:
    """For systems without such handles: the file could be replaced between the two calls."""
    _require_readable(os.stat(path, follow_symlinks=follow_links), path, pipes)  # noqa: PTH116
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | _unless(follow_links, os.O_NOFOLLOW))


def _require_readable(status: os.stat_result, path: Name, pipes: bool) -> None:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fsdecode(path))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
    if is_held(status):
        raise DatabaseInUse(path)
    if not (pipes or stat.S_ISREG(mode)):
        raise NotRegular(path)


def _unless(allowed: bool, flag: int) -> int:
    return 0 if allowed else flag
