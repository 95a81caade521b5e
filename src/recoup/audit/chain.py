"""Reading the chain from files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from recoup.audit.line import LINE_BYTES_MAX, BadLine, Head, Link, TooLong, read_line, require_next

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
        while (stop is None or end < stop) and (line := next_line(file)):
            end += len(line)
            if not line.endswith(b"\n") or (stop is not None and end > stop):
                raise Torn(f"the line is torn off after {len(line)} bytes")
            link = read_line(line[:-1])
            if head is not None:
                require_next(link, head)
            head = link.head
            yield Found(link, end)


def next_line(file: BinaryIO) -> bytes:
    """With its end, where it has one; empty at the end of the file. Raises TooLong."""
    line = file.readline(LINE_BYTES_MAX + 1)
    if len(line) > LINE_BYTES_MAX:
        raise TooLong
    return line


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
    """What lies behind the last line end before the byte at `stop - 1`; nothing, where that is longer than a line."""
    with path.open("rb") as file:
        begin = _line_begins(file, stop)
        if stop - begin > LINE_BYTES_MAX:
            return b""
        file.seek(begin)
        return file.read(stop - begin)


def _line_begins(file: BinaryIO, stop: int) -> int:
    place = stop - 1
    while place and stop - place <= LINE_BYTES_MAX:
        begin = max(0, place - _BLOCK_BYTES)
        file.seek(begin)
        found = file.read(place - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        place = begin
    return place
