"""Which row, card or list item an element belongs to, and whether words beside it are the name of another one.

`INV-10` above a table names the table; the button in the row of `INV-11` belongs to INV-11. So words reach an element
from outside only as long as nothing between them and the element is a thing of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, cached_property, partial
from typing import Final, NamedTuple

from recoup.model.target import Element, plain, said_by
from recoup.targets.page import Page
from recoup.targets.wording import holds

ROWS: Final = frozenset({"listitem", "row", "article", "option", "treeitem", "li", "tr"})
"""Roles and tags of what stands for one thing among others."""
HEADINGS: Final = frozenset({"heading", "caption", "legend", *(f"h{level}" for level in range(1, 7))})
FIELDS: Final = frozenset(
    {"textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch", "slider", "spinbutton"}
)
WORDS_SHOWN: Final = 60

_NUMBERS: Final = re.compile(r"\[\d+\]")
_DIGITS: Final = re.compile(r"\d+")
_NUMBER: Final = re.compile(r"[\W\d_]+")
_EDGES: Final = "()[]{}<>.,;:!?\"'“”„‘’#"

Path = tuple[str, ...]
"""From the page down, frames first."""


class _Part(NamedTuple):
    """One child of a container: the elements in it, and the paths they have in it, without numbers."""

    indices: list[int]
    patterns: set[Path]


class Belonging:
    """What stands between the elements of one page and the words that are to say which of them is meant."""

    def __init__(self, words: str, page: Page) -> None:
        self._words = words
        self._page = page
        self._parts: dict[Path, dict[str, _Part]] = {}
        self._named: dict[Path, list[str]] = {}

    def other_than(self, region: int, index: int) -> str:
        """What the element belongs to other than the region, in words; "" where the words of the region reach it."""
        outer = self._paths[region]
        is_thing = self._is_row(region) or bool(self._alike(outer))
        return self._stranger(outer, index, is_thing=is_thing)

    def other_than_container(self, index: int) -> str:
        """The same where only the nearest container of the element has the words: the smallest part around it."""
        path = self._paths[index]
        around = (path[:end] for end in range(len(path), 0, -1))
        outer = next((part for part in around if holds(self._words, self._text(part))), None)
        if outer is None:
            return ""
        return self._stranger(outer, index, is_thing=True) or self._of_inner_row(index)

    def other_in(self, part: Path, index: int) -> str:
        """The same of a part of the page that stands for one thing."""
        return self._stranger(part, index, is_thing=True)

    def apart(self, index: int, mark: int) -> bool:
        """Whether the element is in a part of the page that does not hold the mark and is a thing of its own."""
        path, shared = self._paths[index], len(_shared(self._paths[index], self._paths[mark]))
        parts = [path[:end] for end in range(shared + 1, len(path))]
        is_field = self._page.elements[index].role in FIELDS
        return any(
            self._own_words(part, index)
            and not holds(self._words, self._text(part))
            and (self._names_another(part) or (not is_field and bool(self._alike(part))))
            for part in parts
        )

    def in_inner_row(self, item: int, mark: int) -> bool:
        """Whether the words name a thing of the item's own kind within it: a child in a tree, a table in a row."""
        elements = self._page.elements
        return any(
            other != item
            and self._is_row(other)
            and (element.tag, element.role) == (elements[item].tag, elements[item].role)
            and self._page.within(item, other)
            and self._page.within(other, mark)
            for other, element in enumerate(elements)
        )

    def _stranger(self, outer: Path, index: int, *, is_thing: bool) -> str:
        path = self._paths[index]
        for end in range(len(outer) + 1, len(path)):
            part = path[:end]
            if holds(self._words, self._text(part)) or not self._own_words(part, index):
                continue
            if self._is_other(part, outer, index, is_thing=is_thing):
                return self._text(part)[:WORDS_SHOWN]
        return ""

    def _is_other(self, part: Path, outer: Path, index: int, *, is_thing: bool) -> bool:
        if self._names_another(part):
            return True
        known = self._places.get(part)
        is_row = known is not None and self._is_row(known)
        if is_row:
            return is_thing or not self._is_title(outer, part)
        alike = {} if is_thing else self._alike(part)
        if not alike:
            return False
        if any(holds(self._words, self._text((*part[:-1], step))) for step in alike):
            return True
        is_field = self._page.elements[index].role in FIELDS
        return not is_field and not self._is_title(outer, part)

    def _names_another(self, part: Path) -> bool:
        """It has a name of the same form with other digits, and not that name: `INV-11` where `INV-10` is said."""
        text = plain(self._text(part))
        return any(not holds(name, text) and form.search(text) for name, form in self._names)

    @cached_property
    def _names(self) -> list[tuple[str, re.Pattern[str]]]:
        """The words, and each of them, that are the name of one thing among others, with what such names look like."""
        said = {plain(self._words), *_tokens(self._words)}
        return [(name, _form(name)) for name in said if _DIGITS.search(name) and not _NUMBER.fullmatch(name)]

    def _is_title(self, outer: Path, part: Path) -> bool:
        """The words are all that the region's heading, caption or legend says, and the part of it has none: they name
        all that is in the region. What has a number is a name of one thing."""
        if any(map(str.isdigit, self._words)) or self._heading(part):
            return False
        wanted = plain(self._words)
        return any(_says_only(said, wanted) for said in self._titles(outer) if holds(wanted, said))

    def _titles(self, outer: Path) -> list[str]:
        """What the region is called; headings in its rows are those of the rows."""
        known = self._named.get(outer)
        if known is None:
            region = self._places.get(outer)
            under = self._under(outer)
            rows = [index for index in under if index != region and self._is_row(index)]
            known = self._named[outer] = [
                plain(said_by(self._page.elements[index]))
                for index in under
                if self._is_heading(index) and not any(self._page.within(row, index) for row in rows)
            ]
            if region is not None:
                known.append(plain(self._page.elements[region].name))
        return known

    def _heading(self, part: Path) -> bool:
        return any(self._is_heading(index) for index in self._under(part))

    def _is_heading(self, index: int) -> bool:
        element = self._page.elements[index]
        return element.visible and (element.role in HEADINGS or element.tag in HEADINGS)

    def _of_inner_row(self, index: int) -> str:
        """What the element's own row says, if the words are only in a smaller row within it."""
        path = self._paths[index]
        around = (self._places.get(path[:end]) for end in range(len(path), 0, -1))
        item = next((place for place in around if place is not None and self._is_row(place)), None)
        if item is None:
            return ""
        marks = [mark for mark in self._under(self._paths[item]) if self._says(mark)]
        ends = [mark for mark in marks if not any(mark != m and self._page.within(mark, m) for m in marks)]
        is_inner = bool(ends) and all(self.in_inner_row(item, mark) for mark in ends)
        return self._text(self._paths[item])[:WORDS_SHOWN] if is_inner else ""

    def _says(self, index: int) -> bool:
        element = self._page.elements[index]
        return is_shown(element) and holds(self._words, _text_of(element))

    def _is_row(self, index: int) -> bool:
        element = self._page.elements[index]
        return element.role in ROWS or element.tag in ROWS

    def _own_words(self, part: Path, index: int) -> bool:
        """Whether it says more than the element itself."""
        element = self._page.elements[index]
        own = " ".join((element.text, element.name, element.label, element.placeholder, element.title))
        return bool(_tokens(self._text(part)) - _tokens(own))

    def _alike(self, part: Path) -> dict[str, _Part]:
        """The other children of the same parent that have the same tag and something built alike in them."""
        parts = self._children(part[:-1])
        own = parts.get(part[-1])
        if own is None:
            return {}
        tag = _NUMBERS.sub("", part[-1])
        return {
            step: other
            for step, other in parts.items()
            if step != part[-1] and _NUMBERS.sub("", step) == tag and own.patterns & other.patterns
        }

    def _children(self, parent: Path) -> dict[str, _Part]:
        known = self._parts.get(parent)
        if known is None:
            known = self._parts[parent] = {}
            depth = len(parent)
            for index in self._under(parent):
                if len(self._paths[index]) > depth:
                    part = known.setdefault(self._paths[index][depth], _Part([], set()))
                    part.indices.append(index)
                    part.patterns.add(self._patterns[index][depth + 1 :])
        return known

    def _under(self, path: Path) -> Sequence[int]:
        """The elements at a path and below, in the order of the page."""
        if not path:
            return range(len(self._page))
        part = self._children(path[:-1]).get(path[-1])
        return part.indices if part else ()

    def _text(self, path: Path) -> str:
        """Its visible words; of what was not collected itself, those of its parts."""
        texts: list[str] = []
        last: int | None = None
        for index in self._under(path):
            if last is not None and self._page.within(last, index):
                continue
            element = self._page.elements[index]
            if is_shown(element) and _text_of(element):
                texts.append(_text_of(element))
                last = index
        return " ".join(texts)

    @cached_property
    def _paths(self) -> list[Path]:
        return [steps_of(element) for element in self._page.elements]

    @cached_property
    def _patterns(self) -> list[Path]:
        without = cache(partial(_NUMBERS.sub, ""))
        return [tuple(map(without, path)) for path in self._paths]

    @cached_property
    def _places(self) -> dict[Path, int]:
        return {path: index for index, path in enumerate(self._paths)}


def steps_of(element: Element) -> Path:
    return (*(f"frame[{number}]" for number in element.frame), *element.xpath.strip("/").split("/"))


def is_shown(element: Element) -> bool:
    """Whether its words may be seen: a visible wrapper may be without height, a hidden one has no width either."""
    return element.visible or element.box.width > 0 or element.box.height > 0


def _text_of(element: Element) -> str:
    return element.text or element.name


def _shared(one: Path, other: Path) -> Path:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return one[:count]


def _says_only(said: str, wanted: str) -> bool:
    """`Invoices (3)` says no more than `Invoices`."""
    return not any(map(str.isalpha, said.replace(wanted, "", 1)))


def _tokens(text: str) -> set[str]:
    words = (word.strip(_EDGES) for word in plain(text).split())
    return {word for word in words if any(map(str.isalnum, word))}


def _form(name: str) -> re.Pattern[str]:
    digits = r"\d+".join(re.escape(part) for part in _DIGITS.split(name))
    return re.compile(rf"(?<!\w){digits}(?!\w)")
