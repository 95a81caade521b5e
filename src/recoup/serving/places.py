"""Limits on the number of connections. Connections that have shown a valid token or session have reserved places, which
clients without one cannot take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

LOOK_S: Final = 0.25
"""So long a new connection may take before it is dropped for those behind it: its first request is on the way."""


class Line(Protocol):
    """A connection, as far as its place is concerned."""

    @property
    def sender(self) -> str:
        """Who is at the other end, as far as an address says."""
        ...

    @property
    def is_idle(self) -> bool:
        """No request is being answered."""
        ...

    def drop(self) -> None: ...


class PlaceLimits(msgspec.Struct, frozen=True, kw_only=True):
    connections_max: int
    unproven_max: int
    """Of them, without a valid token or session."""
    unproven_of_sender_max: int


class Places:
    """All connections of one server, oldest first."""

    def __init__(self, limits: PlaceLimits) -> None:
        self._limits = limits
        self._unproven: dict[Line, None] = {}
        self._proven: dict[Line, None] = {}
        self._had_time: set[Line] = set()
        """Those of the unproven that were there at the last look."""
        self._next_look: asyncio.TimerHandle | None = None

    def enter(self, line: Line) -> bool:
        """Whether there is a place for it. If not, an idle connection may have been closed to make room."""
        has_place = (
            len(self._unproven) + len(self._proven) < self._limits.connections_max or self._make_room()
        )
        self._unproven[line] = None
        self._look_soon()
        return has_place

    def prove(self, line: Line) -> None:
        """It has shown a valid token or session."""
        if self._forget(self._unproven, line):
            self._proven[line] = None

    def leave(self, line: Line) -> None:
        self._forget(self._unproven, line)
        self._proven.pop(line, None)

    def _make_room(self) -> bool:
        """At the cost of who shows nothing and asks nothing; then of who asks nothing; then of who shows nothing."""
        chosen = (
            next((line for line in self._unproven if line.is_idle), None)
            or next((line for line in self._proven if line.is_idle), None)
            or next(iter(self._unproven), None)
        )
        if chosen is not None:
            self._drop(chosen)
        return chosen is not None

    def _look_soon(self) -> None:
        if self._next_look is None and self._is_crowded():
            self._next_look = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _is_crowded(self) -> bool:
        if len(self._unproven) <= self._limits.unproven_of_sender_max:
            return False
        return len(self._unproven) > self._limits.unproven_max or self._of_sender().most_common(1)[0][1] > (
            self._limits.unproven_of_sender_max
        )

    def _of_sender(self) -> Counter[str]:
        return Counter(line.sender for line in self._unproven)

    def _look(self) -> None:
        self._next_look = None
        of_sender, over = self._of_sender(), len(self._unproven) - self._limits.unproven_max
        for line in _idle_first(line for line in self._unproven if line in self._had_time):
            if over > 0 or of_sender[line.sender] > self._limits.unproven_of_sender_max:
                of_sender[line.sender] -= 1
                over -= 1
                self._drop(line)
        self._had_time = set(self._unproven)
        self._look_soon()

    def _drop(self, line: Line) -> None:
        self.leave(line)
        line.drop()

    def _forget(self, lines: dict[Line, None], line: Line) -> bool:
        self._had_time.discard(line)
        return lines.pop(line, line) is None


def _idle_first(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: not line.is_idle)
