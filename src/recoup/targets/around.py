"""`near` and `inside`: words on the page that say which element is meant, and elements that they say nothing about.

Words are found as whole words: `INV-10` is not in `INV-100`. They belong to an element that shares a row, card or item
with them. Where there is no such thing around an element, they must be close to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import hypot
from typing import Final

from recoup.model.target import Element, plain, said_by
from recoup.targets.page import Page

SECTIONS: Final = frozenset(
    {
        *("listitem", "row", "article", "group", "region", "form", "dialog", "tabpanel", "rowgroup"),
        *("li", "tr", "section", "fieldset"),
    }
)
"""Roles and tags within which `inside` looks."""
ITEMS: Final = frozenset(
    {"listitem", "row", "article", "option", "treeitem", "dialog", "alertdialog", "li", "tr"}
)
"""Roles and tags of what stands for one thing: words outside of it are about another."""
NEAR_PX_MAX: Final = 300.0
"""Between the edges of two boxes that are not on one line. Further away, words say nothing about an element."""
LEAD_PX: Final = 4.0
"""By how much one element must be nearer than the next one."""

_JOINS: Final = r"[-_./:@#+,'’&]"
"""What joins two parts of one word, if a letter or a digit stands on either side: `INV-10` is not in `INV-10-B`."""
_UNSPACED: Final = re.compile(r"[぀-ヿ㐀-鿿豈-﫿฀-๿]")
"""Scripts that put no spaces between words."""


def holds(words: str, text: str) -> bool:
    """Whether the text has these words, as whole words."""
    wanted, there = plain(words), plain(text)
    if not wanted or wanted not in there:
        return False
    begin = rf"(?<!\w)(?<!\w{_JOINS})" if _is_bound(wanted[0]) else ""
    end = rf"(?!\w)(?!{_JOINS}\w)" if _is_bound(wanted[-1]) else ""
    return re.search(begin + re.escape(wanted) + end, there) is not None


def _is_bound(sign: str) -> bool:
    return (sign.isalnum() or sign == "_") and not _UNSPACED.match(sign)


def inside(fitting: Sequence[int], words: str, page: Page) -> list[int]:
    """Those within the smallest list item, row, card or section that holds the words."""
    holding = [
        index
        for index, element in enumerate(page.elements)
        if (element.role in SECTIONS or element.tag in SECTIONS)
        and holds(words, element.text or element.name)
    ]
    smallest = innermost(holding, page)
    return [
        index
        for index in fitting
        if holds(words, page.elements[index].container)
        or any(page.within(outer, index) for outer in smallest)
    ]


def innermost(fitting: Sequence[int], page: Page) -> list[int]:
    """A wrapper that fits as well is the same thing."""
    return [
        index
        for index in fitting
        if not any(other != index and page.within(index, other) for other in fitting)
    ]


def marks(fitting: Sequence[int], words: str, page: Page) -> list[int]:
    """The elements that say these words; not those that are looked for."""
    saying = [
        index
        for index, element in enumerate(page.elements)
        if element.visible and index not in fitting and holds(words, said_by(element))
    ]
    return innermost(saying, page)


def near(fitting: Sequence[int], words: str, page: Page) -> list[int]:
    """Those that the words are about. Where the words stand several times, each place has its say: if they disagree,
    all that they name are returned."""
    items = _Items(fitting, page)
    pairs = [
        (_shared_steps(page.elements[index], page.elements[mark]), _distance(page, index, mark), index, mark)
        for mark in marks(fitting, words, page)
        for index in fitting
        if items.relates(index, mark, words)
    ]
    deepest = max((shared for shared, *_ in pairs), default=0)
    pairs = [pair for pair in pairs if pair[0] == deepest]
    chosen: set[int] = set()
    for mark in {mark for *_, mark in pairs}:
        away = sorted((distance, index) for _, distance, index, other in pairs if other == mark)
        chosen |= {index for distance, index in away if distance < away[0][0] + LEAD_PX}
    return sorted(chosen)


class _Items:
    """What stands for one thing each, around the elements that fit."""

    def __init__(self, fitting: Sequence[int], page: Page) -> None:
        self._page = page
        self._item = {index: self._known_item(index) for index in fitting}
        self._paths = {index: _steps(page.elements[index]) for index in fitting}

    def relates(self, index: int, mark: int, words: str) -> bool:
        page, item = self._page, self._item[index]
        if item is not None:
            return page.within(item, mark)
        repeated = self._repeated_item(index)
        if repeated:
            return _steps(page.elements[mark])[: len(repeated)] == repeated
        element = page.elements[index]
        if element.container:
            return holds(words, element.container)
        return element.frame == page.elements[mark].frame and _are_close(page, index, mark)

    def _known_item(self, index: int) -> int | None:
        """The smallest one that holds more than the element itself."""
        page, own = self._page, plain(said_by(self._page.elements[index]))
        around = [
            other
            for other, element in enumerate(page.elements)
            if (element.role in ITEMS or element.tag in ITEMS)
            and other != index
            and page.within(other, index)
            and plain(element.text or element.name) not in ("", own)
        ]
        return innermost(around, page)[0] if around else None

    def _repeated_item(self, index: int) -> tuple[str, ...]:
        """The path of the part of the page that stands for one thing, where several elements that fit have the same
        path but for one number. () where the element itself is what is repeated, or nothing is."""
        mine, longest = self._paths[index], tuple[str, ...]()
        for other, its in self._paths.items():
            if other == index or len(its) != len(mine):
                continue
            differing = [place for place, (a, b) in enumerate(zip(mine, its, strict=True)) if a != b]
            if len(differing) == 1 and differing[0] + 1 < len(mine) and _same_tag(mine, its, differing[0]):
                longest = max(longest, mine[: differing[0] + 1], key=len)
        return longest


def _same_tag(one: Sequence[str], other: Sequence[str], place: int) -> bool:
    return one[place].partition("[")[0] == other[place].partition("[")[0]


def _steps(element: Element) -> tuple[str, ...]:
    """From the page down, frames first."""
    return (*(f"frame[{number}]" for number in element.frame), *element.xpath.strip("/").split("/"))


def _shared_steps(one: Element, other: Element) -> int:
    count = 0
    for mine, its in zip(_steps(one), _steps(other), strict=False):
        if mine != its:
            break
        count += 1
    return count


def _are_close(page: Page, one: int, other: int) -> bool:
    a, b = page.elements[one].box, page.elements[other].box
    on_one_line = a.y < b.y + b.height and b.y < a.y + a.height
    return on_one_line or _distance(page, one, other) <= NEAR_PX_MAX


def _distance(page: Page, one: int, other: int) -> float:
    """Between the edges of two boxes, and a little between their centres: beside comes before below."""
    a, b = page.elements[one].box, page.elements[other].box
    across = max(0.0, a.x - b.x - b.width, b.x - a.x - a.width)
    down = max(0.0, a.y - b.y - b.height, b.y - a.y - a.height)
    centres = hypot(a.x + a.width / 2 - b.x - b.width / 2, a.y + a.height / 2 - b.y - b.height / 2)
    return hypot(across, down) + centres / 100
