"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from recoup.aside import fresh, ours
from recoup.files.folders import make_folder
from recoup.files.named import opened

OWNER_ONLY = 0o600
_PIECE_BYTES = 1 << 20


def write_whole(path: Path, data: bytes, *, durable: bool = True, aside: Path | None = None) -> None:
    """Temp file, fsync, rename, directory fsync. Without `durable` only the rename: for what can be made again.
    `aside`: the folder of a driver, which makes it there. Raises LeaseLost."""
    write_pieces(path, (data,), durable=durable, aside=aside)


def write_pieces(
    path: Path, pieces: Iterable[bytes], *, durable: bool = True, aside: Path | None = None
) -> None:
    """The same, for what need not be in memory as a whole."""
    make_folder(path.parent)
    temporary = fresh(aside or path.parent, path.name)
    with ours(aside):
        try:
            _write(temporary, pieces, durable)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    if durable:
        sync_directory(path.parent)


def copy_whole(path: Path, *, aside: Path | None = None) -> None:
    """A copy takes the place of the file."""
    with opened(path) as file:
        write_pieces(path, iter(lambda: file.read(_PIECE_BYTES), b""), aside=aside)


def sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: Path, pieces: Iterable[bytes], durable: bool) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    try:
        for piece in pieces:
            view = memoryview(piece)
            while view:
                view = view[os.write(handle, view) :]
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)
