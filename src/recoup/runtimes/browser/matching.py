"""Which elements a target names: what the runtime asks of a resolver, and the strictest one there is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from recoup.model.target import Box, Element, Floors, Profile, Resolution, Score, Target

_SHORT = ("role", "name", "text", "label", "placeholder", "test_id")


class Resolver(Protocol):
    """Finds the element that a target means."""

    def resolve(
        self,
        target: Target,
        elements: Sequence[Element],
        level: int,
        floors: Floors,
        css_matches: Sequence[int] | None,
        viewport: Box,
    ) -> Resolution:
        """The one element, or why there is none. `viewport` is the whole page."""
        ...

    def matches(
        self, target: Target, elements: Sequence[Element], css_matches: Sequence[int] | None
    ) -> Sequence[int]:
        """Every element that is exactly as the target is written, in the order of the page; nothing healed."""
        ...


class ExactResolver:
    """Takes a target as it is written or not at all."""

    def resolve(
        self,
        target: Target,
        elements: Sequence[Element],
        level: int,
        floors: Floors,
        css_matches: Sequence[int] | None,
        viewport: Box,  # noqa: ARG002 where it is matters to nobody who takes it as it is written
    ) -> Resolution:
        began = time.perf_counter()
        found = [index for index in self.matches(target, elements, css_matches) if elements[index].visible]
        scores = [
            Score(index=index, confidence=1 / len(found), element=elements[index]) for index in found[:2]
        ]
        return Resolution(
            chosen=scores[0] if len(found) == 1 else None,
            best=scores[0] if scores else None,
            runner_up=scores[1] if len(scores) > 1 else None,
            margin=1.0 if len(found) == 1 else 0.0,
            strategy="exact" if len(found) == 1 else "none",
            reason="" if len(found) == 1 else _reason(len(found)),
            profile=Profile(level=level, min_ratio=1, padding=1, expands_roles=False),
            floors=floors,
            considered=len(elements),
            duration_ms=1000 * (time.perf_counter() - began),
        )

    def matches(
        self, target: Target, elements: Sequence[Element], css_matches: Sequence[int] | None
    ) -> Sequence[int]:
        places = range(len(elements)) if css_matches is None else css_matches
        found = [index for index in places if _fits(target, elements[index])]
        found = [index for index in found if not _holds_another(elements, index, found, target)]
        if target.inside:
            found = [index for index in found if _words(target.inside) in _words(elements[index].container)]
        if target.near and len(found) > 1:
            found = _nearest(found, elements, target.near)
        if target.nth is not None:
            place = target.nth - 1 if target.nth > 0 else target.nth
            found = found[place:][:1] if -len(found) <= place < len(found) else []
        return found


def _reason(count: int) -> str:
    return f"{count} elements fit: say which one (near, inside, nth)" if count else "no element fits"


def _fits(target: Target, element: Element) -> bool:
    said = [name for name in _SHORT if getattr(target, name) is not None]
    if not said and target.css is None:
        return target.recorded is not None and _is_recorded(target.recorded, element)
    return all(_words(getattr(target, name)) == _words(getattr(element, name)) for name in said)


def _is_recorded(recorded: Element, element: Element) -> bool:
    return all(
        getattr(recorded, name) == getattr(element, name)
        for name in ("tag", "role", "name", "text", "id", "href", "frame")
    )


def _holds_another(elements: Sequence[Element], index: int, found: Sequence[int], target: Target) -> bool:
    """Of nested ones that say the same words the innermost is meant, unless a role or more tells them apart."""
    if target.text is None or target.role or target.css:
        return False
    path = elements[index].xpath + "/"
    frame = elements[index].frame
    return any(
        other != index and elements[other].frame == frame and elements[other].xpath.startswith(path)
        for other in found
    )


def _words(text: str | None) -> str:
    return " ".join((text or "").split()).casefold()


def _nearest(found: list[int], elements: Sequence[Element], near: str) -> list[int]:
    wanted = _words(near)
    marks = [e.box for e in elements if e.visible and wanted in _words(e.text)]
    if not marks:
        return []
    smallest = min(mark.width * mark.height for mark in marks)
    marks = [mark for mark in marks if mark.width * mark.height == smallest]
    return [min(found, key=lambda index: min(_distance(elements[index].box, mark) for mark in marks))]


def _distance(one: Box, other: Box) -> float:
    across = abs(one.x + one.width / 2 - other.x - other.width / 2)
    # On the same line is nearer than below.
    down = abs(one.y + one.height / 2 - other.y - other.height / 2)
    return across + 4 * down
