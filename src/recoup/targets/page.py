"""A page's elements, indexed once: who says what, who is named how, where everything is, what lies in what."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import log1p
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from recoup.model.target import Element, said_by
from recoup.targets.opposites import meaning_of
from recoup.targets.wording import link_of, pairs_of, parameters_of, parts_of, words_of

ELEMENTS_MAX: Final = 20_000
"""Further elements of a page are not looked at; the collector stops long before."""
WORDS_MAX: Final = 40
EMPTY_HINTS: Final = frozenset({"http", "https", "www", "com", "html"})

LANDMARKS: Final = frozenset({"header", "nav", "main", "aside", "footer", "dialog"})

_NUMBERS: Final = re.compile(r"\[\d+\]")

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Facets(msgspec.Struct, frozen=True, gc=False):
    """One element, taken apart for comparing."""

    said: str
    first: str
    """Its first word."""
    words: frozenset[str]
    pairs: frozenset[str]
    faces: frozenset[str]
    """Whatever names it: text, name, label, placeholder, alternative text, title."""
    numbers: frozenset[str]
    meaning: str
    link: str
    address: tuple[str, ...]
    """The steps of the link."""
    parameters: frozenset[str]
    classes: frozenset[str]
    hints: frozenset[str]
    """Parts of its attributes."""
    steps: tuple[str, ...]
    steps_back: tuple[str, ...]
    """The same from its end."""
    landmarks: str
    """The parts of the page that it is in: header, nav, main, footer."""
    pattern: str
    """Its path without numbers: what the items of a list have in common."""
    neighbours: frozenset[str]


def facets_of(element: Element, words: Sequence[str] | None = None) -> Facets:
    words = words_of(said_by(element)) if words is None else words
    said = " ".join(words)
    named = (element.text, element.name, element.label, element.placeholder, element.alt, element.title)
    faces = {" ".join(words_of(text)) for text in set(named) if text}
    link = link_of(element.href)
    pattern = _NUMBERS.sub("", element.xpath)
    steps = element.xpath.split("/")[1:]
    return Facets(
        said=said,
        first=words[0] if words else "",
        words=frozenset(words[:WORDS_MAX]),
        pairs=pairs_of(said) if said else frozenset(),
        faces=frozenset(faces - {""}),
        numbers=frozenset(filter(str.isdigit, words)),
        meaning=meaning_of(said),
        link=link,
        address=tuple(link.split("/")),
        parameters=parameters_of(element.href) if "?" in element.href else frozenset(),
        classes=frozenset(element.classes),
        hints=frozenset(parts_of(attributes_of(element))) - EMPTY_HINTS,
        steps=tuple(steps),
        steps_back=tuple(reversed(steps)),
        landmarks=" ".join([step for step in pattern.split("/") if step in LANDMARKS]),
        pattern=pattern,
        neighbours=frozenset(words_of(" ".join(element.neighbours[:WORDS_MAX]))),
    )


def attributes_of(element: Element) -> str:
    """The names that developers gave it, and where it leads, in one line."""
    parts = (
        element.id,
        element.test_id,
        element.name_attribute,
        *element.classes,
        element.alt,
        element.title,
        element.href,
        *element.attributes.values(),
    )
    return " ".join(parts)


class Page:
    """The index. Nothing in it changes but a memo of facets, each computed from its element alone."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self.elements: Final = tuple(elements[:ELEMENTS_MAX])
        self._words: Final = [words_of(said_by(element)) for element in self.elements]
        self.said: Final = [" ".join(words) for words in self._words]
        self.holders: Final = _holders(self._words)
        self.rarest: Final = log1p(len(self.elements))
        self._rarity: Final = {
            word: log1p(len(self.elements) / (1 + len(held))) for word, held in self.holders.items()
        }
        self.speakers: Final = _places(self.said)
        self.ids: Final = _places([element.id for element in self.elements])
        self.test_ids: Final = _places([element.test_id for element in self.elements])
        self.name_attributes: Final = _places([element.name_attribute for element in self.elements])
        self.links: Final = _places([link_of(element.href) for element in self.elements])
        self.tags: Final = _places([element.tag for element in self.elements])
        self.classes: Final = _holders([element.classes for element in self.elements])
        self.lengths: Final = np.array([len(words) for words in self._words], dtype=np.float64)
        self.boxes: Final = _boxes(self.elements)
        self.edges: Final = _edges(self.boxes)
        self.order, self.end = _nesting(self.elements)
        self.all_attributes: Final = "\n".join(map(attributes_of, self.elements)).lower()
        self._facets: Final[list[Facets | None]] = [None] * len(self.elements)

    def __len__(self) -> int:
        return len(self.elements)

    def facets(self, index: int) -> Facets:
        known = self._facets[index]
        if known is None:
            known = self._facets[index] = facets_of(self.elements[index], self._words[index])
        return known

    @cached_property
    def patterns(self) -> list[str]:
        """Every element's path without numbers; in one go, because there are many."""
        return _NUMBERS.sub("", "\n".join([element.xpath for element in self.elements])).split("\n")

    @cached_property
    def siblings(self) -> Floats:
        """How many elements have the same path but for its numbers, each counted."""
        counts = Counter(self.patterns)
        alike = [counts[pattern] if pattern else 1 for pattern in self.patterns]
        return np.array(alike, dtype=np.float64)

    def within(self, outer: int, inner: int) -> bool:
        """`inner` is `outer` or lies in it."""
        return bool(self.order[outer] <= self.order[inner] < self.end[outer])

    def rarity(self, word: str) -> float:
        """How much a word tells on this page: what everything says tells nothing."""
        return self._rarity.get(word, self.rarest)

    def rarities(self, words: Iterable[str]) -> list[float]:
        """The same of several, in no order."""
        known, rarest = self._rarity, self.rarest
        return [known.get(word, rarest) for word in words]


def _holders(words: Sequence[Sequence[str]]) -> dict[str, list[int]]:
    holders: dict[str, list[int]] = {}
    for index, said in enumerate(words):
        for word in set(said[:WORDS_MAX]):
            if word in holders:
                holders[word].append(index)
            else:
                holders[word] = [index]
    return holders


def _places(values: Sequence[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for index, value in enumerate(values):
        if not value:
            continue
        if value in places:
            places[value].append(index)
        else:
            places[value] = [index]
    return places


def _boxes(elements: Sequence[Element]) -> Floats:
    boxes = [(e.box.x, e.box.y, e.box.width, e.box.height) for e in elements]
    return np.array(boxes, dtype=np.float64).reshape(len(boxes), 4)


def _edges(boxes: Floats) -> tuple[float, float, float, float]:
    """Left, top, right, bottom: from the origin, or what was scrolled beyond it, to the furthest element."""
    if not len(boxes):
        return 0.0, 0.0, 0.0, 0.0
    x, y, width, height = boxes.T
    return (
        min(0.0, float(x.min())),
        min(0.0, float(y.min())),
        float((x + width).max()),
        float((y + height).max()),
    )


def _nesting(elements: Sequence[Element]) -> tuple[Ints, Ints]:
    """Each element's place in the order of paths, and where those that lie in it end."""
    keys = [f"{element.frame or ''}{element.xpath or number}/" for number, element in enumerate(elements)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    in_order = [keys[index] for index in order]
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = np.arange(len(keys))
    end = np.array([bisect_left(in_order, key + "\U0010ffff") for key in keys], dtype=np.int64)
    return place, end
