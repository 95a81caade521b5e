"""One action: performed as the test says; where its locator fails, on the recorded element, or not at all."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from playwright.async_api import Error, TimeoutError

from recoup.model.target import Element, element_words, identity_of, said_by
from recoup.pytest_plugin.actions import Action, perform_drag, perform_on
from recoup.pytest_plugin.colours import answered
from recoup.pytest_plugin.finding import POLICY, Candidate, Nothing, find
from recoup.pytest_plugin.looking import Seen, is_alive, is_one, is_still, is_there, only_one
from recoup.pytest_plugin.records import Before, Place, Record
from recoup.pytest_plugin.report import Heal, Outcome
from recoup.runtimes.browser.collector import is_same
from recoup.runtimes.browser.trouble import first_line, was_performed
from recoup.targets.exact import no_longer_like
from recoup.targets.wording import words_of

KNOWN_WAIT_MS: Final = 1_000
"""How long an element with a record may take to appear before it is looked at."""
NEW_WAIT_MS: Final = 2_000
"""The same of one that was never recorded: it is worth waiting for, and nothing can heal in the meantime."""
HEALED_MS: Final = 5_000
"""For the action on the healed element: that is there already, so the test's own time is not spent twice."""
HEALS_MAX: Final = 1_000
"""Of a session. So many are no changed page but a site that is another one."""
NOTHING_FOUND: Final = "it finds nothing"
_WORDS_MAX: Final = 200


@dataclass
class Found:
    """What is known of one action, and what comes of it."""

    place: Place
    record: Record | None
    seen: Seen | None = None
    learned: Record | None = None
    """To be kept if the test passes."""
    told: Heal | None = None

    @property
    def is_secret(self) -> bool:
        """What is typed there is nobody's business."""
        known = self.seen.element if self.seen else self.record.element if self.record else None
        return known is not None and known.type == "password"


class Healer:
    """Counts its heals; everything else is in the arguments."""

    def __init__(self, *, applies: bool, after_ms: float) -> None:
        self._applies = applies
        self._after_ms = after_ms
        self._healed = 0

    async def act(self, action: Action, found: Found) -> Any:
        __tracebackhide__ = True
        began_s = time.monotonic()
        described = await self._look(action, found)
        instead = await _surely_elsewhere(action, found)
        if instead is not None and self._may_apply:
            return await self._take(action, found, instead)
        try:
            result = await answered(action.perform())
        except TimeoutError as error:
            if found.record is None or not await self._finds_nothing(action, error, began_s):
                raise
            return await self._heal(action, found, error)
        if instead is not None:
            found.told = _told(action, "reported", _another(found), instead)
        else:
            found.learned = described
        return result

    @property
    def _may_apply(self) -> bool:
        return self._applies and self._healed < HEALS_MAX

    async def _look(self, action: Action, found: Found) -> Record | None:
        """What the locator finds before the action changes it: afterwards the page may be another one."""
        most_ms = NEW_WAIT_MS if found.record is None else min(KNOWN_WAIT_MS, self._after_ms)
        own_ms = action.timeout_ms
        try:
            found.seen = await only_one(action.locator, min(most_ms, own_ms) if own_ms else most_ms)
            return await _described(found) if found.seen else None
        except Error:  # the page went on, or was closed: the action itself will tell
            return None

    async def _finds_nothing(self, action: Action, error: TimeoutError, began_s: float) -> bool:
        """Now, and all the time before: an element that was there and could not be acted on is no reason to take
        another, and an action that was begun must not be done twice."""
        if was_performed(error) or "locator resolved to" in str(error):
            return False
        if action.locator.page.is_closed():
            return False
        left_ms = self._after_ms - 1000 * (time.monotonic() - began_s)
        return not await is_there(action.locator, max(1.0, left_ms))

    async def _heal(self, action: Action, found: Found, error: TimeoutError) -> Any:
        """The locator finds nothing: take what was recorded, or fail as before; what is told says more."""
        __tracebackhide__ = True
        assert found.record is not None, "only what was recorded heals"
        candidate = await _sought(action, found.record)
        action = replace(action, words=_shown(error) or action.words)
        if isinstance(candidate, Candidate) and self._may_apply:
            with suppress(Error):
                return await self._take(action, found, candidate)
        else:
            outcome: Outcome = "abstained" if isinstance(candidate, Nothing) else "reported"
            found.told = _told(action, outcome, NOTHING_FOUND, candidate)
        raise error

    async def _take(self, action: Action, found: Found, candidate: Candidate) -> Any:
        """A heal. It is unverified until the test passes, and only then learned."""
        __tracebackhide__ = True
        assert found.record is not None, "only what was recorded heals"
        self._healed += 1
        known = identity_of(found.record.element) == identity_of(candidate.element)
        learns = known or candidate.confidence >= POLICY.learn_confidence_min
        why = _another(found) or NOTHING_FOUND
        told = _told(action, "healed", why, candidate)
        try:
            result = await _performed(action, candidate)
        except Error as error:
            reason = f"{told.taken} was tried in its place: {first_line(error)}"
            found.told = msgspec.structs.replace(told, outcome="abstained", reason=reason)
            raise
        found.told = msgspec.structs.replace(told, learned=learns)
        found.learned = _healed_record(found.record, candidate) if learns and not known else found.record
        return result


