"""The time axis: seconds to fractions. A night in which nobody worked must not press the work into a line."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

import msgspec

from recoup.reports.spoken import lasting, since
from recoup.reports.view import Tick

Stretch = tuple[float, float]
_BREAK = 0.05
"""How much of the axis one pause takes, however long it was."""
_BREAKS_MAX = 8
_PAUSE_S_MIN = 60
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600)
_DAY_S = 86_400
_TICKS_MAX = 6


class _Piece(msgspec.Struct, frozen=True):
    begin_s: float
    end_s: float
    begin: float
    end: float
    paused: bool


class Axis(msgspec.Struct, frozen=True):
    pieces: tuple[_Piece, ...]

    def place(self, at_s: float) -> float:
        index = bisect.bisect_right([piece.begin_s for piece in self.pieces], at_s) - 1
        piece = self.pieces[max(0, index)]
        length = piece.end_s - piece.begin_s
        part = (at_s - piece.begin_s) / length if length else 0.0
        return piece.begin + min(1.0, max(0.0, part)) * (piece.end - piece.begin)

    def ticks(self) -> tuple[Tick, ...]:
        worked = [piece for piece in self.pieces if not piece.paused]
        every_s = _every(sum(piece.end_s - piece.begin_s for piece in worked))
        found: list[Tick] = []
        for piece in worked:
            number = int(piece.begin_s // every_s) + (1 if piece.begin_s % every_s else 0)
            while number * every_s <= piece.end_s and len(found) < 3 * _TICKS_MAX:
                at = self.place(number * every_s)
                if not found or at - found[-1].at > 1 / (2 * _TICKS_MAX):
                    found.append(Tick(at, since(number * every_s)))
                number += 1
        return tuple(found)

    def breaks(self) -> tuple[Tick, ...]:
        return tuple(
            Tick((piece.begin + piece.end) / 2, lasting(piece.end_s - piece.begin_s))
            for piece in self.pieces
            if piece.paused
        )


def axis_of(busy: Iterable[Stretch], end_s: float) -> Axis:
    """The longest pauses between busy stretches are shown as breaks."""
    stretches = _joined(busy)
    worked_s = sum(end - begin for begin, end in stretches)
    edges = [0.0, *(edge for stretch in stretches for edge in stretch), end_s]
    pauses = [
        (begin, end)
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
        if end - begin > max(_PAUSE_S_MIN, worked_s / 5)
    ]
    longest = sorted(sorted(pauses, key=lambda pause: pause[0] - pause[1])[:_BREAKS_MAX])
    return Axis(_pieces(longest, max(end_s, 1e-3)))


def _joined(busy: Iterable[Stretch]) -> list[Stretch]:
    found: list[Stretch] = []
    for begin, end in sorted(busy):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, max(begin, end)))
    return found


def _pieces(pauses: list[Stretch], end_s: float) -> tuple[_Piece, ...]:
    paused_s = sum(end - begin for begin, end in pauses)
    scale = (1 - _BREAK * len(pauses)) / max(end_s - paused_s, 1e-9)
    found: list[_Piece] = []
    at_s, at = 0.0, 0.0
    for begin_s, pause_end_s in [*pauses, (end_s, end_s)]:
        if begin_s > at_s:
            end = at + (begin_s - at_s) * scale
            found.append(_Piece(at_s, begin_s, at, end, False))
            at_s, at = begin_s, end
        if pause_end_s > begin_s:
            found.append(_Piece(begin_s, pause_end_s, at, at + _BREAK, True))
            at_s, at = pause_end_s, at + _BREAK
    return tuple(found)


def _every(span_s: float) -> float:
    wanted = span_s / _TICKS_MAX
    for step_s in _STEPS_S:
        if step_s >= wanted:
            return step_s
    return _DAY_S * max(1, -(-wanted // _DAY_S))
