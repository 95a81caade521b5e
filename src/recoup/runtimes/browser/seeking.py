"""Find the element that a target means: wait for it first, and only on a page at rest take something else for it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import msgspec
from playwright.async_api import ElementHandle, Error, Frame, Page

from recoup.model.failure import FailureKind
from recoup.model.outcome import Looking
from recoup.model.policy import Policy
from recoup.model.target import Box, Element, HealMode, Resolution, Target, element_words, target_words
from recoup.runtimes.browser.collector import Collection, collect, is_same
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.matching import Resolver
from recoup.runtimes.browser.patience import Patience
from recoup.runtimes.browser.session import Session
from recoup.runtimes.browser.settling import settle
from recoup.runtimes.browser.trouble import NO_ANSWER, Trouble, first_line, is_changed_page

_LIKELY = 0.5
"""From here on the best candidate is not missing, but not certain."""
_NEAR = 0.1
"""From here on it is worth a word."""
_IS_NODE = "(node, other) => node === other"


@dataclass
class Look:
    """One look at the page."""

    collection: Collection
    css_matches: tuple[int, ...] | None


@dataclass
class Found:
    """The element that was chosen, as a node that can be acted on."""

    node: ElementHandle
    element: Element
    resolution: Resolution
    took_s: float = 0.0
    """Since it was first looked for."""
    waited: bool = False
    """It came only because it was waited for longer than others are."""


class Certainty:
    """What is wrong with a target in every look at a page at rest; None as soon as one look says otherwise."""

    def __init__(self) -> None:
        self.kind: FailureKind | None = None
        self._is_first = True

    def add(self, kind: FailureKind | None) -> None:
        self.kind = kind if self._is_first or kind is self.kind else None
        self._is_first = False


class Seeker:
    """Looks for targets in the current page of one session."""

    def __init__(self, session: Session, resolver: Resolver, limits: BrowserLimits) -> None:
        self._session = session
        self._resolver = resolver
        self._limits = limits
        self.last: Collection | None = None
        """What the page showed when it was last looked at."""
        self._look: Look | None = None
        self.missing: Trouble | None = None
        """While a target is looked for: what is to be told if its time ends now."""

    async def find(
        self, target: Target, looking: Looking, policy: Policy, patience: Patience | None = None
    ) -> Found:
        """The element, or Trouble: not there, or none that is certain enough."""
        patience = patience or Patience(since_s=time.monotonic(), rest_s=policy.page_target_s)
        target = compared_with(target, looking)
        settled_s, waited, certain = None, patience.is_second_look, Certainty()
        self.missing = not_found(target, None, looking, patience)
        while True:
            page = await self._session.current()
            now_s = time.monotonic()
            rested_s = now_s - settled_s if settled_s is not None else -1
            is_due = now_s - patience.since_s >= looking.wait_s
            rested = rested_s >= policy.page_heal_s
            resolution, found = await self._try(page, target, looking, rested and is_due)
            if found is not None:
                self.missing = None
                found.took_s = time.monotonic() - patience.since_s
                found.waited = waited and not found.resolution.healed
                return found
            self.missing = not_found(target, resolution, looking, patience)
            if settled_s is not None:
                certain.add(self._mistake(target, resolution, looking))
            given_up = rested_s >= patience.rest_s
            is_over = given_up and is_due and not self._is_awaited(target, looking, patience, now_s)
            if is_over or now_s >= patience.end_s:
                trouble, self.missing = self.missing, None
                if certain.kind is FailureKind.TARGET_AMBIGUOUS and is_over:
                    trouble.kind = certain.kind
                if certain.kind is FailureKind.HEAL_REFUSED and patience.is_used_up(now_s):
                    trouble.kind = certain.kind  # what is written may still come, and had all its time
                raise trouble
            waited |= given_up or (rested and _would_be_taken(resolution, looking))
            if settled_s is None:
                most_s = min(self._limits.settle_s, patience.end_s - now_s)
                await settle(page, self._session.traffic, policy, most_s)
                settled_s = time.monotonic()
            else:
                await asyncio.sleep(self._limits.look_s)

    async def still_means(self, found: Found, target: Target, looking: Looking) -> bool:
        """Whether the target is still this element, and the element as it was: a page that sorts its rows may use the
        same nodes for other rows. Asked right before it is acted on."""
        target = compared_with(target, looking)
        look = await self.look(await self._session.current(), target)
        if look is None:
            return False
        elements = look.collection.elements
        chosen = self._resolver.resolve(target, elements, looking, look.css_matches).chosen
        if chosen is None or not is_same(chosen.element, found.element):
            return False
        node = await look.collection.node(chosen.index)
        return node is not None and bool(await found.node.evaluate(_IS_NODE, node))

    def _is_awaited(self, target: Target, looking: Looking, patience: Patience, now_s: float) -> bool:
        """There is time left, and waiting is what may help: nothing on the page is what is written, and no later
        attempt would take something else that is there."""
        if now_s >= patience.until_s or self._look is None:
            return now_s < patience.until_s
        elements, css_matches = self._look.collection.elements, self._look.css_matches
        if self._resolver.matches(target, elements, css_matches):
            return False
        looser = msgspec.structs.replace(looking, level=looking.level_max)
        if looser.level <= looking.level:
            return True
        return not _would_be_taken(self._resolver.resolve(target, elements, looser, css_matches), looser)

    def _mistake(self, target: Target, resolution: Resolution | None, looking: Looking) -> FailureKind | None:
        """Of the plan, as far as this look tells: no later attempt would take one of these elements."""
        if resolution is None or self._look is None:
            return None
        if resolution.healed and looking.heal is HealMode.OFF:
            return FailureKind.HEAL_REFUSED
        elements, css_matches = self._look.collection.elements, self._look.css_matches
        if resolution.chosen or len(self._resolver.matches(target, elements, css_matches)) < 2:
            return None
        looser = msgspec.structs.replace(looking, level=looking.level_max)
        if looser.level > looking.level and _would_be_taken(
            self._resolver.resolve(target, elements, looser, css_matches), looser
        ):
            return None
        return FailureKind.TARGET_AMBIGUOUS

    async def matches(self, page: Page, target: Target) -> list[Element]:
        """All that are exactly as the target is written."""
        look = await self.look(page, target)
        if look is None:
            return []
        places = self._resolver.matches(target, look.collection.elements, look.css_matches)
        return [look.collection.elements[place] for place in places]

    async def exactly(self, page: Page, target: Target) -> tuple[list[Element], ElementHandle | None]:
        """The same, with the node of the only one there is."""
        look = await self.look(page, target)
        if look is None:
            return [], None
        places = self._resolver.matches(target, look.collection.elements, look.css_matches)
        found = [look.collection.elements[place] for place in places]
        return found, await look.collection.node(places[0]) if len(places) == 1 else None

    async def look(self, page: Page, target: Target | None = None) -> Look | None:
        """None: the page is on its way to another one, or the target's frame is not there."""
        css = target.css if target else None
        try:
            async with asyncio.timeout(self._limits.settle_s):
                frame, offset = await frame_of(page, target.frame if target else None)
                if frame is None:
                    return None
                collection = await collect(frame, css, offset)
                matches = await collection.matches(css) if css else None
        except TimeoutError:
            if self._session.traffic.is_navigating(page):
                return None
            self._session.useless = True
            raise Trouble(FailureKind.WATCHDOG, NO_ANSWER) from None
        except Error as error:
            if "is not a valid selector" in str(error):
                raise Trouble(FailureKind.INVALID_INPUT, f"css {css!r} is not a valid selector") from None
            if is_changed_page(error) and not page.is_closed():
                return None
            raise
        self.last = collection
        return Look(collection, matches)

    async def _try(
        self, page: Page, target: Target, looking: Looking, may_heal: bool
    ) -> tuple[Resolution | None, Found | None]:
        look = self._look = await self.look(page, target)
        if look is None:
            return None, None
        seen = look.collection
        resolution = self._resolver.resolve(target, seen.elements, looking, look.css_matches)
        if resolution.chosen is None or (resolution.healed and (refusal(looking) or not may_heal)):
            return resolution, None
        try:
            node = await seen.node(resolution.chosen.index)
        except Error as error:
            if is_changed_page(error) and not page.is_closed():
                return resolution, None
            raise
        return resolution, Found(node, resolution.chosen.element, resolution) if node else None


