"""What the model is told about a candidate: how it compares with the recorded element, and with its rivals.

Sets have no order that two processes share, so what is summed over them is summed exactly and ties are broken by the
word: every machine gets the same numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from math import fsum, log, log1p
from typing import Final

import numpy as np

from recoup.model.target import Element
from recoup.targets.opposites import are_opposites, opposites_of
from recoup.targets.page import Bools, Facets, Floats, Ints, Page, facets_of
from recoup.targets.profiles import kinds_alike
from recoup.targets.wording import likeness, overlap, pairs_of

COMPARED: Final = (
    "said_equal",
    "said_alike",
    "face_equal",
    "words_shared",
    "words_kept",
    "rarest_kept",
    "rarest_foreign",
    "longer",
    "begins_same",
    "first_word",
    "same_meaning",
    "opposite",
    "numbers_differ",
    "said_by_it",
    "said_count",
    "id",
    "id_alike",
    "test_id",
    "name_attribute",
    "link",
    "address",
    "site",
    "last_step_of_link",
    "parameters",
    "rarest_parameter",
    "classes",
    "hints_kept",
    "hints_shared",
    "rarest_hint",
    "tag",
    "role",
    "role_alias",
    "type",
    "path_begins",
    "path_ends",
    "id_path",
    "deeper",
    "pattern",
    "landmarks",
    "neighbours_kept",
    "neighbours_shared",
    "container",
    "ancestors",
)
PLACED: Final = ("across", "down", "distance", "same_left", "same_top", "width", "height", "area")
RELATIVE: Final = (
    "said_lead",
    "words_lead",
    "hints_lead",
    "link_lead",
    "id_lead",
    "path_lead",
    "neighbours_lead",
    "nearer",
    "same_said_near",
    "siblings",
    "said_equal_elsewhere",
    "said_best",
    "link_best",
    "id_best",
)
ABOUT: Final = ("target_words", "target_is_named", "target_has_link", "target_has_id", "page_size")
NAMES: Final = COMPARED + PLACED + RELATIVE + ABOUT

AT: Final = {name: index for index, name in enumerate(NAMES)}
_LED: Final = [
    AT[name]
    for name in ("said_alike", "words_shared", "hints_kept", "link", "id", "path_ends", "neighbours_kept")
]
_UNTIL_PLACED: Final = len(COMPARED) + len(PLACED)
_UNTIL_RELATIVE: Final = _UNTIL_PLACED + len(RELATIVE)
_BEST: Final = [AT[name] for name in ("said_alike", "link", "id")]
_LEADS: Final = slice(AT["said_lead"], AT["neighbours_lead"] + 1)
_BESTS: Final = slice(AT["said_best"], AT["id_best"] + 1)


class Wanted:
    """The recorded element, taken apart once per resolution, with what its words weigh on this page."""

    def __init__(self, element: Element, page: Page) -> None:
        self.element: Final = element
        self.facets: Final = facets_of(element)
        self.rarity: Final = {word: page.rarity(word) for word in sorted(self.facets.words)}
        self.rarity_sum: Final = fsum(self.rarity.values())
        self.rarest: Final = max(self.rarity, key=lambda word: (self.rarity[word], word), default="")
        self.opposites: Final = opposites_of(self.facets.words)
        self.hints: Final = {hint: _hint_weight(hint, page) for hint in self.facets.hints}
        self.hints_sum: Final = fsum(self.hints.values())
        self.parameters: Final = {part: _hint_weight(part, page) for part in self.facets.parameters}
        self.neighbours: Final = {word: page.rarity(word) for word in self.facets.neighbours}
        self.neighbours_sum: Final = fsum(self.neighbours.values())


def _hint_weight(hint: str, page: Page) -> float:
    return log1p(len(page) / (1 + page.occurring(hint)))


def features(wanted: Wanted, page: Page, candidates: Ints, same: Bools) -> Floats:
    """One row per candidate. `same` says which of them are one thing for a click, nested or on top of one another."""
    chosen = candidates.tolist()
    columns = np.empty((len(NAMES), len(chosen)))
    columns[: len(COMPARED)] = _compared(wanted, page, chosen)
    columns[len(COMPARED) : _UNTIL_PLACED] = _placed(wanted.element, page, candidates)
    columns[AT["nearer"]] = _nearness(wanted.element, page, candidates)
    columns[AT["siblings"]] = np.log(page.siblings(chosen))
    _relate(columns, same)
    columns[_UNTIL_RELATIVE:] = np.array(_about(wanted, page))[:, None]
    return columns.T


def _compared(wanted: Wanted, page: Page, candidates: list[int]) -> Floats:
    """Column by column: asking one thing of all candidates is quicker than asking everything of one after the other.

    Many of them say the same, lead to the same place or are of the same kind: of these, one is asked for all.
    """
    mine, element = wanted.facets, wanted.element
    its = [page.facets(index) for index in candidates]
    others = [page.elements[index] for index in candidates]
    words = tuple(_by_words(wanted, its, page))
    columns: tuple[Iterable[float], ...] = (
        *words[:2],
        [not mine.faces.isdisjoint(one.faces) for one in its],
        *words[2:],
        _agreements(element.id, [other.id for other in others]),
        _alike_ids(element.id, [other.id for other in others]),
        _agreements(element.test_id, [other.test_id for other in others]),
        _agreements(element.name_attribute, [other.name_attribute for other in others]),
        *_by_link(wanted, its),
        _alike_sets(mine.classes, [one.classes for one in its]),
        *zip(*[_by_hints(wanted, one) for one in its], strict=True),
        [element.tag == other.tag for other in others],
        _agreements(element.role, [other.role for other in others]),
        _alike_kinds(element, others),
        _agreements(element.type, [other.type for other in others]),
        *_by_path(mine, its),
        _agreements(element.id_xpath, [other.id_xpath for other in others]),
        [len(one.steps) - len(mine.steps) if mine.steps and one.steps else 0 for one in its],
        _agreements(mine.pattern, [one.pattern for one in its]),
        _agreements(mine.landmarks, [one.landmarks for one in its]),
        *zip(*[_by_neighbours(wanted, one) for one in its], strict=True),
        _agreements(element.container, [other.container for other in others]),
        _alike_sets(element.ancestors, [other.ancestors for other in others]),
    )
    size = len(COMPARED) * len(candidates)
    flat = np.fromiter(chain.from_iterable(columns), np.float64, size)
    return flat.reshape(len(COMPARED), len(candidates))


def _by_words(wanted: Wanted, its: Sequence[Facets], page: Page) -> Iterable[tuple[float, ...]]:
    told = {said: _words_told(wanted, one, page) for said, one in {one.said: one for one in its}.items()}
    return zip(*[told[one.said] for one in its], strict=True)


def _words_told(wanted: Wanted, its: Facets, page: Page) -> tuple[float, ...]:
    mine = wanted.facets
    equal = bool(mine.said) and mine.said == its.said
    both, saying = mine.words & its.words, page.saying(its)
    shared, foreign, rarest_foreign = 0.0, saying.weight, saying.rarest
    if equal:
        shared, foreign, rarest_foreign = wanted.rarity_sum, 0.0, 0.0
    elif both:
        strange = page.rarities(its.words - both)
        shared = fsum([wanted.rarity[word] for word in both])
        foreign, rarest_foreign = fsum(strange), max(strange, default=0.0)
    whole = wanted.rarity_sum + foreign
    return (
        equal,
        1.0 if equal else likeness(mine.pairs, its.pairs),
        shared / whole if whole else 0.0,
        shared / wanted.rarity_sum if wanted.rarity_sum else 0.0,
        wanted.rarest in both if wanted.rarest else 0.5,
        rarest_foreign,
        log((len(its.said) + 3) / (len(mine.said) + 3)),
        _begins_same(mine.said, its.said),
        _agree(mine.first, its.first),
        not equal and bool(mine.meaning) and mine.meaning == its.meaning,
        not (equal or wanted.opposites.isdisjoint(its.words)) and are_opposites(mine.words, its.words),
        mine.numbers != its.numbers,
        bool(its.said),
        saying.spoken,
    )


def _begins_same(mine: str, its: str) -> bool:
    return bool(mine and its) and (mine.startswith(its) or its.startswith(mine))


def _by_link(wanted: Wanted, its: Sequence[Facets]) -> Iterable[tuple[float, ...]]:
    links = [(one.link, one.parameters) for one in its]
    told = {link: _link_told(wanted, one) for link, one in dict(zip(links, its, strict=True)).items()}
    return zip(*[told[link] for link in links], strict=True)


def _link_told(wanted: Wanted, its: Facets) -> tuple[float, ...]:
    mine = wanted.facets
    if not mine.link or not its.link:
        missing = -0.5 if bool(mine.link) != bool(its.link) else 0.0
        return (missing, missing, missing, missing, 0.0, 0.0)
    equal = mine.link == its.link
    address = 1.0 if equal else overlap(mine.beyond, its.beyond)
    return (
        1.0 if equal else -1.0,
        address,
        _agree(mine.address[0], its.address[0]),
        _agree(mine.address[-1], its.address[-1]),
        _agree_sets(mine.parameters, its.parameters),
        max([wanted.parameters[part] for part in mine.parameters & its.parameters], default=0.0),
    )


def _by_path(mine: Facets, its: Sequence[Facets]) -> tuple[list[float], list[float]]:
    """How much of the path is the same, from its beginning and from its end."""
    longest = [max(len(mine.steps), len(one.steps), 1) for one in its]
    return (
        [_common(mine.steps, one.steps) / most for one, most in zip(its, longest, strict=True)],
        [_common(mine.steps_back, one.steps_back) / most for one, most in zip(its, longest, strict=True)],
    )


def _agree(mine: str, its: str) -> float:
    """1 equal, -1 both there and different, -0.5 one of them missing, 0 nothing to compare."""
    if mine and its:
        return 1.0 if mine == its else -1.0
    return -0.5 if mine or its else 0.0


def _agreements(mine: str, its: Iterable[str]) -> list[float]:
    """The same of each."""
    if mine:
        return [1.0 if one == mine else -1.0 if one else -0.5 for one in its]
    return [-0.5 if one else 0.0 for one in its]


def _agree_sets(mine: frozenset[str], its: frozenset[str]) -> float:
    if mine and its:
        return 2.0 * overlap(mine, its) - 1.0
    return -0.5 if mine or its else 0.0


def _alike_ids(mine: str, its: Iterable[str]) -> list[float]:
    if not mine:
        return [0.0 for _ in its]
    pairs = pairs_of(mine)
    return [0.0 if not one else 1.0 if one == mine else likeness(pairs, pairs_of(one)) for one in its]


def _by_hints(wanted: Wanted, its: Facets) -> tuple[float, float, float]:
    shared = wanted.facets.hints & its.hints
    if not shared:
        return 0.0, 0.0, 0.0
    weights = [wanted.hints[hint] for hint in shared]
    whole = len(wanted.facets.hints) + len(its.hints) - len(shared)
    return fsum(weights) / wanted.hints_sum, len(shared) / whole, max(weights)


def _by_neighbours(wanted: Wanted, its: Facets) -> tuple[float, float]:
    shared = wanted.facets.neighbours & its.neighbours
    if not shared:
        return 0.0, 0.0
    whole = len(wanted.facets.neighbours) + len(its.neighbours) - len(shared)
    return fsum([wanted.neighbours[word] for word in shared]) / wanted.neighbours_sum, len(shared) / whole


def _common(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    """How many are the same before the first that differs."""
    same = 0
    for mine, its in zip(left, right, strict=False):
        if mine != its:
            break
        same += 1
    return same


def _alike_sets(mine: Collection[str], its: Sequence[Collection[str]]) -> list[float]:
    """What they share among all they have; in between where there is nothing to share."""
    ours = frozenset(mine)
    told = {one: overlap(ours, frozenset(one)) if mine or one else 0.5 for one in set(its)}
    return [told[one] for one in its]


def _alike_kinds(mine: Element, its: Sequence[Element]) -> list[bool]:
    kinds = [(one.role, one.tag, one.type) for one in its]
    told = {kind: kinds_alike(mine, one) for kind, one in dict(zip(kinds, its, strict=True)).items()}
    return [told[kind] for kind in kinds]


def _placed(element: Element, page: Page, candidates: Ints) -> Floats:
    """Where they are, against where it was; nothing is said of an element without a place."""
    box, columns = element.box, np.zeros((len(PLACED), len(candidates)))
    if not box.width * box.height:
        return columns
    place, size = np.array([[box.x], [box.y]]), np.array([[box.width], [box.height]])
    sides, away = page.sides[:, candidates], page.centres[:, candidates] - place - size / 2
    far, near, larger = columns[:3], columns[3:5], columns[5:]
    np.abs(away, out=far[:2])
    np.hypot(away[0], away[1], out=far[2])
    np.log1p(far, out=far)
    near[:] = np.abs(sides[:2] - place) < 4
    larger[:2] = (sides[2:] + 4) / (size + 4)
    larger[2] = (sides[2] * sides[3] + 16) / (box.width * box.height + 16)
    np.log(larger, out=larger)
    return columns


def _nearness(element: Element, page: Page, candidates: Ints) -> Floats:
    """How many elements of the page are nearer to the recorded place. Without a place: half of them."""
    box = element.box
    if not box.width * box.height:
        return np.full(len(candidates), log1p(len(page) / 2))
    across, down = page.centres
    away = np.hypot(across - box.x - box.width / 2, down - box.y - box.height / 2)
    nearer = np.empty(len(page))
    nearer[np.argsort(away, kind="stable")] = np.arange(len(page))
    found: Floats = np.log1p(nearer[candidates])
    return found


def _relate(columns: Floats, same: Bools) -> None:
    """What is told of each by the others; the columns that are compared and placed are there."""
    others = ~same
    said, distance = columns[AT["said_alike"]], columns[AT["distance"]]
    columns[_LEADS] = _leads(columns[_LED], others)
    columns[AT["same_said_near"]] = _same_said_near(said, distance, others)
    columns[AT["said_equal_elsewhere"]] = others @ columns[AT["said_equal"]]
    columns[_BESTS] = columns[_BEST].max(axis=1)[:, None]


def _leads(values: Floats, others: Bools) -> Floats:
    """By how much each is ahead of the best other thing; where there is none, of nothing."""
    best = np.where(others, values[:, None, :], -np.inf).max(axis=2)
    leads: Floats = values - np.where(best == -np.inf, 0.0, best)
    return leads


def _same_said_near(said: Floats, distance: Floats, others: Bools) -> Bools:
    """Where another thing, no less alike in words, is nearer to the recorded place."""
    rival = (said >= said[:, None]) & others & (distance < distance[:, None])
    near: Bools = np.asarray(rival.any(axis=1))
    return near


def _about(wanted: Wanted, page: Page) -> tuple[float, ...]:
    element = wanted.element
    return (
        float(min(len(wanted.facets.words), 10)),
        float(bool(wanted.facets.said)),
        float(bool(wanted.facets.link)),
        float(bool(element.id or element.test_id or element.name_attribute)),
        log1p(len(page)),
    )
