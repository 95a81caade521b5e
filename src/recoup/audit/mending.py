"""Finding where the chain ends. What lies behind its last good line is set aside, and a gap is marked there."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from recoup.audit.chain import Torn, last_link, links
from recoup.audit.folder import AuditFolder, NotedHead, number_of
from recoup.audit.line import GENESIS, BadLine, Entry, Gap, Head, chained, gap_entry
from recoup.audit.log import AuditLog
from recoup.durable import write_pieces
from recoup.errors import StateError
from recoup.model.instant import Instant

_PIECE_BYTES = 1 << 20


class _End(msgspec.Struct, frozen=True):
    """The last good line of the last file, and what is wrong behind it."""

    path: Path
    size: int
    head: Head
    wrong: str | None = None


@contextlib.contextmanager
def opened_log(folder: AuditFolder, file_bytes_max: int, now: Instant) -> Iterator[AuditLog]:
    """Only under the folder's lock. Raises StateError when the chain has no end that could be gone on from."""
    files, noted = folder.files(), folder.noted_head()
    end = _end(files, noted) if files else None
    head = end.head if end else GENESIS
    if end and end.wrong is not None:
        head, noted = _set_aside(folder, end, noted, now), None
    with AuditLog(folder, end.path if end else None, head, file_bytes_max) as log:
        _mark_what_is_missing(log, end, noted, now)
        yield log


def _end(files: list[Path], noted: NotedHead | None) -> _End:
    path = files[-1]
    if noted and noted.file == path.name and noted.bytes <= path.stat().st_size:
        link = last_link(path, noted.bytes)
        if link is not None and link.head == noted.head:
            return _walked(path, noted.bytes, noted.head)
    return _walked(path, 0, _head_before(files))


def _walked(path: Path, start: int, head: Head | None) -> _End:
    size = start
    try:
        for found in links(path, start, head):
            size, head = found.end, found.link.head
    except BadLine as bad:
        return _End(path, size, _known(head, path), "torn" if isinstance(bad, Torn) else "damaged")
    return _End(path, size, _known(head, path))


def _head_before(files: list[Path]) -> Head | None:
    """That of the file before the last one; None when this file is gone."""
    number = number_of(files[-1])
    if number == 1:
        return GENESIS
    if len(files) < 2 or number_of(files[-2]) != number - 1:
        return None
    link = last_link(files[-2])
    return link.head if link else None


def _known(head: Head | None, path: Path) -> Head:
    if head is None:
        raise StateError(
            f"the audit cannot go on in {path}: the lines before it are gone or damaged",
            hint="Look at it with `recoup audit verify`. Then move the folder away; "
            "`recoup audit export` makes it anew from the ledger.",
        )
    return head


def _mark_what_is_missing(log: AuditLog, end: _End | None, noted: NotedHead | None, now: Instant) -> None:
    if noted is not None and noted.head.n > log.head.n:
        log.append([gap_entry(_missing(end, log.head, noted), log.head, now)])
    elif noted is None or noted.head != log.head:
        log.append([])  # so that what somebody left behind is durable before it is noted


def _missing(end: _End | None, head: Head, noted: NotedHead) -> Gap:
    """Lines that were durable once and are gone without a trace."""
    here = end is not None and noted.file == end.path.name
    return Gap(
        reason="cut" if here else "lost",
        file=noted.file,
        offset=end.size if end and here else 0,
        bytes=0,
        kept_as=None,
        lines_lost=noted.head.n - head.n,
        up_to=noted.head.arrival,
    )


def _set_aside(folder: AuditFolder, end: _End, noted: NotedHead | None, now: Instant) -> Head:
    rest, rest_bytes = hashlib.sha256(), 0
    for piece in _pieces_behind(end):
        rest.update(piece)
        rest_bytes += len(piece)
    kept_as = f"{end.path.stem}-torn-{rest.hexdigest()[:16]}.bytes"
    write_pieces(folder.root / kept_as, _pieces_behind(end))
    lost = noted.head if noted and noted.head.n > end.head.n else None
    gap = Gap(
        reason=end.wrong or "damaged",
        file=end.path.name,
        offset=end.size,
        bytes=rest_bytes,
        kept_as=kept_as,
        lines_lost=lost.n - end.head.n if lost else None,
        up_to=lost.arrival if lost else end.head.arrival,
    )
    return _overwrite(end, gap_entry(gap, end.head, now))


def _overwrite(end: _End, entry: Entry) -> Head:
    """The gap is written over the bytes that were set aside, and only then is the file made shorter: whenever this
    is cut short, something is left there that does not fit, and it is found again."""
    line, head = chained(entry, end.head)
    file = os.open(end.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        left, place = memoryview(line), end.size
        while left:
            written = os.pwrite(file, left, place)
            left, place = left[written:], place + written
        os.ftruncate(file, place)
        os.fsync(file)
    finally:
        os.close(file)
    return head


def _pieces_behind(end: _End) -> Iterator[bytes]:
    """However much it is, a little at a time."""
    with end.path.open("rb") as file:
        file.seek(end.size)
        while piece := file.read(_PIECE_BYTES):
            yield piece
