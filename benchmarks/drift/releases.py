"""How a shop changes from release to release: by small steps, now and then a new look, some controls gone for a while.

Seeded: the same releases every time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

RELEASES: Final = 30
SEED: Final = 7
WORDS, IDS, NAMES, CLASSES, WRAPS, ORDER = 0.15, 0.2, 0.1, 0.3, 0.2, 0.2
"""How likely each of these changes for one part in one release."""
NEW_LOOKS: Final = frozenset({11, 21})
"""Releases in which every id, class, wrapper and order changes, and no word."""
GONE: Final = {8: "terms", 15: "choose", 22: "place", 27: "search"}
"""Releases in which a part is missing, while everything that resembles it stays: none may be taken for it."""
COPIES: Final = {5: "place", 12: "email", 17: "search", 24: "place"}
"""Releases in which something else is called just as the part is."""
ALTERNATING: Final = {"delivery": range(9, 19), "number": range(12, 20)}
"""Two wordings that take turns: every other release has the one before."""


@dataclass(frozen=True)
class Part:
    """What the flow needs of the site, and what it is called as time goes by."""

    key: str
    words: tuple[str, ...]
    names: tuple[str, ...] = ()


PARTS: Final = (
    Part(
        "query",
        ("Search the catalogue", "Search our catalogue", "Search our catalogue of lamps", "Our catalogue of lamps"),
        ("q", "query", "term"),
    ),
    Part(
        "search",
        ("Search", "Search lamps", "Search all lamps", "All lamps", "Show all lamps"),
        ("go", "do_search", "find"),
    ),
    Part("choose", ("Choose", "Choose lamp", "Choose this lamp", "Take this lamp", "This lamp")),
    Part(
        "delivery",
        ("Delivery", "Delivery speed", "Speed of delivery", "Shipping speed", "Shipping"),
        ("delivery", "ship", "carrier"),
    ),
    Part(
        "email",
        ("E-mail", "E-mail for receipt", "Address for receipt", "Receipt address", "Receipt sent to"),
        ("email", "mail", "contact"),
    ),
    Part(
        "terms",
        ("I accept the terms", "I accept the terms of sale", "Terms of sale", "Terms of sale and returns"),
        ("terms", "consent", "tos"),
    ),
    Part(
        "place",
        ("Place order", "Place order and pay", "Order and pay", "Pay now", "Pay now by card"),
        ("place", "commit", "pay"),
    ),
    Part("number", ("Order number", "Your order number", "Order reference", "Reference"), ("no", "ref")),
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """One part in one release."""

    words: str
    name: str
    id: str
    classes: str
    wraps: int = 0
    order: float = 0.5


@dataclass(frozen=True)
class Release:
    number: int
    looks: Mapping[str, Look]
    gone: str = ""
    copied: str = ""


@dataclass(frozen=True)
class _Progress:
    """How far a part has come."""

    words: int = 0
    name: int = 0
    id: str = ""
    classes: str = ""
    wraps: int = 0
    order: float = 0.5


def releases(count: int = RELEASES, seed: int = SEED) -> list[Release]:
    chance = Random(seed)
    progress = {
        part.key: _Progress(id=part.key, classes="control", order=at) for at, part in enumerate(PARTS)
    }
    made = [_release(1, progress)]
    for number in range(2, count + 1):
        new_look = number in NEW_LOOKS
        progress = {key: _changed(one, chance, new_look=new_look) for key, one in progress.items()}
        made.append(_release(number, progress))
    return made


def _release(number: int, progress: Mapping[str, _Progress]) -> Release:
    looks = {part.key: _look(part, progress[part.key], number) for part in PARTS}
    return Release(number, looks, gone=GONE.get(number, ""), copied=COPIES.get(number, ""))


def _look(part: Part, one: _Progress, number: int) -> Look:
    back = number in ALTERNATING.get(part.key, ()) and number % 2 == 0
    words = min(max(0, one.words - back), len(part.words) - 1)
    name = part.names[min(one.name, len(part.names) - 1)] if part.names else ""
    return Look(part.words[words], name, one.id, one.classes, one.wraps, one.order)


def _changed(one: _Progress, chance: Random, *, new_look: bool) -> _Progress:
    """Each facet by itself; the dice are thrown for all, so that one does not shift the others."""
    dice = [chance.random() for _ in range(6)]
    fresh, moved = f"k{chance.randrange(16**5):05x}", chance.uniform(-1.5, 1.5)
    if new_look:
        return replace(
            one, id=fresh, classes=f"css-{fresh}", wraps=(one.wraps + 1) % 4, order=one.order + 2 * moved
        )
    return _Progress(
        words=one.words + (dice[0] < WORDS),
        name=one.name + (dice[1] < NAMES),
        id=fresh if dice[2] < IDS else one.id,
        classes=f"css-{fresh}" if dice[3] < CLASSES else one.classes,
        wraps=(one.wraps + 1) % 4 if dice[4] < WRAPS else one.wraps,
        order=one.order + moved if dice[5] < ORDER else one.order,
    )
