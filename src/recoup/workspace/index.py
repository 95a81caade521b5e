"""Git's index without what it remembers about the files of one disk.

Times and inode numbers in an index differ for equal contents, and change whenever somebody looks (`git
status`). A checkpoint stores an index without them; a restored workspace gets those of its own files.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

INDEX_BYTES_MAX = 256 << 20

_HEADER = struct.Struct(">4sII")
_STAT = struct.Struct(">IIIIII")  # changed s, ns; modified s, ns; device; inode. The mode follows and stays.
_MODE = struct.Struct(">I")
_OWNER = struct.Struct(">III")  # user, group, size
_FLAGS = struct.Struct(">H")
_EXTENSION = struct.Struct(">4sI")
_OWNER_AT = 28
_ID_AT = 40
_EXTENDED = 0x4000
# Caches that only hold for one disk, and tables of where things are in the file.
_DROPPED = (b"UNTR", b"FSMN", b"EOIE", b"IEOT")
_SPLIT = b"link"
_SECOND_NS = 1_000_000_000
_FORMATS = {"sha1": 20, "sha256": 32}


class Entry(NamedTuple):
    """A path in the index. Its record begins at `at`; the next one, or what follows the last, at `end`."""

    at: int
    end: int
    path: bytes
    mode: int
    id: str
    stage: int


class _Parsed(NamedTuple):
    object_format: str
    records: bytearray
    entries: list[Entry]
    extensions: bytes


def without_status(raw: bytes) -> bytes | None:
    """None for what is not an index that we understand to the last byte: that is stored as it is."""
    parsed = _parsed(raw)
    if parsed is None:
        return None
    for entry in parsed.entries:
        _set(parsed.records, entry, bytes(_STAT.size), bytes(_OWNER.size))
    return _whole(parsed)


def with_status(raw: bytes, status_of: Callable[[Entry], os.stat_result | None]) -> bytes:
    """`status_of` gives the status of a file that holds what its entry says, so that git need not read it."""
    parsed = _parsed(raw)
    if parsed is None:
        return raw
    for entry in parsed.entries:
        status = status_of(entry) if entry.stage == 0 else None
        if status is not None:
            _set(parsed.records, entry, _stat_bytes(status), _owner_bytes(status))
    return _whole(parsed)


def _parsed(raw: bytes) -> _Parsed | None:
    try:
        object_format = _format_of(raw)
        entries = list(_entries(raw, _FORMATS[object_format]))
        start = entries[-1].end if entries else _HEADER.size
        extensions = b"".join(_kept(raw, start, len(raw) - _FORMATS[object_format]))
    except (ValueError, IndexError, struct.error):
        return None
    return _Parsed(object_format, bytearray(raw[:start]), entries, extensions)


def _format_of(raw: bytes) -> str:
    """The one whose checksum is right."""
    for name, size in _FORMATS.items():
        if len(raw) >= _HEADER.size + size and hashlib.new(name, raw[:-size]).digest() == raw[-size:]:
            return name
    raise ValueError("not an index, or one without a checksum")


def _entries(raw: bytes, id_bytes: int) -> Iterator[Entry]:
    signature, version, count = _HEADER.unpack_from(raw)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index of a version that we know")
    at, path = _HEADER.size, b""
    for _ in range(count):
        flags_at = at + _ID_AT + id_bytes
        (flags,) = _FLAGS.unpack_from(raw, flags_at)
        name_at = flags_at + (4 if flags & _EXTENDED else 2)
        path, end = _short_name(raw, name_at, path) if version == 4 else _padded_name(raw, name_at, at)
        (mode,) = _MODE.unpack_from(raw, at + _STAT.size)
        yield Entry(at, end, path, mode, raw[at + _ID_AT : flags_at].hex(), flags >> 12 & 3)
        at = end


def _padded_name(raw: bytes, name_at: int, at: int) -> tuple[bytes, int]:
    """Up to a NUL; the record is filled up to a multiple of eight bytes."""
    stop = raw.index(0, name_at)
    return raw[name_at:stop], at + ((stop - at + 8) & ~7)


def _short_name(raw: bytes, name_at: int, before: bytes) -> tuple[bytes, int]:
    """How much of the name before to cut off, and what to put in its place."""
    cut = raw[name_at] & 0x7F
    while raw[name_at] & 0x80:
        name_at += 1
        cut = ((cut + 1) << 7) + (raw[name_at] & 0x7F)
    stop = raw.index(0, name_at + 1)
    return before[: len(before) - cut] + raw[name_at + 1 : stop], stop + 1


def _kept(raw: bytes, at: int, end: int) -> Iterator[bytes]:
    while at < end:
        signature, size = _EXTENSION.unpack_from(raw, at)
        after = at + _EXTENSION.size + size
        if signature == _SPLIT or after > end:
            raise ValueError("an index in several files, or a damaged one")
        if signature not in _DROPPED:
            yield raw[at:after]
        at = after
    if at != end:
        raise ValueError("a record that is longer than the index")


def _set(records: bytearray, entry: Entry, status: bytes, owner: bytes) -> None:
    records[entry.at : entry.at + _STAT.size] = status
    records[entry.at + _OWNER_AT : entry.at + _ID_AT] = owner


def _stat_bytes(status: os.stat_result) -> bytes:
    changed, modified = divmod(status.st_ctime_ns, _SECOND_NS), divmod(status.st_mtime_ns, _SECOND_NS)
    return _STAT.pack(*(_low(part) for part in (*changed, *modified, status.st_dev, status.st_ino)))


def _owner_bytes(status: os.stat_result) -> bytes:
    return _OWNER.pack(*(_low(part) for part in (status.st_uid, status.st_gid, status.st_size)))


def _low(number: int) -> int:
    """The 32 bits that git keeps."""
    return number & 0xFFFFFFFF


def _whole(parsed: _Parsed) -> bytes:
    content = bytes(parsed.records) + parsed.extensions
    return content + hashlib.new(parsed.object_format, content).digest()
