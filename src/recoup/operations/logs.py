"""What steps printed: pieces of a log, in whole characters."""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recoup.files.named import opened, read_named
from recoup.model.answers.runs import Log
from recoup.model.run import RunState
from recoup.operations.lookup import step_index

if TYPE_CHECKING:
    from recoup.app import App

LOG_BYTES_MAX: Final = 256_000
_HEADING: Final = re.compile(rb"^--- attempt (\d{1,9}) of [^\n]{1,400} at ([0-9TZ:.-]{10,40})$", re.MULTILINE)


async def show_log(
    app: App, state: RunState, step: str, limit: int, after: int = 0, *, tail: bool = False
) -> Log:
    """What a step printed, redacted, as far as it is kept on this machine. `tail`: its end. Raises NotFound."""
    index, files = step_index(state, step), app.runs.files(state.run_id)
    begin = files.log_tail(index, limit) if tail else after
    offset, raw = log_piece(files.log_path(index), begin, limit)
    return Log(
        step_id=state.steps[index].step_id,
        step_index=index,
        offset=offset,
        next_offset=offset + len(raw),
        log=raw.decode("utf-8", "replace"),
    )


def whole_log(app: App, state: RunState, index: int) -> bytes:
    """All that a step printed, redacted; nothing where none of it is kept on this machine."""
    path = app.runs.files(state.run_id).log_path(index)
    return read_named(path) if path.exists() else b""


def log_piece(path: Path, offset: int, limit: int) -> tuple[int, bytes]:
    """From there, whole characters; from the beginning where the log is shorter than that: it was begun anew."""
    try:
        with opened(path) as file:
            begin = offset if offset <= path.stat().st_size else 0
            file.seek(begin)
            return begin, whole(file.read(limit))
    except FileNotFoundError:
        return offset, b""


def whole(raw: bytes) -> bytes:
    """Without the beginning of a character whose end has not come yet."""
    for back in range(1, min(4, len(raw)) + 1):
        lead = raw[-back]
        if lead & 0xC0 == 0x80:
            continue
        length = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        return raw[:-back] if length > back else raw
    return raw


def attempt_section(path: Path, attempt: int, begun: Mapping[int, str]) -> tuple[int, int] | None:
    """Where an attempt's part of a step's log begins and ends, by the headings that stand before each.

    A step may print such a line itself: one counts only if its attempt was `begun`, not later than it says."""
    try:
        with opened(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            places = [
                (int(found[1]), found.start())
                for found in _HEADING.finditer(log)
                if begun.get(int(found[1]), "~") <= found[2].decode()
            ]
            size = len(log)
    except (FileNotFoundError, ValueError):  # nothing was printed
        return None
    first = next((place for number, place in places if number == attempt), None)
    if first is None:
        return None
    return first, min((place for number, place in places if number > attempt and place > first), default=size)
