"""One attempt of one step in a page, and how it acts on its target: found, made ready, looked at once more, and only
then acted on."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from playwright.async_api import ElementHandle, Error

from recoup.errors import LeaseLost
from recoup.model.failure import FailureKind
from recoup.model.outcome import Artifact, Looking, Order, Rewritten
from recoup.model.plan import BrowserAction
from recoup.model.target import Element, Floors, HealMode, Resolution, Target, target_words
from recoup.ports import Lifeline
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.patience import Patience, Visit, patience
from recoup.runtimes.browser.pictures import Pictures
from recoup.runtimes.browser.seeking import Found, Seeker
from recoup.runtimes.browser.session import Session
from recoup.runtimes.browser.trouble import (
    Trouble,
    first_line,
    is_changed_page,
    is_lost,
    was_performed,
    why_not_ready,
)

LEASE_MARGIN_S: Final = 0.5
"""Nothing is done so shortly before the lease ends: it would be done when another driver may have begun."""
_EXACTLY: Final = Looking(floors=Floors(1, 0), heal=HealMode.OFF)


@dataclass
class Attempt:
    """What one attempt has come to so far."""

    order: Order
    action: BrowserAction
    session: Session
    seeker: Seeker
    pictures: Pictures
    limits: BrowserLimits
    lifeline: Lifeline
    boot_s: Callable[[], float]
    refuted: Callable[[], Awaitable[Sequence[str]]]
    """Why what was approved does not hold now, claim by claim."""
    began_s: float = field(default_factory=time.monotonic)
    visit: Visit = field(default_factory=Visit)
    """The attempts of this action on the document that is open, with this one."""
    is_second_look: bool = False
    """The attempt before has looked for the target in the same document, and did not find it or not ready."""
    waits: bool = False
    """Nothing is done but to wait until the target is ready."""
    trouble: Trouble | None = None
    """Why it has failed, from the moment on when that is known."""
    resolution: Resolution | None = None
    observed: Element | None = None
    took_s: float | None = None
    """How long it took until the target was there."""
    waited: bool = False
    rewritten: Rewritten | None = None
    outputs: dict[str, Any] = field(default_factory=dict)
    artifacts: list[Artifact] = field(default_factory=list)
    disproven: str = ""
    """What was approved did not hold any more when all was ready, in words."""
    acting: bool = False
    """The action itself has begun and has not come back: it may have been done."""
    acted: bool = False
    """It has come back: it was done."""

    async def find(self) -> Found:
        self.visit.began_waiting(time.monotonic())
        found = await self.seeker.find(self.target, self.looking, self.order.policy, self.patience())
        self.resolution, self.observed = found.resolution, found.element
        # One that was found before was there in time, and only could not be acted on.
        if not self.visit.was_there:
            self.took_s, self.waited = found.took_s, found.waited
        self.visit.was_there = True
        return found

    def patience(self) -> Patience:
        """How long the target is waited for, from when it was first looked for in this document."""
        since_s = self.visit.since_s
        return patience(
            self.order.policy,
            began_s=self.began_s,
            since_s=time.monotonic() if since_s is None else since_s,
            is_second_look=self.is_second_look,
            has_own_timeout=self.order.has_own_timeout,
        )

    @contextmanager
    def waiting(self, least_s: float) -> Iterator[float]:
        """While something about the target is waited for: so long, or as long as for the target itself."""
        self.waits = True
        self.visit.began_waiting(time.monotonic())
        try:
            yield self.patience().at_least_s(time.monotonic(), least_s)
        finally:
            self.waits = False

    @property
    def looking(self) -> Looking:
        return self.order.looking or _EXACTLY

    @property
    def target(self) -> Target:
        assert self.action.target is not None, f"{self.action.verb}: a target is needed"
        return self.action.target

    def must_hold_lease(self, doing: str) -> float:
        """How long the lease still lasts. A driver that was frozen must not click."""
        left_s = self.lifeline.deadline_boot_s - self.boot_s() - LEASE_MARGIN_S
        if left_s <= 0:
            raise LeaseLost(
                f"{doing} was not done: the lease of run {self.order.run_id} has run out",
                hint=f"Another driver may have it. Go on with: recoup resume {self.order.run_id}",
            )
        return left_s

    async def touch(self, act: Callable[[float], Awaitable[Any]], doing: str) -> None:
        """An action that leaves something in the document; noted before it is done, as it may load another one."""
        await self._must_be_as_approved(doing)
        touched_by, step_id = self.session.past.touched_by, self.order.step_id
        before = list(touched_by)
        if step_id not in touched_by:
            touched_by.append(step_id)
        try:
            await self.do(act, doing)
        except Trouble:
            if not self.acting:
                touched_by[:] = before
            raise

    async def _must_be_as_approved(self, doing: str) -> None:
        """The page may have changed while the target was waited for."""
        self.disproven = next(filter(None, await self.refuted()), "")
        if self.disproven:
            words = f"{doing} was not done: what was approved does not hold any more: {self.disproven}"
            raise Trouble(FailureKind.RUNTIME_DRIFT, words, resolution=self.resolution)

    async def do(self, act: Callable[[float], Awaitable[Any]], doing: str) -> Any:
        """The action itself, with the time it may take: no longer than the lease, so that the library cannot carry it
        out after the lease's end either."""
        left_s = self.must_hold_lease(doing)
        self.acting = True
        try:
            answer = await act(1000 * min(self.limits.act_s, left_s))
        except Trouble:
            self.acting = False  # our own word that it was not done
            raise
        except Error as error:
            raise self._trouble(error, doing) from error
        self.acting, self.acted = False, True
        return answer

    def _trouble(self, error: Error, doing: str) -> Exception:
        if is_lost(error):
            return error
        if is_changed_page(error) or not was_performed(error):
            self.acting = False
            words = f"{doing}: {why_not_ready(error)}"
            return Trouble(FailureKind.TARGET_BLOCKED, words, resolution=self.resolution)
        words = f"{doing}: begun, but it did not come to an end: {first_line(error)}"
        return Trouble(FailureKind.WATCHDOG, words, resolution=self.resolution)


