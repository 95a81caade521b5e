"""Which element of a page a target means, or why none is taken.

To the letter first. Only where that fails, or what it finds contradicts the record, is the recorded description
looked for: the profile says what is considered, the model how likely each is, the floors what is accepted, and vetoes
have the last word.
"""

from __future__ import annotations

from collections.abc import Collection
from time import perf_counter
from typing import Final

import msgspec

from recoup.errors import UsageError
from recoup.model.target import ALIAS, EXACT, SEMANTIC, Element, Floors, Profile, Resolution, Target, plain
from recoup.targets.exact import Found, find, is_short, no_longer_like
from recoup.targets.healing import (
    Learned,
    Question,
    accepted,
    forbidden,
    from_lessons,
    from_memory,
    healed,
    same_as,
)
from recoup.targets.meaning import meant
from recoup.targets.page import Page
from recoup.targets.profiles import kind_of, problem_with, role_aliases
from recoup.targets.vetoes import has_identity
from recoup.targets.weights import Model, Unusable, shipped

EXACT_CONFIDENCE: Final = 1.0
ALIAS_CONFIDENCE: Final = 0.9
"""Of the only element with the same name and a role that does the same, or with words that mean the same: above every
floor, below certainty."""
SEMANTIC_CONFIDENCE: Final = 0.85
"""Of the only element that says the same in other words: above the floors, and below what is learned from. Nobody has
measured how often such words mislead."""

SECONDED_MIN: Final = 0.4
"""Of what is found by its meaning too: what is less likely speaks against it."""


def resolve(
    target: Target,
    page: Page,
    profile: Profile,
    floors: Floors,
    *,
    css_matches: Collection[int] | None = None,
    compared: Page | None = None,
    model: Model | Unusable | None = None,
    learned: Learned | None = None,
) -> Resolution:
    """The element that the target means, or none and why.

    `css_matches` are the elements that the browser selects with the target's CSS. `compared` is the page as records
    would show it, where that differs: recorded elements are compared with it.
    """
    began = perf_counter()
    problem = problem_with(profile) or _problem_with(floors)
    if problem:
        raise UsageError(
            f"the target cannot be looked for: {problem}", hint="correct the profile or the policy's floors"
        )
    compared = page if compared is None else compared
    question = Question(target, page, compared, profile, floors, css_matches, learned or Learned())
    made = _resolved(question, shipped() if model is None else model)
    return msgspec.structs.replace(made, duration_ms=1e3 * (perf_counter() - began))


def _problem_with(floors: Floors) -> str:
    if not 0.0 < floors.confidence <= 1.0:
        return f"the confidence floor {floors.confidence:g} is not above 0 and at most 1"
    return "" if 0.0 <= floors.margin <= 1.0 else f"the margin {floors.margin:g} is not between 0 and 1"


def _resolved(question: Question, model: Model | Unusable) -> Resolution:
    target, page = question.target, question.page
    if not len(page):
        return question.answer(None, reason="the page has no elements")
    found = find(target, page, question.css_matches) if is_short(target) else Found(())
    against = ""
    if len(found.indices) == 1:
        against = _against(target, question.compared.elements[found.indices[0]])
        if not against:
            return _exactly(question, found.indices[0])
    known = from_memory(question) if len(found.indices) <= 1 else None
    if known is not None:
        return known
    if target.recorded is None:
        return _unrecorded(question, found)
    if isinstance(model, Unusable):
        return _without_model(question, found, against, model)
    several = found.indices if len(found.indices) > 1 else ()
    made = healed(question, model, _why_not_exact(found, against), several)
    if made.chosen is not None or several:
        return made
    taught = from_lessons(question, model)
    return taught or (made if found.indices else _with_meaning(question, made))


def _against(target: Target, element: Element) -> str:
    if target.recorded is None:
        return ""
    return no_longer_like(target.recorded, element, trusted=target.test_id is not None)


def _why_not_exact(found: Found, against: str) -> str:
    return f"what fits no longer looks like the recorded element: {against}" if against else found.reason


