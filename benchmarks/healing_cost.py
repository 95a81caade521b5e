"""Cost of matching a recorded element for an attempt, compared with an exact match of a target."""

from __future__ import annotations

import random
from collections.abc import Iterator
from time import perf_counter
from typing import Final

from tools.resolver_training.generated import two_versions

from benchmarks.report import Figure, median
from recoup.model.target import Element, Floors, Target
from recoup.targets.page import Page
from recoup.targets.profiles import profile
from recoup.targets.resolve import resolve

ELEMENTS: Final = 200
ROUNDS: Final = 300
FLOORS: Final = Floors(0.72, 0.0)


def run() -> Iterator[Figure]:
    chance = random.Random(5)
    before, now = _page(chance), _page(chance)
    page = Page(now)
    asked = [element for element in before if element.text and element.tag != "li"]
    healed = [Target(recorded=chance.choice(asked)) for _ in range(ROUNDS)]
    exact = [Target(role=e.role, name=e.name) for e in chance.choices(now, k=ROUNDS)]
    yield Figure("healing, 200 elements", _ms(healed, page) - _ms(exact, page), "ms", bar=1, at_most=True)
    yield Figure("exact match, 200 elements", _ms(exact, page), "ms")
    yield Figure("the index of a page, 200 elements", _index_ms(now, healed[0]), "ms")


def _page(chance: random.Random) -> list[Element]:
    elements: list[Element] = []
    while len(elements) < ELEMENTS:
        elements += [element for _, element in two_versions(chance)[1]]
    return elements[:ELEMENTS]


def _ms(targets: list[Target], page: Page) -> float:
    times = []
    for number, target in enumerate(targets):
        began = perf_counter()
        resolve(target, page, profile(number % 3), FLOORS)
        times.append(1e3 * (perf_counter() - began))
    return median(times)


def _index_ms(elements: list[Element], target: Target) -> float:
    """By how much the first to be healed on a page takes longer than the next: the index is made when it is needed."""
    times = []
    for _ in range(50):
        page = Page(elements)
        times.append(_ms([target], page) - _ms([target], page))
    return median(times)