async def acted_on(
    attempt: Attempt,
    ready: Callable[[ElementHandle, float], Awaitable[Any]],
    act: Callable[[ElementHandle, float], Awaitable[Any]],
) -> Found:
    """Resolve, get ready, look again, act: the page may change between any two of them."""
    doing = f"{attempt.action.verb} {target_words(attempt.target)}"
    for finds in itertools.count(1):
        if finds > attempt.limits.finds_max and time.monotonic() >= attempt.patience().until_s:
            break
        found = await attempt.find()
        try:
            await _show_heal(attempt, found)
            with attempt.waiting(attempt.limits.ready_s) as most_s:
                await ready(found.node, 1000 * most_s)
            if await attempt.seeker.still_means(found, attempt.target, attempt.looking):
                await attempt.touch(lambda ms, node=found.node: act(node, ms), doing)  # type: ignore[misc]
                return found
        except Error as error:
            if is_lost(error):
                raise
            if not is_changed_page(error):
                raise Trouble(
                    FailureKind.TARGET_BLOCKED,
                    f"{doing}: {why_not_ready(error)}",
                    resolution=found.resolution,
                ) from error
        except Trouble as trouble:
            if attempt.acting or not _was_replaced(trouble):
                raise
    words = f"{doing}: the page replaced it again and again before it could be acted on"
    raise Trouble(FailureKind.RUNTIME_DRIFT, words, resolution=attempt.resolution)


async def _show_heal(attempt: Attempt, found: Found) -> None:
    """Before it is acted on: afterwards the page may be another one. A picture that cannot be had in time is done
    without: it is for people, and proves nothing."""
    if found.resolution.healed and not attempt.artifacts:
        page = await attempt.session.current()
        with suppress(Error, TimeoutError):
            attempt.artifacts.append(await attempt.pictures.take(page, "chosen", resolution=found.resolution))


def _was_replaced(trouble: Trouble) -> bool:
    cause = trouble.__cause__
    return isinstance(cause, Error) and is_changed_page(cause)
