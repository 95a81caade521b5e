"""A page's elements, indexed once: who says what, who is named how, where everything is, what lies in what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, cached_property, partial
from itertools import chain
from math import fsum, log1p
from typing import Final, NamedTuple

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
    beyond: frozenset[str]
    """Those after the first, in no order."""
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


def facets_of(element: Element, words: Sequence[str] | None = None, pattern: str | None = None) -> Facets:
    """`words` are those it says and `pattern` is of its path, where somebody has taken them apart before."""
    text = said_by(element)
    words = words_of(text) if words is None else words
    said = " ".join(words)
    named = {element.text, element.name, element.label, element.placeholder, element.alt, element.title}
    faces = {said, *[" ".join(words_of(other)) for other in named - {text, ""}]}
    link = link_of(element.href)
    address = link.split("/")
    pattern = _NUMBERS.sub("", element.xpath) if pattern is None else pattern
    steps = element.xpath.split("/")[1:]
    return Facets(
        said=said,
        first=words[0] if words else "",
        words=frozenset(words[:WORDS_MAX]),
        pairs=pairs_of(said) if said else frozenset(),
        faces=frozenset(faces - {""}),
        numbers=frozenset([word for word in words if word.isdigit()]),
        meaning=meaning_of(said),
        link=link,
        address=tuple(address),
        beyond=frozenset(address[1:]),
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
    """The index, each part of it made when it is first asked for: to find something to the letter takes next to none.

    Nothing in it changes but memos, of facets and of how often something occurs.
    """

    def __init__(self, elements: Sequence[Element]) -> None:
        self.elements: Final = tuple(elements[:ELEMENTS_MAX])
        self._facets: Final[list[Facets | None]] = [None] * len(self.elements)
        self._saying: Final[dict[str, Saying]] = {}
        self._occurring: Final[dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self.elements)

    def facets(self, index: int) -> Facets:
        known = self._facets[index]
        if known is None:
            element, pattern = self.elements[index], self.patterns[index]
            known = self._facets[index] = facets_of(element, self._words[index], pattern)
        return known

    @cached_property
    def _words(self) -> list[list[str]]:
        """Of every element. What is around another often says the same."""
        known: dict[str, list[str]] = {}
        texts = [said_by(element) for element in self.elements]
        for text in texts:
            if text not in known:
                known[text] = words_of(text)
        return [known[text] for text in texts]

    @cached_property
    def said(self) -> list[str]:
        return [" ".join(words) for words in self._words]

    @cached_property
    def speakers(self) -> dict[str, list[int]]:
        return _places(self.said)

    @cached_property
    def holders(self) -> dict[str, list[int]]:
        """Who says a word; in no order."""
        saying = [(self._words[places[0]], places) for places in self.speakers.values()]
        return _holders(saying)

    @cached_property
    def rarest(self) -> float:
        return log1p(len(self.elements))

    @cached_property
    def _rarity(self) -> dict[str, float]:
        size = len(self.elements)
        return {word: log1p(size / (1 + len(held))) for word, held in self.holders.items()}

    @cached_property
    def ids(self) -> dict[str, list[int]]:
        return _places([element.id for element in self.elements])

    @cached_property
    def test_ids(self) -> dict[str, list[int]]:
        return _places([element.test_id for element in self.elements])

    @cached_property
    def name_attributes(self) -> dict[str, list[int]]:
        return _places([element.name_attribute for element in self.elements])

    @cached_property
    def links(self) -> dict[str, list[int]]:
        return _places([link_of(element.href) for element in self.elements])

    @cached_property
    def tags(self) -> dict[str, Ints]:
        return _arrays(_places([element.tag for element in self.elements]))

    @cached_property
    def classes(self) -> dict[str, Ints]:
        """Who has a class; in no order. Few lists of classes are on a page, and many times each."""
        having: dict[tuple[str, ...], list[int]] = {}
        for index, element in enumerate(self.elements):
            if element.classes in having:
                having[element.classes].append(index)
            else:
                having[element.classes] = [index]
        return _arrays(_holders(having.items()))

    @cached_property
    def lengths(self) -> Floats:
        return np.array([len(words) for words in self._words], dtype=np.float64)

    @cached_property
    def boxes(self) -> Floats:
        return _boxes(self.elements)

    @cached_property
    def sides(self) -> Floats:
        """The boxes, side by side: of all elements the left, then the top, the width, the height."""
        return np.ascontiguousarray(self.boxes.T)

    @cached_property
    def centres(self) -> Floats:
        """Across, then down."""
        return self.sides[:2] + self.sides[2:] / 2

    @cached_property
    def edges(self) -> tuple[float, float, float, float]:
        return _edges(self.boxes)

    @cached_property
    def nesting(self) -> tuple[Ints, Ints]:
        return _nesting(self.elements)

    @cached_property
    def _all_attributes(self) -> str:
        return "\n".join(map(attributes_of, self.elements)).lower()

    def occurring(self, hint: str) -> int:
        """How often it is in the attributes of the page, be it as a part of a word."""
        known = self._occurring.get(hint)
        if known is None:
            known = self._occurring[hint] = self._all_attributes.count(hint)
        return known

    @cached_property
    def patterns(self) -> list[str]:
        """Every element's path without numbers; step by step, because few different ones are on a page."""
        plain = cache(partial(_NUMBERS.sub, ""))
        return ["/".join(map(plain, element.xpath.split("/"))) for element in self.elements]

    @cached_property
    def _patterned(self) -> Counter[str]:
        return Counter(self.patterns)

    def siblings(self, indices: Iterable[int]) -> Floats:
        """How many elements have the same path but for its numbers, each counted."""
        patterns, counts = self.patterns, self._patterned
        alike = [counts[patterns[index]] if patterns[index] else 1 for index in indices]
        return np.array(alike, dtype=np.float64)

    def within(self, outer: int, inner: int) -> bool:
        """`inner` is `outer` or lies in it."""
        order, end = self.nesting
        return bool(order[outer] <= order[inner] < end[outer])

    def rarity(self, word: str) -> float:
        """How much a word tells on this page: what everything says tells nothing."""
        return self._rarity.get(word, self.rarest)

    def rarities(self, words: Iterable[str]) -> list[float]:
        """The same of several, in no order."""
        known, rarest = self._rarity, self.rarest
        return [known.get(word, rarest) for word in words]

    def saying(self, its: Facets) -> Saying:
        """What is true of an element's words on this page, whatever they are compared with."""
        known = self._saying.get(its.said)
        if known is None:
            weights = self.rarities(its.words)
            spoken = log1p(len(self.speakers[its.said])) if its.said else 0.0
            known = self._saying[its.said] = Saying(fsum(weights), max(weights, default=0.0), spoken)
        return known


