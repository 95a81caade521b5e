"""Looking for a recorded element: the likeliest of a shortlist, and whether that is enough."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import fsum

import msgspec
import numpy as np

from recoup.kernel.memory import FROM_LESSON, FROM_MEMORY, identity
from recoup.model.memory import Remembered
from recoup.model.target import (
    CANDIDATES_MAX,
    EXACT,
    Element,
    Floors,
    Profile,
    Resolution,
    Score,
    Target,
    identity_of,
    said_by,
)
from recoup.targets import around
from recoup.targets.area import area_around, considered
from recoup.targets.features import Wanted, features
from recoup.targets.page import Bools, Floats, Ints, Page
from recoup.targets.profiles import kind_of
from recoup.targets.shortlist import one_thing, shortlist
from recoup.targets.strategies import deciding
from recoup.targets.vetoes import VETOED_MAX, strays, vetoes
from recoup.targets.weights import Model
from recoup.targets.wording import words_of

PROPOSED_MAX = 8
"""Of the elements that are proposed, those that are looked at: a common one may be on the page a hundred times."""


class Learned(msgspec.Struct, frozen=True):
    """What earlier runs know of a target: what was proven in its place, and what must never be taken for it."""

    remembered: tuple[Remembered, ...] = ()
    forbidden: frozenset[str] = frozenset()
    proposed: tuple[Element, ...] = ()
    """What was learned for any target and is like this one: looked at closely where it is on the page."""
    lessons: tuple[Element, ...] = ()
    """What stood for it last: further descriptions."""


class Question(msgspec.Struct, frozen=True):
    """All that a resolution depends on."""

    target: Target
    page: Page
    """The page as it is."""
    compared: Page
    """The same elements as a record would show them: what records say is compared with these."""
    profile: Profile
    floors: Floors
    css_matches: Collection[int] | None
    learned: Learned = Learned()

    def answer(self, chosen: Score | None, **more: object) -> Resolution:
        return msgspec.structs.replace(
            Resolution(chosen=chosen, best=chosen, profile=self.profile, floors=self.floors), **more
        )

    def score(self, index: int, confidence: float) -> Score:
        return Score(index=index, confidence=confidence, element=self.page.elements[index])


class Ranked(msgspec.Struct, frozen=True):
    """A shortlist, which of it are one thing, how likely each is, and which is the likeliest that may be meant."""

    candidates: Ints
    same: Bools
    rows: Floats
    likely: Floats
    best: int

    @property
    def index(self) -> int:
        return int(self.candidates[self.best])


def healed(question: Question, model: Model, why_not_exact: str, among: Sequence[int]) -> Resolution:
    """By the recorded description; where several fit to the letter, `among` them."""
    recorded, page, profile = question.target.recorded, question.compared, question.profile
    assert recorded is not None, "only recorded targets are asked of the model"
    wanted = Wanted(recorded, page)
    proposed = [index for element in question.learned.proposed for index in same_as(element, page)]
    ranked = _ranked(wanted, page, model, among, proposed)
    area = area_around(recorded, page, profile)
    allowed = considered(ranked.rows, page.boxes[ranked.candidates], profile, area)
    vetoed = (
        *vetoes(wanted, page, ranked.index),
        *forbidden(question, question.page.elements[ranked.index]),
        *_misplaced(question, ranked.index),
        *_told_apart_by_masked_words(question, ranked),
    )
    made = question.answer(
        None,
        reason=why_not_exact,
        clamped=area.clamped,
        considered=int(allowed.sum()),
        strategy=_strategy(wanted, page, ranked),
    )
    made = _with_best(made, question, model, ranked, vetoed)
    too_far = f"it is further away and less alike than level {profile.level} considers"
    return accepted(made, vetoed, "" if allowed[ranked.best] else too_far)


def forbidden(question: Question, element: Element) -> tuple[str, ...]:
    """A veto by somebody who looked at an earlier heal."""
    known = question.learned.forbidden
    return ("somebody rejected it for this target",) if known and identity(element) in known else ()


def _misplaced(question: Question, index: int) -> tuple[str, ...]:
    """All that is said must hold of a healed element, too: the same button of another row is another button."""
    target, page = question.target, question.page
    for key, words, chosen in (("inside", target.inside, around.inside), ("near", target.near, around.near)):
        if words is not None and index not in chosen([index], words, page):
            return (f"it is not {key} {words!r}",)
    return ()


def _told_apart_by_masked_words(question: Question, ranked: Ranked) -> tuple[str, ...]:
    """Two that are alike in records and not on the page: the record cannot tell which of them it was."""
    if question.compared is question.page:
        return ()
    shown, page = question.compared.elements, question.page.elements
    rivals = set(range(len(page))) - set(ranked.candidates[ranked.same[ranked.best]].tolist())
    mine = ranked.index
    for other in rivals:
        if is_identical(shown[mine], shown[other]) and not is_identical(page[mine], page[other]):
            return ("only words that records mask tell it from another element",)
    return ()


def from_memory(question: Question) -> Resolution | None:
    """The element that was proven right before, if it is on the page once; None where something speaks against it."""
    page, recorded = question.compared, question.target.recorded
    there = [(one, same_as(one.element, page)) for one in question.learned.remembered]
    there = [(one, places) for one, places in there if places]
    if not there or len(there[0][1]) != 1:
        return None
    (best, (index,)), rivals = there[0], there[1:]
    if _misplaced(question, index) or (recorded is not None and vetoes(Wanted(recorded, page), page, index)):
        return None
    made = question.answer(
        question.score(index, best.confidence),
        strategy=FROM_MEMORY,
        margin=best.confidence - (rivals[0][0].confidence if rivals else 0.0),
        considered=len(there),
    )
    made = accepted(made)
    return made if made.chosen is not None else None


def from_lessons(question: Question, model: Model) -> Resolution | None:
    """By what stood for the target when it was last proven: changes that are small each night add up, until the
    recorded description leads nowhere. Each lesson is held to the same floors and vetoes, and they must agree."""
    made = [_from_lesson(question, model, lesson) for lesson in question.learned.lessons]
    found = [(one.chosen, one) for one in made if one.chosen is not None]
    if len({chosen.index for chosen, _ in found}) != 1:
        return None
    return max(found, key=lambda pair: pair[0].confidence)[1]


def _from_lesson(question: Question, model: Model, lesson: Element) -> Resolution:
    recorded = question.target.recorded
    assert recorded is not None, "only recorded targets are asked of the model"
    taught = msgspec.structs.replace(question.target, recorded=lesson)
    made = healed(msgspec.structs.replace(question, target=taught), model, "", ())
    chosen = made.chosen
    if chosen is not None and strays(recorded, lesson, question.compared.elements[chosen.index]):
        return msgspec.structs.replace(made, chosen=None)
    return msgspec.structs.replace(made, strategy=FROM_LESSON, led_by=identity(lesson))


def same_as(element: Element, page: Page) -> list[int]:
    """The places of all elements that have everything that names this one."""
    said = " ".join(words_of(said_by(element)))
    some = (
        page.speakers.get(said, ())
        if said
        else page.ids.get(element.id, ())
        if element.id
        else range(len(page))
    )
    return [index for index in some if is_identical(element, page.elements[index])]


def _ranked(
    wanted: Wanted, page: Page, model: Model, among: Sequence[int], proposed: Sequence[int]
) -> Ranked:
    candidates = shortlist(wanted, page, always=[*among, *proposed[:PROPOSED_MAX]])
    same = one_thing(page, candidates)
    rows = features(wanted, page, candidates, same)
    likely = model.choice(rows)
    meant = np.where(np.isin(candidates, among), likely, -1.0) if among else likely
    return Ranked(candidates, same, rows, likely, int(meant.argmax()))


def _with_best(
    made: Resolution, question: Question, model: Model, ranked: Ranked, vetoed: tuple[str, ...]
) -> Resolution:
    recorded, element = question.target.recorded, question.page.elements[ranked.index]
    assert recorded is not None, "only recorded targets are asked of the model"
    confidence = model.calibrated(
        float(ranked.likely[ranked.same[ranked.best]].sum()), ranked.rows[ranked.best]
    )
    confidence = min(confidence, VETOED_MAX) if vetoed else confidence
    rivals = _rivals(question, model, ranked)
    runner_up = rivals[0] if rivals else None
    return msgspec.structs.replace(
        made,
        best=question.score(ranked.index, confidence),
        runner_up=runner_up,
        further=tuple(rivals[1:]),
        margin=max(0.0, confidence - (runner_up.confidence if runner_up else 0.0)),
        role_aliases_used=_aliases_used(question, recorded, element),
    )


def _aliases_used(question: Question, recorded: Element, element: Element) -> tuple[str, ...]:
    """Where roles are not expanded, an element of another kind was found by what else is alike."""
    is_same = kind_of(recorded) == kind_of(element)
    return () if is_same or not question.profile.expands_roles else (kind_of(element),)


def _strategy(wanted: Wanted, page: Page, ranked: Ranked) -> str:
    if is_identical(wanted.element, page.elements[ranked.index]):
        return EXACT
    return deciding(wanted.facets, page.facets(ranked.index), ranked.rows[ranked.best])


def _rivals(question: Question, model: Model, ranked: Ranked) -> list[Score]:
    """The next that are other things, the likeliest first: a wrapper of the best is no rival."""
    rivals: list[Score] = []
    likely, told = ranked.likely.tolist(), set(ranked.same[ranked.best].nonzero()[0].tolist())
    for place in sorted(range(len(likely)), key=likely.__getitem__, reverse=True):
        if len(rivals) == CANDIDATES_MAX - 1:
            break
        if place not in told:
            together = {place, *ranked.same[place].nonzero()[0].tolist()} - told
            confidence = model.calibrated(fsum(likely[one] for one in together), ranked.rows[place])
            rivals.append(question.score(int(ranked.candidates[place]), confidence))
            told |= together
    return rivals


def is_identical(recorded: Element, element: Element) -> bool:
    """In all that names it. Where it is and what is around it may have changed."""
    return identity_of(recorded) == identity_of(element)


def accepted(made: Resolution, vetoed: tuple[str, ...] = (), beyond: str = "") -> Resolution:
    """Chosen when nothing speaks against it and both floors hold; otherwise why not."""
    best = made.best
    assert best is not None, "only a best candidate can be accepted"
    why = "; ".join(vetoed) or _below(best, made) or beyond
    if why:
        reason = _joined(made.reason, f"the likeliest is not taken: {why}")
        return msgspec.structs.replace(made, chosen=None, vetoes=vetoed, strategy="none", reason=reason)
    return msgspec.structs.replace(made, chosen=best, reason="")


def _below(best: Score, made: Resolution) -> str:
    if best.confidence < made.floors.confidence:
        return f"confidence {best.confidence:.2f} is under the floor {made.floors.confidence:.2f}"
    if made.margin < made.floors.margin:
        return f"it is ahead of the next by {made.margin:.2f}, under the margin {made.floors.margin:.2f}"
    return ""


def _joined(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)
