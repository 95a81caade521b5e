"""How pages change, learned from recorded changes and done again to other elements.

A recorded pair (an element as it was, and as it is now) says which of its attributes changed, together. The same is
done to any element of any page: what it "was" is made up from what it is. That gives far more questions than were
recorded, with the duplicates and siblings that real pages have.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from recoup.model.target import Box, Element, said_by
from recoup.targets.wording import link_of, ratio, words_of

CLICKED = frozenset(
    {"a", "button", "input", "select", "li", "span", "h2", "h1", "label", "textarea", "td", "div", "p"}
)
WORDS_MAX = 8


@dataclass(frozen=True)
class Pair:
    """An element as it was recorded, and what became of it."""

    site: str
    was: Element
    truth: int


def changed(
    element: Element, was: Element, now: Element, others: Sequence[Element], chance: random.Random
) -> Element:
    """What the element would have been before the change that `was` → `now` went through."""
    other = chance.choice(others)
    return msgspec.structs.replace(
        element,
        text=_text(said_by(element), said_by(was), said_by(now), chance),
        name="",
        tag=element.tag if was.tag == now.tag else chance.choice((was.tag, other.tag)),
        role=element.role if was.role == now.role else was.role,
        id=_key(element.id, was.id, now.id, other.id, chance),
        test_id=_key(element.test_id, was.test_id, now.test_id, other.test_id, chance),
        name_attribute=_key(element.name_attribute, was.name_attribute, now.name_attribute, "", chance),
        classes=_classes(element.classes, was.classes, now.classes, other.classes, chance),
        href=_href(element.href, was.href, now.href, other.href, chance),
        box=_box(element.box, was.box, now.box),
        neighbours=_neighbours(element.neighbours, was.neighbours, now.neighbours, other.neighbours, chance),
        xpath=_path(element.xpath, was.xpath, now.xpath, chance),
        id_xpath=element.id_xpath if was.id_xpath == now.id_xpath else "/changed" + element.id_xpath,
    )


def worth_asking(element: Element) -> bool:
    """As people record them: something to click or read, with few words or a name of its own."""
    words = words_of(said_by(element))
    named = bool(words or element.id or element.href or element.name_attribute)
    area = element.box.width * element.box.height
    return element.tag in CLICKED and named and len(words) <= WORDS_MAX and 0 < area < 200_000


def _text(said: str, was: str, now: str, chance: random.Random) -> str:
    alike = ratio(was, now)
    if words_of(was) == words_of(now) or not said:
        return said
    words = said.split()
    if alike > 0.3 and len(words) > 1:
        words.pop(chance.randrange(len(words)))
        return " ".join(words)
    if alike > 0.3:
        return said + chance.choice(("s", " now", " us", " more", " all"))
    return was


def _key(mine: str, was: str, now: str, other: str, chance: random.Random) -> str:
    if was == now:
        return mine if was or chance.random() < 0.7 else ""
    if not mine:
        return other if was else ""
    return chance.choice((other, mine + "_1", "")) if was else ""


def _classes(
    mine: tuple[str, ...],
    was: tuple[str, ...],
    now: tuple[str, ...],
    other: tuple[str, ...],
    chance: random.Random,
) -> tuple[str, ...]:
    if set(was) == set(now):
        return mine
    kept = len(set(was) & set(now)) / max(1, len(set(now)))
    stayed = tuple(name for name in mine if chance.random() < kept)
    return stayed + (other[:1] if was else ())


def _href(mine: str, was: str, now: str, other: str, chance: random.Random) -> str:
    if link_of(was) == link_of(now) or not mine:
        return mine
    if not was or not link_of(was):
        return was
    head, _, tail = mine.rstrip("/").rpartition("/")
    return chance.choice(
        (f"{head}/{tail[: len(tail) // 2]}", f"{head}/new-{tail}", f"{head}/x/{tail}", other)
    )


def _box(mine: Box, was: Box, now: Box) -> Box:
    wider, higher = (was.width + 4) / (now.width + 4), (was.height + 4) / (now.height + 4)
    return Box(
        mine.x + was.x - now.x,
        mine.y + was.y - now.y,
        max(1, mine.width * wider),
        max(1, mine.height * higher),
    )


def _neighbours(
    mine: tuple[str, ...],
    was: tuple[str, ...],
    now: tuple[str, ...],
    other: tuple[str, ...],
    chance: random.Random,
) -> tuple[str, ...]:
    kept = len(set(was) & set(now)) / max(1, len(set(now)))
    strange = len(set(was) - set(now))
    return tuple(word for word in mine if chance.random() < kept) + other[:strange]


def _path(mine: str, was: str, now: str, chance: random.Random) -> str:
    if was == now:
        return mine
    before, after, steps = was.split("/")[1:], now.split("/")[1:], mine.split("/")[1:]
    same = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    same = min(same, len(steps) - 1)
    longer = len(before) - len(after)
    if longer > 0:
        steps[same:same] = [f"div[{chance.randint(1, 3)}]"] * longer
    elif longer < 0:
        del steps[same : min(same - longer, len(steps) - 1)]
    else:
        step = steps[same].partition("[")[0]
        steps[same] = f"{step}[{chance.randint(1, 9)}]"
    return "/" + "/".join(steps)