def _exactly(question: Question, index: int, reason: str = "") -> Resolution:
    score = question.score(index, EXACT_CONFIDENCE)
    return question.answer(score, strategy=EXACT, margin=1.0, considered=1, reason=reason)


def _unrecorded(question: Question, found: Found) -> Resolution:
    """Without a record, the words are all there is to go by: the same under a role that does the same, or others that
    mean the same."""
    if len(found.indices) > 1:
        return _tied(question, found)
    if found.indices or not question.profile.expands_roles:
        return question.answer(None, reason=found.reason, considered=len(found.indices))
    made = _by_alias(question, found)
    return made if made.considered else _by_meaning(question, made)


def _by_meaning(question: Question, without: Resolution) -> Resolution:
    """One alone says it in other words, or elsewhere: among several nobody could tell."""
    alike = meant(question.target, question.page, question.css_matches)
    if not alike:
        return without
    if len(alike) > 1:
        why = f"{without.reason}; {len(alike)} say the same in other words"
        return _tied(question, Found(tuple(alike), why))
    score = question.score(alike[0], SEMANTIC_CONFIDENCE)
    made = question.answer(score, strategy=SEMANTIC, margin=SEMANTIC_CONFIDENCE, considered=1)
    return accepted(made, forbidden(question, score.element))


def _with_meaning(question: Question, made: Resolution) -> Resolution:
    """The likeliest is not sure enough by itself, but it alone says in other words what was written."""
    best = made.best
    if best is None or made.vetoes or best.confidence < SECONDED_MIN or not question.profile.expands_roles:
        return made
    if meant(question.target, question.page, question.css_matches) != [best.index]:
        return made
    sure = max(best.confidence, SEMANTIC_CONFIDENCE)
    margin = sure - (made.runner_up.confidence if made.runner_up else 0.0)
    score = question.score(best.index, sure)
    return accepted(
        msgspec.structs.replace(made, best=score, margin=max(0.0, margin), strategy=SEMANTIC, reason="")
    )


def _by_alias(question: Question, found: Found) -> Resolution:
    target, page = question.target, question.page
    name = target.name or target.text or target.label
    if not target.role or not name:
        return question.answer(None, reason=found.reason)
    roles = role_aliases(plain(target.role))
    loose = msgspec.structs.replace(target, role=None)
    fitting = find(loose, page, question.css_matches).indices
    alike = [index for index in fitting if kind_of(page.elements[index]) in roles]
    used = tuple(sorted({kind_of(page.elements[index]) for index in alike}))
    if not alike:
        return question.answer(None, reason=found.reason)
    if len(alike) > 1:
        why = f"{found.reason}; {len(alike)} have the name {plain(name)!r} and a role that does the same"
        return question.answer(None, reason=why, considered=len(alike), role_aliases_used=used)
    score = question.score(alike[0], ALIAS_CONFIDENCE)
    made = question.answer(
        score, strategy=ALIAS, margin=ALIAS_CONFIDENCE, considered=1, role_aliases_used=used
    )
    return accepted(made, forbidden(question, page.elements[alike[0]]))


def _tied(question: Question, found: Found) -> Resolution:
    """Each as likely as the others: none is taken, and people see which they are."""
    first, second = (question.score(index, 1 / len(found.indices)) for index in found.indices[:2])
    return question.answer(
        None, best=first, runner_up=second, reason=found.reason, considered=len(found.indices)
    )


def _without_model(question: Question, found: Found, against: str, model: Unusable) -> Resolution:
    recorded, page = question.target.recorded, question.compared
    assert recorded is not None, "only recorded targets are asked of the model"
    warning = f"{model.why}; nothing is healed"
    same = [] if is_short(question.target) else _identical(recorded, page)
    if len(same) == 1:
        return _exactly(question, same[0], warning)
    why = _why_not_exact(found, against) or "no single element is as it was recorded"
    return question.answer(None, reason=f"{why}; {warning}")


def _identical(recorded: Element, page: Page) -> list[int]:
    if not has_identity(recorded):
        return []
    return same_as(recorded, page)
