"""Whether what was true of a page still is: all claims in one look, however many they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from playwright.async_api import Error, Frame, Page

from recoup.kernel.canonical import digest
from recoup.model.outcome import Looking, PageClaim, PageSight
from recoup.model.target import Element, Floors, HealMode, Target
from recoup.runtimes.browser.checks import HOW_FIELDS_ARE_READ, page_texts
from recoup.runtimes.browser.collector import Collection, collect
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.matching import Resolver
from recoup.runtimes.browser.reading import how_read, output_name
from recoup.runtimes.browser.seeking import compared_with, frame_of
from recoup.runtimes.browser.session import Session
from recoup.runtimes.browser.trouble import NO_ANSWER, Trouble, first_line, is_changed_page

_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 0.5
_EXACTLY: Final = Looking(floors=Floors(1, 0), heal=HealMode.OFF)
_NOT_ASKED: Final = "it cannot be asked again"
_GONE: Final = "cannot be read any more"
_OTHERWISE: Final = "says something else now"
_ON_ITS_WAY: Final = "the page is on its way to another one"


@dataclass(frozen=True)
class _Glance:
    """One frame as it was looked at, and what each selector fits there."""

    collection: Collection
    css: Mapping[str, tuple[int, ...]]

    def matches(self, target: Target) -> tuple[int, ...] | None:
        return self.css[target.css] if target.css else None


_Asked = tuple[str | None, int, Mapping[str, Any]]
"""A frame, a place in the look at it, and how it is read."""


class Claims:
    """Looks at the current page of one session. The number of round trips does not depend on the number of claims."""

    def __init__(self, session: Session, resolver: Resolver, limits: BrowserLimits) -> None:
        self._session = session
        self._resolver = resolver
        self._limits = limits

    async def refuted(self, claims: Sequence[PageClaim], wait_s: float) -> Sequence[str]:
        """Why each does not hold, when all hold or the time is over."""
        end_s, pause_s = time.monotonic() + wait_s, _PAUSE_S
        while True:
            found = await self._looked(claims)
            if not any(found) or not self._session.usable or time.monotonic() + pause_s >= end_s:
                return found
            await asyncio.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, 1.5 * pause_s)

    async def _looked(self, claims: Sequence[PageClaim]) -> Sequence[str]:
        if not claims:
            return ()
        page = await self._session.current()
        try:
            async with asyncio.timeout(self._limits.settle_s):
                return await self._look(page, claims)
        except TimeoutError:
            is_navigating = self._session.traffic.is_navigating(page)
            self._session.useless |= not is_navigating
            words = _ON_ITS_WAY if is_navigating else NO_ANSWER
        except Trouble as trouble:
            words = trouble.detail
        except Error as error:
            words = (
                _ON_ITS_WAY
                if is_changed_page(error)
                else f"the page cannot be looked at: {first_line(error)}"
            )
        return [words] * len(claims)

    async def _look(self, page: Page, claims: Sequence[PageClaim]) -> Sequence[str]:
        targets = [target for claim in claims if (target := _target(claim)) is not None]
        names = list(dict.fromkeys(target.frame for target in targets))
        glances = dict(
            zip(
                names,
                await asyncio.gather(*[self._glance(page, name, targets) for name in names]),
                strict=True,
            )
        )
        places = [self._places(claim, glances) for claim in claims]
        asked = [_asked(claim, found) for claim, found in zip(claims, places, strict=True)]
        questions = [claim.question for claim in claims if claim.question is not None]
        told, texts, title = await asyncio.gather(
            _told(asked, glances),
            page_texts(page, self._limits) if any(one.texts for one in questions) else _none(),
            page.title() if any(one.title for one in questions) else _none(),
        )
        return [
            _why_not_read(claim, one)
            if claim.read is not None
            else _why_not_held(
                claim,
                PageSight(
                    url=page.url,
                    title=title or "",
                    texts=texts or (),
                    elements=_elements(claim, found, glances),
                    field=one,
                ),
            )
            for claim, found, one in zip(claims, places, told, strict=True)
        ]

    async def _glance(self, page: Page, name: str | None, targets: Iterable[Target]) -> _Glance | None:
        frame, offset = await frame_of(page, name)
        if frame is None:
            return None
        return await _glance(frame, offset, [one.css for one in targets if one.frame == name and one.css])

    def _places(self, claim: PageClaim, glances: Mapping[str | None, _Glance | None]) -> Sequence[int]:
        target = _target(claim)
        glance = glances[target.frame] if target is not None else None
        if target is None or glance is None:
            return ()
        elements, css_matches = glance.collection.elements, glance.matches(target)
        if claim.read is None:
            return self._resolver.matches(target, elements, css_matches)
        looking = claim.looking or _EXACTLY
        chosen = self._resolver.resolve(compared_with(target, looking), elements, looking, css_matches).chosen
        return () if chosen is None else (chosen.index,)


async def _none() -> None:
    """Nothing is asked of the page."""


async def _glance(frame: Frame, offset: Any, selectors: Sequence[str]) -> _Glance:
    different = list(dict.fromkeys(selectors))
    collection = await collect(frame, ", ".join(different) or None, offset)
    found = await collection.matches_each(different) if different else []
    return _Glance(collection, dict(zip(different, found, strict=True)))


def _target(claim: PageClaim) -> Target | None:
    if claim.read is not None:
        return claim.read.target
    return None if claim.question is None else claim.question.target


def _elements(
    claim: PageClaim, places: Sequence[int], glances: Mapping[str | None, _Glance | None]
) -> list[Element]:
    target = _target(claim)
    glance = glances[target.frame] if target is not None else None
    return [glance.collection.elements[place] for place in places] if glance is not None else []


def _asked(claim: PageClaim, places: Sequence[int]) -> _Asked | None:
    """What the one element is asked for, if the claim is about its words or what it holds."""
    target = _target(claim)
    if target is None or len(places) != 1 or (claim.question is not None and not claim.question.field):
        return None
    how = how_read(claim.read) if claim.read is not None else HOW_FIELDS_ARE_READ
    return target.frame, places[0], how


async def _told(
    asked: Sequence[_Asked | None], glances: Mapping[str | None, _Glance | None]
) -> list[dict[str, Any] | None]:
    """The answers of all elements, asked together."""
    answers: list[dict[str, Any] | None] = [None] * len(asked)
    for frame, glance in glances.items():
        mine = [(at, one) for at, one in enumerate(asked) if one is not None and one[0] == frame]
        if glance is None or not mine:
            continue
        told = await glance.collection.read([(place, how) for _, (_, place, how) in mine])
        for (at, _), answer in zip(mine, told, strict=True):
            answers[at] = answer
    return answers


def _why_not_read(claim: PageClaim, told: Mapping[str, Any] | None) -> str:
    assert claim.read is not None
    if told is None or "missing" in told:
        return "" if claim.may_be_gone else _GONE
    return "" if digest({output_name(claim.read): told["said"]}) == claim.said else _OTHERWISE


def _why_not_held(claim: PageClaim, sight: PageSight) -> str:
    if claim.question is None:
        return _NOT_ASKED
    held, words = claim.question.answer(sight)
    return "" if held else words
