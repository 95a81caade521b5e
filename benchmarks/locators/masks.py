"""The same questions with less recorded: what confidence is worth when a target is known by its words alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.resolver_training.answers import same_click, same_effect, without
from tools.resolver_training.drift import Pair
from tools.resolver_training.questions import MASKS, Amounts, questions
from tools.resolver_training.training import Training, train
from tools.train_resolver import load

from benchmarks.report import Figure
from recoup.model.target import Element, Floors, Target
from recoup.targets.page import Page
from recoup.targets.profiles import profile
from recoup.targets.resolve import resolve
from recoup.targets.weights import Model

FLOORS: Final = Floors(0.82, 0.0)
BINS: Final = 10
Told = tuple[float, bool, bool]
"""How sure, whether that was right, whether the element was there."""


def masked(folder: Path, folds: int) -> Iterator[Figure]:
    pairs, pages = load(folder)
    heard: dict[str, list[Told]] = {name: [] for name in MASKS}
    for held_out in _folds(sorted(pages), folds):
        rest = {site: elements for site, elements in pages.items() if site not in held_out}
        asked = questions([pair for pair in pairs if pair.site in rest], rest, Amounts())
        model = Model(train(asked, Training()))
        for pair in pairs:
            if pair.site in held_out:
                for name, mask in MASKS.items():
                    heard[name] += _told(pair, pages[pair.site], mask, model)
    for name, told in heard.items():
        yield from _figures(name, told)


def _folds(sites: Sequence[str], count: int) -> list[set[str]]:
    order = sorted(sites, key=lambda site: hashlib.sha256(site.encode()).hexdigest())
    return [set(order[number::count]) for number in range(count)]


def _told(
    pair: Pair, elements: Sequence[Element], mask: Callable[[Element], Element], model: Model
) -> Iterator[Told]:
    true = elements[pair.truth]
    target = Target(recorded=mask(pair.was))
    for there, is_there in ((elements, True), (without(elements, true), False)):
        best = resolve(target, Page(there), profile(0), FLOORS, model=model).best
        if best is None:
            continue
        right = same_effect(best.element, true) or (is_there and same_click(best.element, true))
        if is_there or not right:
            yield best.confidence, right, is_there


def _figures(name: str, told: Sequence[Told]) -> Iterator[Figure]:
    there = [each for each in told if each[2]]
    healed = [each for each in told if not each[2] and each[0] >= FLOORS.confidence]
    answered = [each for each in there if each[0] >= FLOORS.confidence]
    yield Figure(f"{name}: calibration error", _calibration_error(told), "")
    yield Figure("  answered at 0.82", len(answered) / len(there), "")
    yield Figure("  of these wrong", sum(not each[1] for each in answered), "")
    yield Figure("  healed although removed", len(healed) / len(there), "")


def _calibration_error(told: Sequence[Told]) -> float:
    off = 0.0
    for number in range(BINS):
        inside = [each for each in told if min(BINS - 1, int(each[0] * BINS)) == number]
        off += abs(sum(each[0] for each in inside) - sum(each[1] for each in inside))
    return off / len(told)