class Saying(NamedTuple):
    """What words weigh on a page: all of them, the rarest of them, and how many say just these."""

    weight: float
    rarest: float
    spoken: float


def _holders(having: Iterable[tuple[Sequence[str], list[int]]]) -> dict[str, list[int]]:
    holders: dict[str, list[int]] = {}
    for words, places in having:
        for word in set(words[:WORDS_MAX]):
            if word in holders:
                holders[word] += places
            else:
                holders[word] = places[:]
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


def _arrays(places: dict[str, list[int]]) -> dict[str, Ints]:
    """For what has many places: it is asked for again and again."""
    return {value: np.array(found, dtype=np.int64) for value, found in places.items()}


def _boxes(elements: Sequence[Element]) -> Floats:
    sides = [(e.box.x, e.box.y, e.box.width, e.box.height) for e in elements]
    flat = np.fromiter(chain.from_iterable(sides), np.float64, 4 * len(sides))
    return flat.reshape(len(sides), 4)


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
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = np.arange(len(keys))
    end = [len(keys)] * len(keys)
    around: list[tuple[str, int]] = []
    for number, index in enumerate(order):
        while around and not keys[index].startswith(around[-1][0]):
            end[around.pop()[1]] = number
        around.append((keys[index], index))
    return place, np.array(end, dtype=np.int64)
