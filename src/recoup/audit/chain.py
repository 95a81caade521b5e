"""Reading the chain from files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from recoup.audit.line import BadLine, Head, Link, read_line, require_next

_BLOCK_BYTES = 65_536


class Found(msgspec.Struct, frozen=True):
    """A link and where its line ends in the file."""

    link: Link
    end: int


class Torn(BadLine):
    """A last line without an end."""


def links(path: Path, start: int, head: Head | None, stop: int | None = None) -> Iterator[Found]:
    """Those of a file, each checked against the one before it. Raises BadLine at the first that is not right.

    Without a head the first one is taken at its word.
    """
    end = start
    with path.open("rb") as file:
        file.seek(start)
        while (stop is None or end < stop) and (line := file.readline()):
            end += len(line)
            if not line.endswith(b"\n") or (stop is not None and end > stop):
                raise Torn(f"the line is torn off after {len(line)} bytes")
            link = read_line(line[:-1])
            if head is not None:
                require_next(link, head)
            head = link.head
            yield Found(link, end)


def last_link(path: Path, end: int | None = None) -> Link | None:
    """That of the line which ends at `end`, or at the file's end; None when none does, or when it is not right."""
    size = path.stat().st_size
    stop = size if end is None else end
    if not 0 < stop <= size:
        return None
    tail = _last_line(path, stop)
    try:
        return read_line(tail[:-1]) if tail.endswith(b"\n") else None
    except BadLine:
        return None


def _last_line(path: Path, stop: int) -> bytes:
    """What lies behind the last line end before the byte at `stop - 1`."""
    tail, place = b"", stop
    with path.open("rb") as file:
        while place and b"\n" not in tail[:-1]:
            begin = max(0, place - _BLOCK_BYTES)
            file.seek(begin)
            tail, place = file.read(place - begin) + tail, begin
    return tail[tail.rfind(b"\n", 0, -1) + 1 :]
