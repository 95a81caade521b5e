"""`near` and `inside`: words on the page that say which element is meant, and elements that they say nothing about.

Words are found as whole words: `INV-10` is not in `INV-100`. They belong to an element that shares a row, card or item
with them. Where there is no such thing around an element, they must be close to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import hypot
from typing import Final

from recoup.model.target import Element, plain, said_by
from recoup.targets.belonging import Belonging, is_shown, steps_of
from recoup.targets.page import Page
from recoup.targets.wording import holds

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


def inside(fitting: Sequence[int], words: str, page: Page) -> list[int]:
    """Those within the smallest list item, row, card or section that holds the words, and in no other in it."""
    return [index for index, other in _held(fitting, words, page) if not other]


def other_items(fitting: Sequence[int], words: str, page: Page) -> list[str]:
    """What elements are in that are within a section with the words, and belong to something else in it."""
    return [other for _, other in _held(fitting, words, page) if other]


def _held(fitting: Sequence[int], words: str, page: Page) -> Iterator[tuple[int, str]]:
    """The elements around which the words stand, and what each belongs to if not to them."""
    holding = [
        index
        for index, element in enumerate(page.elements)
        if (element.role in SECTIONS or element.tag in SECTIONS)
        and holds(words, element.text or element.name)
        and is_shown(element)
    ]
    smallest, belonging = innermost(holding, page), Belonging(words, page)
    for index in fitting:
        region = next((outer for outer in smallest if page.within(outer, index)), None)
        if region is not None:
            yield index, belonging.other_than(region, index)
        elif holds(words, page.elements[index].container):
            yield index, belonging.other_than_container(index)


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
    items = _Items(fitting, words, page)
    pairs = [
        (_shared_steps(page.elements[index], page.elements[mark]), _distance(page, index, mark), index, mark)
        for mark in marks(fitting, words, page)
        for index in fitting
        if items.relates(index, mark)
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

    def __init__(self, fitting: Sequence[int], words: str, page: Page) -> None:
        self._words = words
        self._page = page
        self._belonging = Belonging(words, page)
        self._item = {index: self._known_item(index) for index in fitting}
        self._paths = {index: steps_of(page.elements[index]) for index in fitting}

    def relates(self, index: int, mark: int) -> bool:
        page, item, belonging = self._page, self._item[index], self._belonging
        if item is not None:
            own = page.within(item, mark) and not belonging.in_inner_row(item, mark)
            return own and not belonging.other_than(item, index)
        repeated = self._repeated_item(index)
        if repeated:
            is_in_it = steps_of(page.elements[mark])[: len(repeated)] == repeated
            return is_in_it and not belonging.other_in(repeated, index)
        element = page.elements[index]
        if element.container:
            return holds(self._words, element.container) and not belonging.other_than_container(index)
        in_one_frame = element.frame == page.elements[mark].frame
        return in_one_frame and _are_close(page, index, mark) and not belonging.apart(index, mark)

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


def _shared_steps(one: Element, other: Element) -> int:
    count = 0
    for mine, its in zip(steps_of(one), steps_of(other), strict=False):
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
