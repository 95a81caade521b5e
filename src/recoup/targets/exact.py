"""A target as people write it, resolved to the letter: one element, several, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from math import hypot
from typing import Final

import msgspec

from recoup.model.target import Element, Target, plain, said_by
from recoup.targets.page import Page
from recoup.targets.profiles import are_aliases, kind_of
from recoup.targets.vetoes import contradicts, opposes
from recoup.targets.wording import ratio

CONTAINERS: Final = frozenset(
    {
        *("listitem", "row", "article", "group", "region", "form", "dialog", "tabpanel", "rowgroup"),
        *("li", "tr", "section", "fieldset"),
    }
)
CONTAINER_RATIO_MIN: Final = 0.5
"""Words that tell a row from the others may change a little with the row."""


class Found(msgspec.Struct, frozen=True):
    """The elements that are all that was said, nested ones counted once; and why not one, in words."""

    indices: tuple[int, ...]
    reason: str = ""


def find(target: Target, page: Page, css_matches: Collection[int] | None = None) -> Found:
    """The elements that fit, in the order of the page.

    `css_matches` are those that the browser found for `css`; of a target's `frame` nothing is known here, so whoever
    collects the page collects that frame.
    """
    if target.css and css_matches is None:
        return Found((), "which elements the CSS selects was not asked of the browser")
    fitting = _fitting(target, page, css_matches)
    if target.inside:
        fitting = _inside(fitting, target.inside, page)
    fitting = innermost(_seen(fitting, page), page)
    if target.near and len(fitting) > 1:
        fitting = _nearest(fitting, target.near, page)
    if target.nth is not None:
        fitting = _numbered(fitting, target.nth)
    return Found(tuple(fitting), _reason(fitting))


def is_short(target: Target) -> bool:
    """It says something itself, beside what was recorded."""
    return any(
        value is not None for value in (*_said(target), target.css, target.near, target.inside, target.nth)
    )


def no_longer_like(recorded: Element, element: Element, *, trusted: bool = False) -> str:
    """Why an element that fits to the letter is not taken for the recorded one, in words; "" when it may be.

    `trusted`: found by a name that is there for us, so that other words are no contradiction, only opposite ones.
    """
    against = opposes(recorded, element) if trusted else contradicts(recorded, element)
    if against or trusted:
        return against
    if not are_aliases(kind_of(recorded), kind_of(element)) and recorded.tag != element.tag:
        return f"it was a {kind_of(recorded)} and is a {kind_of(element)}"
    if (
        recorded.container
        and element.container
        and ratio(recorded.container, element.container) < CONTAINER_RATIO_MIN
    ):
        return f"it was in {recorded.container[:60]!r} and is in {element.container[:60]!r}"
    return ""


def _said(target: Target) -> tuple[str | None, ...]:
    return (target.role, target.name, target.text, target.label, target.placeholder, target.test_id)


def _fitting(target: Target, page: Page, css_matches: Collection[int] | None) -> list[int]:
    tests = _tests(target)
    if target.css:
        among: Iterable[int] = sorted(index for index in set(css_matches or ()) if 0 <= index < len(page))
    elif tests or target.nth is not None or target.inside or target.near:
        among = range(len(page))
    else:
        among = ()
    return [index for index in among if all(test(page.elements[index]) for test in tests)]


def _tests(target: Target) -> list[Callable[[Element], bool]]:
    tests: list[Callable[[Element], bool]] = []
    if target.test_id is not None:
        tests.append(lambda element: element.test_id == target.test_id)
    if target.role is not None:
        role = plain(target.role)
        tests.append(lambda element: element.role.casefold() == role)
    for wanted, of in (
        (target.name, _name_of),
        (target.text, lambda element: element.text),
        (target.label, lambda element: element.label),
        (target.placeholder, lambda element: element.placeholder),
    ):
        if wanted is not None:
            tests.append(_says(plain(wanted), of))
    return tests


def _says(wanted: str, of: Callable[[Element], str]) -> Callable[[Element], bool]:
    return lambda element: plain(of(element)) == wanted


def _name_of(element: Element) -> str:
    return element.name or said_by(element)


def _seen(fitting: Sequence[int], page: Page) -> list[int]:
    """What is hidden counts only where nothing else fits: menus are often there twice."""
    return [index for index in fitting if page.elements[index].visible] or list(fitting)


def innermost(fitting: Sequence[int], page: Page) -> list[int]:
    """A wrapper that fits as well is the same thing."""
    return [
        index
        for index in fitting
        if not any(other != index and page.within(index, other) for other in fitting)
    ]


def _inside(fitting: Sequence[int], words: str, page: Page) -> list[int]:
    wanted = plain(words)
    holding = [
        index
        for index, element in enumerate(page.elements)
        if (element.role in CONTAINERS or element.tag in CONTAINERS)
        and wanted in plain(element.text or element.name)
    ]
    smallest = innermost(holding, page)
    return [
        index
        for index in fitting
        if wanted in plain(page.elements[index].container)
        or any(page.within(outer, index) for outer in smallest)
    ]


def _nearest(fitting: Sequence[int], words: str, page: Page) -> list[int]:
    wanted = plain(words)
    saying = [
        i for i, element in enumerate(page.elements) if wanted in plain(said_by(element)) and i not in fitting
    ]
    marks = innermost(saying, page)
    if not marks:
        return []
    away = [(min(_distance(page, index, mark) for mark in marks), index) for index in fitting]
    least = min(away)[0]
    return [index for distance, index in away if distance == least]


def _distance(page: Page, one: int, other: int) -> float:
    """Between the edges of two boxes, and a little between their centres: beside comes before below."""
    a, b = page.elements[one].box, page.elements[other].box
    across = max(0.0, a.x - b.x - b.width, b.x - a.x - a.width)
    down = max(0.0, a.y - b.y - b.height, b.y - a.y - a.height)
    centres = hypot(a.x + a.width / 2 - b.x - b.width / 2, a.y + a.height / 2 - b.y - b.height / 2)
    return hypot(across, down) + centres / 100


def _numbered(fitting: Sequence[int], nth: int) -> list[int]:
    place = nth - 1 if nth > 0 else len(fitting) + nth
    return [fitting[place]] if nth and 0 <= place < len(fitting) else []


def _reason(fitting: Sequence[int]) -> str:
    if not fitting:
        return "no element of the page is what the target says"
    if len(fitting) > 1:
        return f"{len(fitting)} elements are what the target says: say which (near, inside, nth)"
    return ""
