"""The ids of files' contents, computed once per change of a file."""

# ruff: noqa: PTH115
# File names are bytes here, which pathlib does not take.

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from recoup.errors import WorkspaceRuined
from recoup.files.named import NotRegular, open_named
from recoup.workspace.git import Git
from recoup.workspace.index import INDEX_BYTES_MAX, without_status

CHUNK_BYTES = 1 << 20

_POINTER_START = b"version https://git-lfs."
_POINTER_BYTES_MAX = 1024
_CHANGED_MEANWHILE = {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR}

StatKey = tuple[int, int, int, int, int, int]


class Moved(WorkspaceRuined):
    """Something changed while it was being read: look again."""


class Blob(NamedTuple):
    """What a file held when its status was `key`."""

    key: StatKey
    id: str
    size: int
    is_pointer: bool = False
    is_index: bool = False
    unreadable: str | None = None


class BlobIds:
    """Content ids of the files of one workspace, remembered by their status.

    A file is hashed again unless its status, change time to the nanosecond included, is the same as before
    *and* that change time lies before the moment at which we began to look: within one tick of the clock a
    file can change twice and keep its status.
    """

    def __init__(self, object_format: str) -> None:
        self._format = object_format
        self._remembered: dict[bytes, Blob] = {}

    def look(self, git: Git, root: bytes, began_ns: int) -> Looking:
        return Looking(root, self._format, self._remembered, began_ns, git)

    def remember(self, looking: Looking) -> None:
        self._remembered = looking.settled


class Looking:
    """One pass over a workspace."""

    def __init__(
        self, root: bytes, object_format: str, remembered: dict[bytes, Blob], began_ns: int, git: Git
    ) -> None:
        self.settled: dict[bytes, Blob] = {}
        self._prefix = root + b"/"
        self._format = object_format
        self._remembered = remembered
        self._began_ns = began_ns
        self._git = git

    def blob(self, path: bytes, status: os.stat_result, may_be_index: bool = False) -> Blob:
        key = stat_key(status)
        known = self._remembered.get(path)
        if known is None or known.key != key:
            known = self._hashed(self._prefix + path, key, may_be_index)
        if key[3] < self._began_ns and known.unreadable is None:
            self.settled[path] = known
        return known

    def _hashed(self, path: bytes, key: StatKey, may_be_index: bool) -> Blob:
        try:
            if stat.S_ISLNK(key[0]):
                return self._hashed_content(key, _target(path))
            if may_be_index and (index := index_content(path)) is not None:
                return self._hashed_content(key, index)._replace(is_index=True)
            return self._hashed_file(path, key)
        except OSError as error:
            return Blob(key, "", 0, unreadable=error.strerror)

    def _hashed_content(self, key: StatKey, content: bytes) -> Blob:
        return Blob(key, object_id("blob", content, self._format), len(content))

    def _hashed_file(self, path: bytes, key: StatKey) -> Blob:
        size = key[1]
        hasher = hashlib.new(self._format, b"blob %d\0" % size)
        read = 0
        start = b""
        for chunk in chunks_of(path):
            self._git.go_on()
            start = start or chunk
            read += len(chunk)
            hasher.update(chunk)
        if read != size:
            raise moved(path)
        is_pointer = size < _POINTER_BYTES_MAX and start.startswith(_POINTER_START)
        return Blob(key, hasher.hexdigest(), size, is_pointer)


def stat_key(status: os.stat_result) -> StatKey:
    return (
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_dev,
    )


def object_id(kind: str, content: bytes, object_format: str) -> str:
    return hashlib.new(object_format, b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()


def chunks_of(path: bytes, mode: int = stat.S_IFREG) -> Iterator[bytes]:
    """The contents of a regular file or the target of a link; raises Moved if it is that no more."""
    if stat.S_ISLNK(mode):
        yield _target(path)
        return
    fd = _opened(path)
    try:
        while chunk := os.read(fd, CHUNK_BYTES):
            yield chunk
    finally:
        os.close(fd)


def index_content(path: bytes) -> bytes | None:
    """What is stored of a git index; None if it is none, or not one to be altered."""
    chunks = chunks_of(path)
    raw = next(chunks, b"")
    if not raw.startswith(b"DIRC"):
        return None
    for chunk in chunks:
        raw += chunk
        if len(raw) > INDEX_BYTES_MAX:
            return None
    return without_status(raw)


def _opened(path: bytes) -> int:
    try:
        # Not to follow a link, and not to wait for a pipe, that has taken the file's place.
        return open_named(path, follow_links=False)
    except NotRegular:
        raise moved(path) from None
    except OSError as error:
        if error.errno in _CHANGED_MEANWHILE:
            raise moved(path) from None
        raise


def _target(path: bytes) -> bytes:
    try:
        return os.readlink(path)
    except OSError:
        raise moved(path) from None


def moved(path: bytes) -> Moved:
    return Moved(
        f"{os.fsdecode(path)} changed while it was being read",
        hint="Does a process that a step left behind still write there? End it. Then: recoup resume RUN",
    )