async def frame_of(page: Page, wanted: str | None) -> tuple[Frame | None, Box | None]:
    """A frame by its name, or by the selector of the element that holds it."""
    if wanted is None:
        return page.main_frame, None
    frame = page.frame(name=wanted) or await _frame_by_css(page, wanted)
    if frame is None or frame == page.main_frame:
        return None, None
    box = await (await frame.frame_element()).bounding_box()
    return frame, Box(box["x"], box["y"], box["width"], box["height"]) if box else None


async def _frame_by_css(page: Page, css: str) -> Frame | None:
    try:
        holder = await page.query_selector(css)
    except Error as error:
        if is_changed_page(error):
            return None
        raise Trouble(FailureKind.INVALID_INPUT, f"frame {css!r}: {first_line(error)}") from None
    return await holder.content_frame() if holder else None


def compared_with(target: Target, looking: Looking) -> Target:
    """With the full description, if there is one from an earlier run."""
    if target.recorded is not None or looking.observed is None:
        return target
    return msgspec.structs.replace(target, recorded=looking.observed)


def _would_be_taken(resolution: Resolution | None, looking: Looking) -> bool:
    return resolution is not None and resolution.healed and not refusal(looking)


def refusal(looking: Looking) -> str:
    """Why something that was found otherwise than as it was written is not taken; "" if it may be."""
    if looking.heal is HealMode.OFF:
        return "healing is off"
    if looking.needs_proof:
        return "nothing that the step expects would prove the heal"
    return looking.limit or "heals are only reported" if looking.heal is HealMode.REPORT else ""


