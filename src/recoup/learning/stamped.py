"""Bytes that tell when they were altered: a SHA-256 in front, and what it is of behind it."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from recoup.errors import VersionDamaged
from recoup.files.named import NotRegular, open_named

_MARK: Final = b"\n"
_HEX: Final = 64
_GONE_OR_BAD: Final = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EIO}

T = TypeVar("T")


def digest_of(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def stamped(body: bytes) -> bytes:
    return digest_of(body).encode() + _MARK + body


def unstamped(data: bytes, what: str) -> memoryview:
    body = memoryview(data)[_HEX + 1 :]
    if len(data) <= _HEX or data[_HEX : _HEX + 1] != _MARK or data[:_HEX] != digest_of(body).encode():
        raise VersionDamaged(f"{what} is not as it was written")
    return body


def value_in(data: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(unstamped(data, what), type=kind)
    except msgspec.MsgspecError as error:
        raise VersionDamaged(f"{what} cannot be read: {error}") from error


def bytes_of(path: Path, bytes_max: int, what: str) -> bytes:
    """All of a file of our own; one that is missing, no file or too large is damage, not trouble of the machine."""
    try:
        with os.fdopen(open_named(path, follow_links=False), "rb") as file:
            data = file.read(bytes_max + 1)
    except NotRegular as error:
        raise VersionDamaged(f"{what} cannot be read: {error.strerror}") from error
    except OSError as error:
        if error.errno not in _GONE_OR_BAD:
            raise
        raise VersionDamaged(f"{what} cannot be read: {error.strerror}") from error
    if len(data) > bytes_max:
        raise VersionDamaged(f"{what} is longer than it was written")
    return data
