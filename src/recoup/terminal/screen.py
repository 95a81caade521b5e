"""Rows at the end of a terminal, redrawn in place; what is printed meanwhile scrolls away above them.

Nothing is drawn while another job has the terminal: it would land in the line that the user is typing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TextIO

from recoup.terminal import writer
from recoup.terminal.layout import Row, cut, width_of

_PERIOD_S: Final = 0.2
_NO_WRAP, _WRAP, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[?7l", "\x1b[?7h", "\x1b[K", "\x1b[J"


class Size(NamedTuple):
    columns: int
    lines: int


def can_redraw() -> bool:
    """Whether stderr is a terminal on which the cursor can be moved."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def is_in_front(stream: TextIO) -> bool:
    """Whether the terminal is ours, and not of a shell that started us with `&`."""
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except OSError:
        return True  # not the terminal that controls us: nobody else writes there


class Screen:
    """Draws the rows it is given, a few times a second and once more at the end, where they stay."""

    def __init__(self, rows: Callable[[Size], Sequence[Row]]) -> None:
        self._rows = rows
        self._stream: TextIO = sys.stderr
        self._drawn: list[int] = []
        """The width of each row that stands on the terminal now."""
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._redraw, name="screen", daemon=True)

    def __enter__(self) -> Screen:
        writer._screens.append(self)
        self._continued = signal.signal(signal.SIGCONT, lambda *_: self._drawn.clear())
        self.draw()
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._ended.set()
        self._thread.join()
        signal.signal(signal.SIGCONT, self._continued)
        self.draw()
        writer._screens.remove(self)

    def above(self, write: Callable[[], None]) -> None:
        """Let something be printed where the rows stand, and draw them below it."""
        with self._lock:
            if self._drawn and self.is_in_front():
                self._put(self._back() + _CLEAR_BELOW)
            self._drawn.clear()
            write()
            self.draw()

    def draw(self) -> None:
        with self._lock:
            if not self.is_in_front():
                self._drawn.clear()
                return
            size = self._size()
            rows = [_painted(row, size.columns - 1, self._stream) for row in self._rows(size)][
                : size.lines - 1
            ]
            lines = "".join(f"{text}{_CLEAR_LINE}\r\n" for text, _ in rows)
            self._put(f"{self._back()}{_NO_WRAP}{lines}{_WRAP}{_CLEAR_BELOW}")
            self._drawn[:] = [width for _, width in rows]

    def is_in_front(self) -> bool:
        return is_in_front(self._stream)

    def _redraw(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            self.draw()

    def _back(self) -> str:
        """To the first row; a terminal that became narrower has wrapped them."""
        columns = self._size().columns
        lines = sum(max(1, -(-width // columns)) for width in self._drawn)
        return f"\r\x1b[{lines}A" if lines else ""

    def _size(self) -> Size:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return Size(80, 24)
        return Size(size.columns or 80, size.lines or 24)

    def _put(self, text: str) -> None:
        writer._write(self._stream, text)


def _painted(row: Row, columns: int, stream: TextIO) -> tuple[str, int]:
    """The row with its colours, and how wide it is."""
    painted, used = "", 0
    for cell in row:
        text = cut(cell.text, columns - used) if columns > used else ""
        painted, used = painted + writer.styled(text, cell.style, stream), used + width_of(text)
    return painted, used
