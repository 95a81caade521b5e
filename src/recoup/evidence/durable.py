"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

OWNER_ONLY = 0o600
OWNER_ONLY_FOLDER = 0o700


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Temp file, fsync, rename, directory fsync. Without `durable` only the rename: for what can be made again."""
    write_pieces(path, (data,), durable=durable)


def write_pieces(path: Path, pieces: Iterable[bytes], *, durable: bool = True) -> None:
    """The same, for what need not be in memory as a whole."""
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        _write(temporary, pieces, durable)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def make_folder(path: Path) -> None:
    """With those above it, as far as they are missing: all of them for the owner alone."""
    try:
        path.mkdir(OWNER_ONLY_FOLDER)
    except FileExistsError:
        if not path.is_dir():
            raise
    except FileNotFoundError:
        make_folder(path.parent)
        path.mkdir(OWNER_ONLY_FOLDER, exist_ok=True)


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
