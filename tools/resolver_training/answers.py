"""Which elements of a page are the right answer to a question, and what a page looks like without them."""

from __future__ import annotations

from collections.abc import Sequence

from recoup.model.target import Box, Element, said_by
from recoup.targets.wording import link_of, words_of

SAME_AREA = 0.85
TIGHT_AREA = 6


def same_click(chosen: Element, true: Element) -> bool:
    """The element itself, something in it, something tight around it, or something that covers it."""
    if chosen.frame != true.frame:
        return False
    if chosen.xpath == true.xpath or chosen.xpath.startswith(true.xpath + "/"):
        return True
    if _shared(chosen.box, true.box) >= SAME_AREA:
        return True
    return true.xpath.startswith(chosen.xpath + "/") and _tight(chosen.box, true.box)


def same_effect(one: Element, other: Element) -> bool:
    """Elsewhere, with the same words and the same link."""
    link = link_of(one.href)
    if not link or link != link_of(other.href):
        return False
    words = words_of(said_by(one))
    return bool(words) and words == words_of(said_by(other))


def without(elements: Sequence[Element], true: Element) -> list[Element]:
    """The page had the element never been on it: what would be empty without it is gone too."""
    return [e for e in elements if not same_click(e, true) and not _only_wraps(e, true)]


def _only_wraps(element: Element, true: Element) -> bool:
    if not true.xpath.startswith(element.xpath + "/"):
        return False
    words = words_of(said_by(element))
    return not words or words == words_of(said_by(true))


def _tight(outer: Box, inner: Box) -> bool:
    x, y = outer.x + outer.width / 2, outer.y + outer.height / 2
    hits = inner.x <= x <= inner.x + inner.width and inner.y <= y <= inner.y + inner.height
    return hits and outer.width * outer.height <= TIGHT_AREA * max(1, inner.width * inner.height)


def _shared(one: Box, other: Box) -> float:
    width = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    height = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    both = max(0.0, width) * max(0.0, height)
    either = one.width * one.height + other.width * other.height - both
    return both / either if either > 0 else 0.0
