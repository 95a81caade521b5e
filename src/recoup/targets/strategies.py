"""By which evidence an element was taken for a recorded one, in a word: the same evidence always has the same name."""

from __future__ import annotations

from typing import Final

from recoup.model.target import MODEL, SEMANTIC, SPATIAL
from recoup.targets.area import KEYS
from recoup.targets.features import AT
from recoup.targets.page import Facets, Floats

NEIGHBOURS_MIN: Final = 0.5
"""The share of the words around it that must still be there to know the place by them."""


def deciding(mine: Facets, its: Facets, row: Floats) -> str:
    """What told the element from the others: `semantic`, other words that mean the same or that were its own before in
    another place; `spatial`, where it is; otherwise the likeness of the whole, `model`."""
    if _says_the_same_otherwise(mine, its):
        return SEMANTIC
    if any(row[AT[key]] == 1.0 for key in KEYS) or not _words_do_not_tell(row):
        return MODEL
    return SPATIAL if _is_where_it_was(row) else MODEL


def _says_the_same_otherwise(mine: Facets, its: Facets) -> bool:
    if not mine.said or not its.said or mine.said == its.said:
        return False
    return not mine.faces.isdisjoint(its.faces) or (bool(mine.meaning) and mine.meaning == its.meaning)


def _words_do_not_tell(row: Floats) -> bool:
    """Some were lost, or others say the same."""
    return bool(row[AT["words_kept"]] < 1.0 or row[AT["said_equal_elsewhere"]] > 0)


def _is_where_it_was(row: Floats) -> bool:
    in_place = row[AT["same_left"]] > 0 and row[AT["same_top"]] > 0
    among = row[AT["container"]] == 1.0 or row[AT["neighbours_kept"]] >= NEIGHBOURS_MIN
    return bool(in_place or among or row[AT["id_path"]] == 1.0)
