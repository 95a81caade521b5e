"""Questions with known answers: recorded pairs, the same with attributes masked, changes done again, made-up pages."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from tools.resolver_training.answers import same_click, same_effect, without
from tools.resolver_training.drift import Pair, changed, worth_asking
from tools.resolver_training.generated import two_versions

from recoup.model.target import Box, Element
from recoup.targets.features import Wanted, features
from recoup.targets.page import Page
from recoup.targets.shortlist import one_thing, shortlist

ROWS_RECORDED = 20
ROWS_OTHER = 12
"""Candidates per question that are learned from, likeliest first: the rest is easy."""


@dataclass(frozen=True)
class Question:
    """The candidates for one target on one page, and which of them are right: none when it is gone."""

    site: str
    rows: NDArray[np.float64]
    right: NDArray[np.bool_]
    same: NDArray[np.bool_]
    weight: float
    heard: float
    """What its answer weighs when the calibration is fitted: only what was recorded is heard."""

    def shorter(self, count: int) -> Question:
        keep = (np.arange(len(self.right)) < count) | self.right
        return Question(
            self.site,
            self.rows[keep],
            self.right[keep],
            self.same[np.ix_(keep, keep)],
            self.weight,
            self.heard,
        )


@dataclass(frozen=True)
class Amounts:
    """How much of each kind, and what it weighs against a recorded question."""

    masked_weight: float = 0.03
    masked_heard: float = 0.1
    drifted_per_site: int = 30
    drifted_weight: float = 0.03
    generated_pages: int = 30
    generated_per_page: int = 8
    generated_weight: float = 0.02
    seed: int = 11


def questions(pairs: Sequence[Pair], pages: Mapping[str, Sequence[Element]], how: Amounts) -> list[Question]:
    chance = random.Random(how.seed)
    indexed = {site: Page(elements) for site, elements in pages.items()}
    made = list(_recorded(pairs, pages, indexed, how, chance))
    made += _drifted(pairs, pages, indexed, how, chance)
    made += _generated(how, chance)
    return made


def _recorded(
    pairs: Sequence[Pair],
    pages: Mapping[str, Sequence[Element]],
    indexed: Mapping[str, Page],
    how: Amounts,
    chance: random.Random,
) -> Iterator[Question]:
    for pair in pairs:
        elements = pages[pair.site]
        true = elements[pair.truth]
        left = Page(without(elements, true))
        masked = chance.choice(list(MASKS.values()))(pair.was)
        for was, weight, heard in ((pair.was, 1.0, 1.0), (masked, how.masked_weight, how.masked_heard)):
            yield from _asked(pair.site, was, true, indexed[pair.site], left, weight, heard)


def _without_keys(element: Element) -> Element:
    return msgspec.structs.replace(element, id="", test_id="", name_attribute="", id_xpath="")


def _without_place(element: Element) -> Element:
    return msgspec.structs.replace(element, box=Box(0, 0, 0, 0), xpath="", id_xpath="")


def _without_looks(element: Element) -> Element:
    return msgspec.structs.replace(element, href="", classes=())


def _short(element: Element) -> Element:
    return Element(tag=element.tag, role=element.role, text=element.text, name=element.name)


MASKS: Final = {
    "no id, name or test id": _without_keys,
    "no place": _without_place,
    "no link, no classes": _without_looks,
    "role and words alone": _short,
}
"""As if less had been recorded, down to what a person would have written."""


def _asked(
    site: str, was: Element, true: Element, page: Page, left: Page, weight: float, heard: float
) -> Iterator[Question]:
    """Twice: with the element on the page, and on the page without it, where at most its double elsewhere is right."""
    yield _question(site, was, page, lambda i: _right(page.elements[i], true), weight, heard)
    if len(left):
        yield _question(site, was, left, lambda i: same_effect(left.elements[i], true), weight, heard)


def _right(element: Element, true: Element) -> bool:
    return same_click(element, true) or same_effect(element, true)


def _question(
    site: str, was: Element, page: Page, is_right: Callable[[int], bool], weight: float, heard: float
) -> Question:
    wanted = Wanted(was, page)
    candidates = shortlist(wanted, page)
    same = one_thing(page, candidates)
    rows = features(wanted, page, candidates, same)
    right = np.array([is_right(index) for index in candidates.tolist()], dtype=bool)
    made = Question(site, rows, right, same, weight, heard)
    return made if heard == 1.0 else made.shorter(ROWS_OTHER)


def _drifted(
    pairs: Sequence[Pair],
    pages: Mapping[str, Sequence[Element]],
    indexed: Mapping[str, Page],
    how: Amounts,
    chance: random.Random,
) -> Iterator[Question]:
    for site in sorted(pages):
        elements = pages[site]
        fit = [element for element in elements if worth_asking(element)]
        for element in chance.sample(fit, min(len(fit), how.drifted_per_site)):
            like = chance.choice(pairs)
            was = changed(element, like.was, pages[like.site][like.truth], elements, chance)
            left = Page(without(elements, element))
            yield from _asked(site, was, element, indexed[site], left, how.drifted_weight, 0.0)


def _generated(how: Amounts, chance: random.Random) -> Iterator[Question]:
    for number in range(how.generated_pages):
        before, now = two_versions(chance)
        asked = [(uid, was) for uid, was in before if was.tag != "li"]
        for uid, was in chance.sample(asked, min(len(asked), how.generated_per_page)):
            for there in (now, [pair for pair in now if pair[0] != uid]):
                numbers = [other for other, _ in there]
                page = Page([element for _, element in there])
                right = partial(_is_number, numbers, uid)
                yield _question(f"generated {number}", was, page, right, how.generated_weight, 0.0)


def _is_number(numbers: Sequence[int], uid: int, index: int) -> bool:
    return numbers[index] == uid
