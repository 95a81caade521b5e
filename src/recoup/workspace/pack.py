"""Writes git packs."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

from recoup.workspace.blobs import chunks_of, index_content

_TREE, _BLOB = 2, 3
_COMPRESSION = 1
_SAMPLE_BYTES = 1 << 16


class FileSource(NamedTuple):
    """A regular file or a link to be packed, as it was seen."""

    path: bytes
    mode: int
    size: int
    is_index: bool = False

    def chunks(self) -> Iterator[bytes]:
        if self.is_index:
            return iter((index_content(self.path) or b"",))
        return chunks_of(self.path, self.mode)


class PackWriter:
    """A pack of whole objects: no deltas, little compression, one pass."""

    def __init__(self, path: Path, object_format: str, count: int) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        self._file: IO[bytes] = os.fdopen(fd, "wb", buffering=1 << 18)
        self._format = object_format
        self._hasher = hashlib.new(object_format)
        self._write(b"PACK" + (2).to_bytes(4, "big") + count.to_bytes(4, "big"))

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._file.close()

    def add_blob(self, source: FileSource) -> str:
        """The id of what was read, which is not what was expected if the file changed."""
        hasher = hashlib.new(self._format, b"blob %d\0" % source.size)
        self._write(_header(_BLOB, source.size))
        chunks = source.chunks()
        start = next(chunks, b"")
        packed = zlib.compressobj(_level(start))
        for chunk in chain((start,), chunks):
            hasher.update(chunk)
            self._write(packed.compress(chunk))
        self._write(packed.flush())
        return hasher.hexdigest()

    def add_tree(self, content: bytes) -> None:
        self._write(_header(_TREE, len(content)), zlib.compress(content, _COMPRESSION))

    def finish(self) -> str:
        """The name of the pack; its bytes are on the disk."""
        name = self._hasher.hexdigest()
        self._file.write(bytes.fromhex(name))
        self._file.flush()
        os.fsync(self._file.fileno())
        return name

    def _write(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._hasher.update(piece)
            self._file.write(piece)


def _level(start: bytes) -> int:
    """None for what is compressed already: that would take long and save nothing."""
    sample = start[:_SAMPLE_BYTES]
    saves = len(sample) < _SAMPLE_BYTES or len(zlib.compress(sample, _COMPRESSION)) < 0.95 * _SAMPLE_BYTES
    return _COMPRESSION if saves else 0


def _header(kind: int, size: int) -> bytes:
    """The kind and the low four bits of the size, then seven bits a byte; the top bit: more follows."""
    return bytes(_header_bytes((kind << 4) | (size & 15), size >> 4))


def _header_bytes(byte: int, rest: int) -> Iterable[int]:
    while rest:
        yield byte | 0x80
        byte, rest = rest & 0x7F, rest >> 7
    yield byte
