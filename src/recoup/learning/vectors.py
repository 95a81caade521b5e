"""Elements and screens as vectors: the more of their letters they share, the nearer they are.

Runs of characters are hashed to places of the vector. The arithmetic is on whole numbers up to one division and one
root, so that the same words are the same bits on every machine. Of the words nothing is kept that could be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from recoup.model.target import Box, Element, plain, said_by

DIMENSIONS: Final = 256
"""Of an element's vector."""
SCREEN_DIMENSIONS: Final = 1_024
"""More, because a screen has as many names as an element has letters."""
TEXT_CHARS_MAX: Final = 500
ELEMENTS_MAX: Final = 2_000
"""Of a screen; the rest tells nothing more about which one it is."""
CELLS: Final = 8
"""Into which a screen is divided, across and down, to say where things lie."""
ACTED_ON: Final = frozenset({
    "button", "link", "textbox", "searchbox", "checkbox", "radio", "combobox", "listbox", "option", "switch",
    "slider", "spinbutton", "menuitem", "menuitemcheckbox", "menuitemradio", "tab", "treeitem"
})  # fmt: skip

Vector: TypeAlias = npt.NDArray[np.float32]
Counts: TypeAlias = npt.NDArray[np.int64]

HASHED: Final = "hashing"
"""The name of the vectoriser that everybody has."""
_GRAMS: Final = (3, 4)
_EDGE: Final = "\x02"


class Vectoriser(Protocol):
    """Makes vectors of length one of elements. What one made is never compared with what another made."""

    @property
    def name(self) -> str:
        """Stored with the vectors: it tells which one made them, down to the model."""
        ...

    @property
    def dimensions(self) -> int: ...

    def of_element(self, element: Element) -> Vector: ...


class Hashing:
    """By runs of characters: needs nothing, and is the same everywhere."""

    name: Final = HASHED
    dimensions: Final = DIMENSIONS

    def of_element(self, element: Element) -> Vector:
        return of_element(element)


HASHING: Final = Hashing()


def of_element(element: Element) -> Vector:
    """By what names it and what it is among; where it lies says nothing."""
    return _unit(_counted(fields_of(element), DIMENSIONS))


def fields_of(element: Element) -> list[tuple[str, str, int]]:
    """What is told of it: field, text, weight."""
    return [
        ("said", plain(said_by(element)), 3),
        ("name", plain(element.name), 1),
        ("kind", f"{element.tag} {element.role} {element.type}", 1),
        ("key", f"{element.id} {element.test_id} {element.name_attribute}", 2),
        ("href", element.href, 1),
        ("container", plain(element.container), 1),
        ("classes", " ".join(element.classes), 1),
        ("ancestors", " ".join(element.ancestors), 1),
    ]


def of_screen(title: str, elements: Sequence[Element]) -> Vector:
    """By its title and the names of what can be acted on. Sizes and places are compared apart: they drift."""
    names = {
        f"{element.role} {plain(said_by(element))}"
        for element in elements[:ELEMENTS_MAX]
        if can_be_acted_on(element)
    }
    # The title weighs a quarter of all the names, however many there are: pages of one site share most of them.
    told = [("title", plain(title), max(1, len(names) // 4))]
    return _unit(_counted([*told, *(("name", name, 1) for name in sorted(names))], SCREEN_DIMENSIONS))


def layout_of(elements: Sequence[Element], page: Box) -> Vector:
    """In which parts of the page lies what can be acted on."""
    counts = np.zeros(CELLS * CELLS, np.int64)
    for element in elements[:ELEMENTS_MAX]:
        if can_be_acted_on(element):
            across = _cell(element.box.x + element.box.width / 2, page.width)
            down = _cell(element.box.y + element.box.height / 2, page.height)
            counts[down * CELLS + across] += 1
    return _unit(counts)


def can_be_acted_on(element: Element) -> bool:
    return element.visible and element.role in ACTED_ON


def likeness(one: Vector, other: Vector) -> float:
    """From 0 to 1; 0 also where one of them says nothing."""
    return float(np.clip(np.dot(one.astype(np.float64), other.astype(np.float64)), 0.0, 1.0))


def _cell(at: float, length: float) -> int:
    return min(CELLS - 1, max(0, int(CELLS * at / length))) if length > 0 else 0


def _counted(pieces: Sequence[tuple[str, str, int]], dimensions: int) -> Counts:
    """How often each place of the vector is hit by the runs of characters of these texts: field, text, weight."""
    told = [
        (field, f"{_EDGE}{text[:TEXT_CHARS_MAX]}{_EDGE}", weight)
        for field, text, weight in pieces
        if text.strip()
    ]
    letters = _letters("".join(text for _, text, _ in told))
    owners = np.repeat(np.arange(len(told)), [len(text) for _, text, _ in told])
    weights = np.array([weight for _, _, weight in told], np.int64)
    counts = np.zeros(dimensions, np.int64)
    for length in _GRAMS:
        seeds = np.array([_seed(f"{field}:{length}") for field, _, _ in told], np.uint64)
        starts = np.flatnonzero(owners[: len(owners) - length + 1] == owners[length - 1 :])
        hashes = _hashes(letters, starts, length, seeds[owners[starts]])
        signed = np.where(hashes >> np.uint64(63), 1, -1) * weights[owners[starts]]
        places = (hashes % np.uint64(dimensions)).astype(np.int64)
        counts += np.bincount(places, signed, dimensions).astype(np.int64)
    return counts


def _letters(text: str) -> npt.NDArray[np.uint64]:
    return np.frombuffer(text.encode("utf-32-le", "replace"), "<u4").astype(np.uint64)


@cache
def _seed(words: str) -> int:
    """FNV-1a. Of the few fields there are."""
    seed = 0xCBF29CE484222325
    for byte in words.encode():
        seed = (seed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return seed


def _hashes(
    letters: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.int64],
    length: int,
    seeds: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint64]:
    """One for each run of so many characters: multiplied along, then mixed as splitmix64 does it."""
    mixed = seeds
    for offset in range(length):
        mixed = (mixed ^ letters[starts + offset]) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _unit(counts: Counts) -> Vector:
    """Of length one. Roots of counts, so that what is repeated counts less; their squares add up to a whole number."""
    total = int(np.abs(counts).sum())
    if total == 0:
        return np.zeros(len(counts), np.float32)
    return (np.sign(counts) * np.sqrt(np.abs(counts) / total)).astype(np.float32)