async def _described(found: Found) -> Record | None:
    assert found.seen is not None, "only what was seen is described"
    known = found.record
    if known is not None and known.healed is None and is_same(known.element, found.seen.element):
        return known
    full = await found.seen.described()
    return Record(place=found.place, element=full[0], frame=full[1]) if full else None


def _another(found: Found) -> str:
    """Why what the locator finds is not the recorded element; "" where it is, or where nothing can be said."""
    if found.record is None or found.seen is None:
        return ""
    trusted = "internal:testid=" in found.place.locator
    recorded, element = found.record.element, found.seen.element
    against = no_longer_like(recorded, element, trusted=trusted)
    if not against and not trusted and _says_something_else(recorded, element):
        against = f"it says {said_by(element)[:60]!r}, not {said_by(recorded)[:60]!r}"
    return f"what it finds no longer looks like the recorded element: {against}" if against else ""


def _says_something_else(recorded: Element, element: Element) -> bool:
    """Each has a word that the other has not: `Pay order`, `Delete order`."""
    mine, its = set(words_of(said_by(recorded))), set(words_of(said_by(element)))
    return bool(mine - its and its - mine)


async def _surely_elsewhere(action: Action, found: Found) -> Candidate | None:
    """The recorded element, where the locator finds another one. The locator is the test's own word: only what would
    also be learned takes precedence over it."""
    if not _another(found) or found.record is None or found.seen is None:
        return None
    candidate = await _sought(action, found.record)
    if isinstance(candidate, Nothing) or candidate.confidence < POLICY.learn_confidence_min:
        return None
    try:
        same = await found.seen.is_node(candidate.node)
    except Error:  # of different frames
        return None
    return None if same else candidate


async def _sought(action: Action, record: Record) -> Candidate | Nothing:
    page = action.locator.page
    if not await is_alive(page):
        return Nothing("the page does not answer")
    try:
        return await find(page, record)
    except Error as error:
        return Nothing(f"the page changed while it was looked at: {first_line(error)}")


def _shown(error: TimeoutError) -> str:
    """The locator as the test spells it: Playwright says so in its log."""
    _, found, rest = str(error).partition("waiting for ")
    return rest.partition("\n")[0].strip() if found else ""


async def _performed(action: Action, candidate: Candidate) -> Any:
    __tracebackhide__ = True
    if not await is_still(candidate.node, candidate.element):
        raise Error("it changed before it could be acted on")
    own_ms = action.timeout_ms
    timeout_ms = min(own_ms, HEALED_MS) if own_ms else HEALED_MS
    if action.name == "drag_to":
        return await _dragged(action, candidate, timeout_ms)
    return await perform_on(candidate.node, action, timeout_ms)


async def _dragged(action: Action, candidate: Candidate, timeout_ms: float) -> Any:
    """Only locators can be dragged: one that leads to this element and no other."""
    frame = await answered(candidate.node.owner_frame())
    if frame is None or "shadow/" in candidate.element.xpath:
        raise Error("it is where nothing can be dragged from")
    source = frame.locator(f"xpath={candidate.element.xpath}")
    if not await is_one(source, candidate.node, timeout_ms):
        raise Error("it changed before it could be acted on")
    return await perform_drag(source, action, timeout_ms)


def _healed_record(old: Record, candidate: Candidate) -> Record:
    """The old description is kept beside the new one."""
    before = Before(confidence=round(candidate.confidence, 2), element=old.element)
    return Record(place=old.place, element=candidate.element, frame=old.frame, healed=before)


def _told(action: Action, outcome: Outcome, why: str, what: Candidate | Nothing) -> Heal:
    """Where it was is added by whoever knows the test."""
    told = Heal(
        outcome=outcome,
        file="",
        line=0,
        test="",
        action=action.name,
        locator=action.words[:_WORDS_MAX],
        why=why,
    )
    if isinstance(what, Nothing):
        return msgspec.structs.replace(told, reason=what.reason)
    return msgspec.structs.replace(
        told,
        taken=element_words(what.element),
        confidence=round(what.confidence, 4),
        margin=round(what.margin, 4),
    )