def not_found(target: Target, resolution: Resolution | None, looking: Looking, patience: Patience) -> Trouble:
    """Why nothing was taken: what was looked for, for how long, and what is nearest."""
    words, waited = target_words(target), _waited(patience)
    if resolution is None:
        detail = f"{words}: the page, or its frame, did not become ready{waited}"
        return Trouble(FailureKind.TARGET_NOT_FOUND, detail)
    if resolution.chosen is not None and resolution.healed:
        return _refused_heal(words, resolution, refusal(looking) or "the page did not come to rest", waited)
    best = resolution.best
    uncertain = best is not None and (best.confidence >= _LIKELY or _is_tie(resolution))
    kind = FailureKind.LOW_CONFIDENCE if uncertain else FailureKind.TARGET_NOT_FOUND
    detail = f"{words}: {resolution.reason or 'not found'}{waited}{_nearest(resolution)}"
    return Trouble(kind, detail, resolution=resolution)


def _waited(patience: Patience) -> str:
    """How long. A second look at the same page is told in other words than the first, so that the two do not count as
    equal failures: what follows is a page that is loaded again."""
    waited_s = max(0.0, time.monotonic() - patience.since_s)
    return f" (waited {waited_s:.0f} s{' in all on the same page' if patience.is_second_look else ''})"


def _nearest(resolution: Resolution) -> str:
    best = resolution.best
    if best is None or best.confidence < _NEAR or _is_tie(resolution):
        return ""
    return f"; nearest: {element_words(best.element)} ({best.confidence:.0%} sure)"


def _refused_heal(words: str, resolution: Resolution, why: str, waited: str) -> Trouble:
    assert resolution.chosen is not None
    taken = resolution.chosen.element
    instead = f"{element_words(taken)} would have been taken instead"
    refused = msgspec.structs.replace(resolution, chosen=None, strategy="none", reason=why)
    detail = f"{words}: not found as written{waited}; {instead}, but {why}"
    return Trouble(FailureKind.LOW_CONFIDENCE, detail, resolution=refused)


def _is_tie(resolution: Resolution) -> bool:
    best, next_one = resolution.best, resolution.runner_up
    return best is not None and next_one is not None and 0 < best.confidence == next_one.confidence
