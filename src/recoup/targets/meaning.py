"""A target that is only written, never seen: elements that say the same in other words, or in another place of theirs.

Nothing is guessed: the words are in a small table, or they are the target's own as a label, a name or a hint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from recoup.model.target import Element, Target, plain, said_by
from recoup.targets.around import innermost
from recoup.targets.exact import find
from recoup.targets.opposites import are_opposites, meaning_of
from recoup.targets.page import Page
from recoup.targets.profiles import kind_of
from recoup.targets.vetoes import CONTROLS
from recoup.targets.wording import words_of

SAYING: Final = ("name", "text", "label", "placeholder")
FIELDS: Final = frozenset(
    {
        *("textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch", "slider"),
        *("spinbutton", "input", "select", "textarea"),
    }
)
VARIANTS_MAX: Final = 12
"""Ways of saying it that are looked for."""


def meant(target: Target, page: Page, css_matches: Collection[int] | None) -> list[int]:
    """All elements that a reader would take for it. Of those that are counted (`nth`), none: the count would be
    another one."""
    said = [key for key in SAYING if getattr(target, key) is not None]
    if len(said) != 1 or target.nth is not None:
        return []
    (key,) = said
    found = {
        index
        for variant in list(_variants(target, key, page))[:VARIANTS_MAX]
        for index in find(variant, page, css_matches).indices
        if _may_be_meant(target, key, index, page)
    }
    return innermost(sorted(found), page)


def _variants(target: Target, key: str, page: Page) -> Iterator[Target]:
    words = getattr(target, key)
    for other in SAYING:
        if other != key:
            yield _saying(target, **{key: None, other: words})
    for way in _ways_there(words, page):
        yield _saying(target, **{key: way})


def _saying(target: Target, **words: Any) -> Target:
    return msgspec.structs.replace(target, **words)


def _ways_there(words: str, page: Page) -> list[str]:
    """Other ways to say it that the page has, as they are written there."""
    meaning = meaning_of(_spoken(words))
    if not meaning:
        return []
    there = {
        plain(text)
        for element, said in zip(page.elements, page.said, strict=True)
        for text, spoken in ((said_by(element), said), (element.name, element.name.lower()))
        if meaning_of(spoken) == meaning
    }
    return sorted(there - {plain(words)})


def _spoken(words: str) -> str:
    return " ".join(words_of(words))


def _may_be_meant(target: Target, key: str, index: int, page: Page) -> bool:
    """Of the kind that such words name, and saying the opposite nowhere."""
    words = frozenset(words_of(getattr(target, key)))
    if any(are_opposites(words, frozenset(face.split())) for face in page.facets(index).faces):
        return False
    return _is_of_kind(page.elements[index], target, key)


def _is_of_kind(element: Element, target: Target, key: str) -> bool:
    if key in ("label", "placeholder"):
        return kind_of(element) in FIELDS
    return target.role is not None or kind_of(element) in CONTROLS
