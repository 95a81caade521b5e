"""What the machine says about its disks and limits, asked right after something failed.

The text of a failed program proves nothing: git alone has dozens of ways to say that a disk is full. Free blocks, free
inodes, the read-only flag and a synced probe write do. What fails on a machine in trouble is not the plan's fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import threading
from pathlib import Path
from typing import Final

from recoup.files.folders import is_gone

PROBE_BYTES: Final = 1 << 20
"""Size of the probe write. A disk with less room than this counts as full."""
INODES_MIN: Final = 32
"""A disk with fewer free inodes than this counts as full."""
PROBE_PREFIX: Final = ".probe-"
FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
LIMIT_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
TROUBLE_ERRORS: Final = (
    FULL_ERRORS | LIMIT_ERRORS | {errno.EIO, errno.EROFS, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV}
)
"""Errors of system calls that speak of the machine, whatever was asked of it."""

_PIECE: Final = bytes(64 << 10)
_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class HostMachine:
    """Implements the `Machine` port for this host and one state folder."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def trouble(self) -> str | None:
        try:
            return await asyncio.to_thread(home_trouble, self._home)
        except RuntimeError:
            return "no thread can be started"

    def full(self, folder: str) -> str | None:
        return shortage(Path(folder))

    def is_home_disk(self, folder: str) -> bool:
        place = Path(folder).absolute()
        return place.is_relative_to(self._home.absolute()) or _device(place) in _devices(self._home)

    def behind(self, error: Exception) -> str | None:
        return lack_behind(error)


def lack_behind(error: Exception) -> str | None:
    """Which lack an error of the interpreter speaks of, by asking for the same once more."""
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, RuntimeError) and no_thread_left():
        return "no thread can be started: the limit on processes and threads is reached"
    return None


def home_trouble(home: Path) -> str | None:
    """Why the state folder cannot be used now; None if a synced probe write into it works, and into the folder of runs
    where that is on a disk of its own."""
    if is_gone(home):
        return f"{home} is gone"
    trouble = write_trouble(home)
    return write_trouble(home / "runs") if trouble is None and len(_devices(home)) > 1 else trouble


def _devices(home: Path) -> set[int | None]:
    return {_device(home), _device(home / "runs")} - {None}


def _device(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def write_trouble(folder: Path) -> str | None:
    """Why nothing can be written below the folder now; None if a synced probe write works. A folder that does not
    exist yet stands for the nearest one above it that does."""
    place = next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
    return shortage(place) or _probe(place)


def shortage(folder: Path) -> str | None:
    """Why the disk of the folder takes no more files, by its own numbers; None if it has room. Writes nothing."""
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return words_of(error) if error.errno in TROUBLE_ERRORS else None
    if disk.f_flag & os.ST_RDONLY:
        return f"the file system of {folder} is read-only"
    blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    if disk.f_blocks and blocks * disk.f_frsize < PROBE_BYTES:
        return f"the disk is full: {blocks * disk.f_frsize >> 10} KiB are left at {folder}"
    if disk.f_files and disk.f_favail < INODES_MIN:
        return f"the disk is full: {disk.f_favail} inodes are left at {folder}"
    return None


def is_full(words: str) -> bool:
    """Of what `write_trouble` and `shortage` return: room would help."""
    return words.startswith(_FULL)


def words_of(error: OSError) -> str:
    """An error of a system call, in the words used for the same trouble elsewhere."""
    where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
    if error.errno in FULL_ERRORS:
        return f"{_FULL}: {error.strerror}{where}"
    return f"{error.strerror or error}{where}"


def no_thread_left() -> bool:
    """Whether the limit on threads is what failed."""
    thread = threading.Thread(target=lambda: None, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return True
    thread.join()
    return False


def _probe(folder: Path) -> str | None:
    path = folder / f"{PROBE_PREFIX}{secrets.token_hex(4)}"
    try:
        handle = os.open(path, _OPEN, 0o600)
    except OSError as error:
        return words_of(error)
    try:
        _write_synced(handle)
    except OSError as error:
        return words_of(OSError(error.errno, error.strerror, str(folder)))
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):
            path.unlink()
    return None


def _write_synced(handle: int) -> None:
    left = PROBE_BYTES
    while left > 0:
        left -= os.write(handle, _PIECE)
    os.fsync(handle)


_FULL: Final = "the disk is full"
