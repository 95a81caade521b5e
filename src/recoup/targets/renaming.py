"""The target that names what was taken for it, in the words of whoever wrote it as far as they still hold."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from recoup.model.target import TEXT_MAX, Element, Target
from recoup.targets.exact import find
from recoup.targets.naming import NAME_CHARS_MAX, named
from recoup.targets.page import Page
from recoup.targets.wording import holds

_OWN: Final = ("role", "name", "text", "label", "placeholder", "test_id")


def renamed(
    target: Target,
    before: Element | None,
    after: Element,
    others: Collection[Element],
    roles: Collection[str],
) -> Target:
    """In short where that tells it from the `others` that were seen; in full where it does not, or was so before.

    What chooses among several is kept, unless it held of the element before and no longer does.
    """
    page = [after, *others]
    around = _around(target, before, after)
    short = msgspec.structs.replace(_same_words(target, after, roles), **around)
    lost = any(getattr(target, key) is not None and key not in around for key in (*_HELD, "nth"))
    if not _tells(short, page):
        short = _other_words(page, roles, around)
    sure = not lost and short.css is None and _tells(short, page)
    return short if sure and target.recorded is None else msgspec.structs.replace(short, recorded=after)


def _same_words(target: Target, after: Element, roles: Collection[str]) -> Target:
    """What was said of it, as it is now; what cannot be said any more is left out."""
    said = {key: getattr(after, key) for key in _OWN if getattr(target, key) is not None}
    if said.get("role", "") not in roles:
        said.pop("role", None)
    return Target(**{key: words for key, words in said.items() if 0 < len(words) <= _longest(key)})


def _longest(key: str) -> int:
    return TEXT_MAX - 1 if key == "test_id" else NAME_CHARS_MAX


def _other_words(page: list[Element], roles: Collection[str], around: dict[str, Any]) -> Target:
    """Numbers, ways and roles count on the whole page, of which only these were seen: nothing is said by them alone."""
    short = named(page, 0, roles)
    if not _names(short):
        short = named(page, 0, ())
    short = msgspec.structs.replace(short, recorded=None, nth=None)
    if short.css is not None and not short.css.startswith("#"):
        short = msgspec.structs.replace(short, css=None)
    return msgspec.structs.replace(short, **around)


def _around(target: Target, before: Element | None, after: Element) -> dict[str, Any]:
    kept = {"frame": target.frame} if target.frame is not None else {}
    for key, held in _HELD.items():
        words = getattr(target, key)
        if words is not None and not (before is not None and held(before, words) and not held(after, words)):
            kept[key] = words
    return kept


def _is_near(element: Element, words: str) -> bool:
    return any(holds(words, one) for one in element.neighbours)


def _is_inside(element: Element, words: str) -> bool:
    return holds(words, element.container)


_HELD: Final[dict[str, Callable[[Element, str], bool]]] = {"near": _is_near, "inside": _is_inside}
"""What may be said of what is around it, and whether that holds as far as can be seen on the element."""


def _tells(target: Target, page: list[Element]) -> bool:
    """By its own words, or with those around it as far as these can be seen on the elements."""
    if not _names(target):
        return False
    own = msgspec.structs.replace(target, near=None, inside=None, frame=None)
    fitting = find(own, Page(page)).indices
    if 0 not in fitting:
        return False
    return not any(number and _fits_around(target, page[number]) for number in fitting)


def _names(target: Target) -> bool:
    """A role alone is that of many."""
    return any(getattr(target, key) is not None for key in _OWN if key != "role")


def _fits_around(target: Target, other: Element) -> bool:
    said = [(held, words) for key, held in _HELD.items() if (words := getattr(target, key)) is not None]
    return not said or any(held(other, words) for held, words in said)
