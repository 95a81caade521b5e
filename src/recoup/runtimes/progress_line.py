"""How far a step is, as it tells while it works: a line `DONE/TOTAL words` into the pipe that RECOUP_PROGRESS names.

Either number may be `?`, the words may be a JSON string, and words alone will do. Whatever comes counts as progress
for the idle timer; the newest line is shown, a few times a second at most, so that a flood costs next to nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple

import msgspec

from recoup.model.outcome import Order
from recoup.runtimes.named_pipe import NamedPipe, pipe_path

PROGRESS_VARIABLE: Final = "RECOUP_PROGRESS"
NOTE_CHARS_MAX: Final = 200
_LINE_BYTES_MAX: Final = 4096
_PAUSE_S: Final = 0.1
_NUMBER_CHARS_MAX: Final = 40


class Said(NamedTuple):
    """One line of progress, raw."""

    note: str
    done: float | None = None
    total: float | None = None


class ProgressPipe:
    """Where a step tells how far it is. When there can be no pipe, what it tells is lost and the step is not."""

    def __init__(self, order: Order, show: Callable[[Said], None]) -> None:
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._progress: Callable[[], None] = _nobody
        self._rest = b""
        self._newest = b""
        self._timer: asyncio.TimerHandle | None = None
        self._next_s = 0.0
        try:
            self._pipe: NamedPipe | None = NamedPipe(pipe_path(order, "progress"), self._take)
        except OSError:
            self._pipe = None

    def __enter__(self) -> ProgressPipe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pipe is not None:
            self._pipe.drain()
            self._pipe.close()
        if self._timer is not None:
            self._timer.cancel()
            self._show_newest()

    @property
    def path(self) -> str:
        return str(self._pipe.path) if self._pipe is not None else "/dev/null"

    def attach(self, progress: Callable[[], None]) -> Callable[[], None]:
        self._progress = progress
        return self._detach

    def _detach(self) -> None:
        self._progress = _nobody

    def _take(self, chunk: bytes) -> None:
        self._progress()
        text = self._rest + chunk
        end = text.rfind(b"\n")
        self._rest = text[end + 1 :][: _LINE_BYTES_MAX + 1]
        newest = text[text.rfind(b"\n", 0, max(end, 0)) + 1 : max(end, 0)]
        if newest.strip():
            self._newest = newest
            self._show_soon()

    def _show_soon(self) -> None:
        """The newest line, now or when the pause is over: the last one of many is never lost."""
        if self._timer is None:
            self._timer = self._loop.call_at(max(self._next_s, self._loop.time()), self._show_newest)

    def _show_newest(self) -> None:
        self._timer = None
        self._next_s = self._loop.time() + _PAUSE_S
        self._show(said_in(self._newest))


def _nobody() -> None:
    """No idle timer is running."""


def said_in(line: bytes) -> Said:
    """What a line says: numbers if it begins with them, and words."""
    text = _cut(line).decode("utf-8", "replace").strip()
    count, _, note = text.partition(" ")
    done, slash, total = count.partition("/")
    if not slash or not _is_number(done) or not _is_number(total):
        return Said(text)
    return Said(_unquoted(note.strip()), _number(done), _number(total))


def one_line(note: str) -> str:
    """Of what is redacted already: a secret that was cut, or torn at a space, could not be found any more."""
    return " ".join(note.split())[:NOTE_CHARS_MAX]


def _cut(line: bytes) -> bytes:
    return line if len(line) <= _LINE_BYTES_MAX else line[:_LINE_BYTES_MAX].rpartition(b" ")[0]


def _unquoted(note: str) -> str:
    try:
        return msgspec.json.decode(note, type=str) if note.startswith('"') else note
    except msgspec.DecodeError:
        return note


def _is_number(text: str) -> bool:
    return text == "?" or _number(text) is not None


def _number(text: str) -> float | None:
    try:
        value = float(text[:_NUMBER_CHARS_MAX])
    except ValueError:
        return None
    return value if math.isfinite(value) else None
