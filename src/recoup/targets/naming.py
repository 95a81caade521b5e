"""The short form of a target: what a person would say to name an element, so that it fits this one and no other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from recoup.model.target import TEXT_MAX, Element, Target, plain
from recoup.targets.exact import find
from recoup.targets.page import Page

NAME_CHARS_MAX: Final = 80
"""Longer words are no name."""
WORDS_TRIED_MAX: Final = 8
_FIELDS: Final = frozenset({"input", "select", "textarea"})
_PLAIN_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP: Final = re.compile(r"([a-z][a-z0-9-]*)(?:\[(\d+)\])?")


def named(elements: Sequence[Element], index: int, roles: Collection[str]) -> Target:
    """The element in short and in full. `roles` are those that a plan may name."""
    element, page = elements[index], Page(elements)
    short = _alone(element, index, page, roles) or _by_place(element, page) or Target()
    return msgspec.structs.replace(short, recorded=element)


def _alone(element: Element, index: int, page: Page, roles: Collection[str]) -> Target | None:
    """By its own words if they are nobody else's, then with words around it, then by its number."""
    faces = list(_faces(element, roles))
    for target in (*faces, *_with_words(faces, element)):
        if find(target, page).indices == (index,):
            return target
    return next(filter(None, (_numbered(face, index, page) for face in faces)), None)


def _faces(element: Element, roles: Collection[str]) -> Iterator[Target]:
    role = element.role if element.role in roles else None
    if element.tag in _FIELDS and _is_name(element.label):
        yield Target(label=element.label)
    if role and _is_name(element.name):
        yield Target(role=role, name=element.name)
    if element.test_id:
        yield Target(test_id=element.test_id)
    if _is_name(element.placeholder):
        yield Target(placeholder=element.placeholder)
    if _is_name(element.text):
        yield Target(text=element.text)
    if role and not _is_name(element.name):
        yield Target(role=role)


def _is_name(words: str) -> bool:
    return 0 < len(words) <= NAME_CHARS_MAX


def _with_words(faces: Sequence[Target], element: Element) -> Iterator[Target]:
    """First those that a row begins with: they are what it is about."""
    around = [words for words in element.neighbours if _is_name(words) and len(words) > 1][:WORDS_TRIED_MAX]
    container = plain(element.container)
    telling = sorted(
        (one for one in around if plain(one) in container), key=lambda one: container.index(plain(one))
    )
    for face in faces:
        yield from (msgspec.structs.replace(face, inside=words) for words in telling)
    for face in faces:
        yield from (msgspec.structs.replace(face, near=words) for words in around)


def _numbered(face: Target, index: int, page: Page) -> Target | None:
    fitting = find(face, page).indices
    return msgspec.structs.replace(face, nth=fitting.index(index) + 1) if index in fitting else None


def _by_place(element: Element, page: Page) -> Target | None:
    """For what says nothing: its id, or the way to it."""
    if _PLAIN_ID.fullmatch(element.id) and sum(other.id == element.id for other in page.elements) == 1:
        return Target(css=f"#{element.id}")
    steps = [_STEP.fullmatch(step) for step in element.xpath.strip("/").split("/")]
    if not all(steps) or element.frame or len(element.xpath) >= TEXT_MAX:
        return None
    return Target(css=" > ".join(_css(step[1], step[2]) for step in steps if step))


def _css(tag: str, number: str | None) -> str:
    return tag if tag in ("html", "body") else f"{tag}:nth-of-type({number or 1})"
