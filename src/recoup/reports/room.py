"""How much of a page is left: pieces are taken while they fit, and the rest is counted."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Kept(msgspec.Struct, frozen=True):
    pieces: tuple[str, ...]
    left_out: int


def fitting(pieces: Iterable[str], limit_bytes: int) -> Kept:
    """From the first piece that does not fit, all are left out: a reader is told of one gap, at the end."""
    kept: list[str] = []
    left_out = 0
    for piece in pieces:
        limit_bytes -= len(piece.encode())
        if limit_bytes < 0:
            left_out += 1
        else:
            kept.append(piece)
    return Kept(tuple(kept), left_out)


def fitting_ends(pieces: list[str], limit_bytes: int) -> tuple[Kept, Kept]:
    """The beginning and the end of a story: what happened last matters as much as how it began."""
    first = fitting(pieces, limit_bytes // 2)
    rest = pieces[len(first.pieces) :]
    last = fitting(reversed(rest), limit_bytes // 2)
    return Kept(first.pieces, last.left_out), Kept(tuple(reversed(last.pieces)), 0)
