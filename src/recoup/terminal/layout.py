"""Cells in columns, cut to what fits."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from recoup.kernel.wording import one_line

_GAP = 2


class Cell(NamedTuple):
    """A text, and the name of a colour of ours."""

    text: str
    style: str = ""


Row = Sequence[Cell]


def in_columns(rows: Sequence[Row], widths_max: Sequence[int]) -> list[list[Cell]]:
    """Each column as wide as its widest cell and no wider than it may be; the last one takes what it takes."""
    widths = [
        min(widest, max((width_of(row[i].text) for row in rows if i < len(row)), default=0))
        for i, widest in enumerate(widths_max)
    ]
    return [[_padded(row, i, widths) for i in range(len(row))] for row in rows]


def width_of(text: str) -> int:
    """How many columns it takes."""
    return len(text) if text.isascii() else sum(_width(char) for char in text)


def cut(text: str, columns: int) -> str:
    """On one line, and no wider than that; an ellipsis stands for what is left out."""
    text = one_line(text[: 4 * columns + 4])
    if width_of(text) <= columns:
        return text
    kept, width = "", 1
    for char in text:
        width += _width(char)
        if width > columns:
            break
        kept += char
    return kept.rstrip() + "…" if columns else ""


def _padded(row: Row, index: int, widths: Sequence[int]) -> Cell:
    cell = row[index]
    if index >= len(widths):
        return cell
    text = cut(cell.text, widths[index])
    gap = _GAP if widths[index] else 0
    return Cell(text + " " * (widths[index] - width_of(text) + gap), cell.style)


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
