"""`browser:` steps: one action in the run's own browser, and the pages of runs for whoever looks at them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec
from playwright.async_api import Error, Page

from recoup.errors import KeeperError, SettingsError
from recoup.model.failure import FailureKind
from recoup.model.memory import Screen
from recoup.model.outcome import Artifact, Order, Outcome, PageClaim, PageQuestion, Restored, Scene, Seen
from recoup.model.plan import BrowserAction, BrowserVerb
from recoup.model.policy import Policy
from recoup.model.target import Element, Fingerprint, target_words
from recoup.ports import Hooks, Lifeline
from recoup.runtimes.browser import kept_pages
from recoup.runtimes.browser.acting import Attempt
from recoup.runtimes.browser.checks import PageChecks, picture_of, region_key
from recoup.runtimes.browser.claims import Claims
from recoup.runtimes.browser.driver import PlaywrightDriver
from recoup.runtimes.browser.finding import needed_browser
from recoup.runtimes.browser.fingerprints import fingerprint
from recoup.runtimes.browser.going import load
from recoup.runtimes.browser.guarding import MakeGuard
from recoup.runtimes.browser.kept_pages import KeptPage
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.matching import Resolver, Sketch
from recoup.runtimes.browser.patience import Visit
from recoup.runtimes.browser.pictures import Pictures
from recoup.runtimes.browser.seeking import Seeker, compared_with
from recoup.runtimes.browser.session import Past, Session, launch
from recoup.runtimes.browser.settling import settle
from recoup.runtimes.browser.traces import Trace
from recoup.runtimes.browser.trouble import (
    NO_ANSWER,
    Trouble,
    first_line,
    not_started,
    of_error,
    of_status,
)
from recoup.runtimes.browser.verbs import LEAVES_ALONE, perform
from recoup.runtimes.browser.waiting import WaitingBrowsers
from recoup.runtimes.late_browser import NO_PAGE
from recoup.runtimes.step_log import StepLog

_REPEATABLE: Final = LEAVES_ALONE | {BrowserVerb.GOTO, BrowserVerb.TAB, BrowserVerb.HOVER}
"""Verbs of which it does no harm not to know whether they were done."""
_IDLE_LOOK_S: Final = 0.25
_TROUBLE_OF_SERVER: Final = frozenset({429, *range(500, 600)})
_OF_A_FAILURE: Final = ("failure.jpg", "elements.json", "trace.zip")


class BrowserRuntime:
    """One browser for each run, as long as its driver lives: opened by its first step, closed by `leave`."""

    inline = False

    def __init__(
        self,
        make_guard: MakeGuard,
        resolver_of: Callable[[str], Resolver],
        open_log: Callable[[Order], StepLog],
        environ: Mapping[str, str],
        *,
        limits: BrowserLimits | None = None,
        sketch: Sketch | None = None,
        boot_s: Callable[[], float] | None = None,
        traces: bool = False,
        hide_of: Callable[[str], Callable[[str], str]] = lambda _run_id: lambda text: text,
    ) -> None:
        """`hide_of`: by run, how a text is shown in records of it."""
        self._make_guard = make_guard
        self._resolver_of = resolver_of
        self._hide_of = hide_of
        self._resolvers: dict[str, Resolver] = {}
        self._open_log = open_log
        self._environ = environ
        self._limits = limits or BrowserLimits()
        self._sketch = sketch
        self._boot_s = boot_s or _boot_s
        self._traces = traces
        self._driver = PlaywrightDriver(self._limits)
        self._sessions: dict[str, Session] = {}
        self._pasts: dict[str, Past] = {}
        """Of runs that are driven here: what a new browser needs."""
        self._waiting = WaitingBrowsers(self.leave)

    # One attempt

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        assert isinstance(order.action, BrowserAction), "the browser performs browser steps only"
        began_s = time.monotonic()
        with self._open_log(order) as log:
            outcome = await self._performed(order, order.action, hooks)
            outcome = msgspec.structs.replace(outcome, duration_ms=round(1000 * (time.monotonic() - began_s)))
            said = log.feed("stdout", (_line(order.action, outcome) + "\n").encode())
            if said:
                hooks.said("stdout", said)
        return outcome

    async def _performed(self, order: Order, action: BrowserAction, hooks: Hooks) -> Outcome:
        if hooks.stop.is_set():
            return Outcome(interrupted=True)
        try:
            session = await self._session(order.run_id, order.env, hooks.lifeline)
        except (KeeperError, SettingsError) as error:
            return Outcome(kind=FailureKind.SPAWN_FAILED, detail=str(error))
        except (Error, TimeoutError, Trouble) as error:
            await self._forget_lost(order.run_id)
            trouble = not_started(error)
            return Outcome(kind=trouble.kind, detail=trouble.detail)
        await hooks.launched(session.identity)
        attempt = self._attempt(order, action, session, hooks.lifeline)
        return await self._watched(attempt, hooks)

    def _attempt(self, order: Order, action: BrowserAction, session: Session, lifeline: Lifeline) -> Attempt:
        return Attempt(
            order=order,
            action=action,
            session=session,
            seeker=self._seeker(session),
            pictures=Pictures(session, self._limits),
            limits=self._limits,
            lifeline=lifeline,
            boot_s=self._boot_s,
            refuted=partial(self._claims(session).refuted, order.claims, 0),
        )

    async def _watched(self, attempt: Attempt, hooks: Hooks) -> Outcome:
        """The attempt, against the clock, silence and the driver's wish to end."""
        policy = attempt.order.policy
        trace = Trace(attempt.session, self._limits, self._traces and attempt.order.attempt > 1)
        work = asyncio.create_task(self._work(attempt, trace))
        stopped = asyncio.create_task(hooks.stop.wait())
        idle = asyncio.create_task(_idle(attempt, policy.step_idle_timeout_seconds))
        try:
            await asyncio.wait(
                {work, stopped, idle},
                timeout=policy.step_timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if work.done():
                return work.result()
        finally:
            for task in (work, stopped, idle):
                task.cancel()
            await asyncio.gather(work, stopped, idle, return_exceptions=True)
            # The library goes on with what it was told: whatever it still does must not meet the next attempt.
            under_way = attempt.acting or attempt.action.verb is BrowserVerb.GOTO
            attempt.session.tainted |= work.cancelled() and under_way
        if stopped.done() and not stopped.cancelled():
            await trace.end(failed=False)
            return Outcome(interrupted=True, outcome_known=_is_known(attempt))
        return await self._out_of_time(attempt, trace, is_idle=idle.done() and not idle.cancelled())

    async def _out_of_time(self, attempt: Attempt, trace: Trace, *, is_idle: bool) -> Outcome:
        policy = attempt.order.policy
        idle_s = time.monotonic() - attempt.session.traffic.last_s
        attempt.visit.is_used_up = True
        known = attempt.trouble or attempt.seeker.missing
        if known is not None:  # it has failed, and only looking closer or telling of it took too long
            trouble = known
        elif is_idle:
            limit_s, kind = policy.step_idle_timeout_seconds, FailureKind.IDLE_TIMEOUT
            trouble = Trouble(kind, f"nothing came over the network for {limit_s:g} s")
        else:
            words = f"not done within {policy.step_timeout_seconds:g} s"
            trouble = Trouble(FailureKind.WALL_TIMEOUT, words)
        outcome = await self._failed(attempt, trouble, trace)
        return msgspec.structs.replace(outcome, idle_ms=round(1000 * idle_s))

    async def _work(self, attempt: Attempt, trace: Trace) -> Outcome:
        session = attempt.session
        try:
            session.begin(attempt.action.dialog)
            await trace.begin()
            await self._prepare(attempt)
            await self._picture_regions(attempt)
            await perform(attempt)
            attempt.visit.performed()
            page = await session.current()
            if attempt.action.verb not in LEAVES_ALONE:
                await settle(page, session.traffic, attempt.order.policy, self._limits.after_s)
            _heed_dialogs(attempt)
            seen = await self._seen(attempt, page)
            if attempt.action.verb not in LEAVES_ALONE:
                await session.keep_past()
            await trace.end(failed=False)
        except Trouble as trouble:
            return await self._failed(attempt, _dialog_first(attempt, trouble), trace)
        except Error as error:
            told = of_error(error, _doing(attempt.action))
            return await self._failed(attempt, _dialog_first(attempt, told), trace)
        return Outcome(exit_code=0, outputs=attempt.outputs, seen=seen)

    async def _prepare(self, attempt: Attempt) -> None:
        """A page to begin with: the one that is there as long as it is good, otherwise the last known one, loaded anew,
        unless that would lose what earlier steps have done in it."""
        session, past, verb = attempt.session, attempt.session.past, attempt.action.verb
        page = await session.current()
        lost = session.crashed or session.tainted or (past.url is not None and page.url == "about:blank")
        if lost:
            page = await session.replace_page()
        if (
            verb is BrowserVerb.GOTO
            or past.url is None
            or (verb is BrowserVerb.TAB and attempt.action.value == "new")
        ):
            return
        if lost and past.touched:
            words = "the page was lost, and with it what had been done in it since it was loaded"
            raise Trouble(FailureKind.RUNTIME_DRIFT, words)
        if lost or (not past.touched and await self._is_worn(attempt)):
            attempt.must_hold_lease("loading the page again")
            await load(page, past.url, attempt.order.policy.step_timeout_seconds)
            session.visit = Visit()
        _enter(attempt)

    async def _is_worn(self, attempt: Attempt) -> bool:
        """Whether a later attempt had better load the page again than go on with it."""
        session, order = attempt.session, attempt.order
        if order.attempt == 1:
            return False
        if session.visit.is_of(order.step_id, attempt.action) and not session.visit.is_worth_another:
            return True
        return await session.shows_error()

    async def _picture_regions(self, attempt: Attempt) -> None:
        for target in attempt.order.pictured:
            page = await attempt.session.current()
            picture = await picture_of(target, page, attempt.seeker, attempt.pictures)
            if picture is not None:
                attempt.session.before[region_key(target)] = picture

    def _screen(self, attempt: Attempt) -> Screen | None:
        """The page as it was when the target was looked for."""
        seen = attempt.seeker.last
        if self._sketch is None or seen is None or attempt.order.looking is None:
            return None
        return self._sketch(seen.title, seen.elements, seen.page_box, seen.viewport, seen.scale)

    async def _seen(self, attempt: Attempt, page: Page) -> Seen:
        screen = self._screen(attempt)
        look = await attempt.seeker.look(page)
        shown = look.collection if look else None
        return Seen(
            resolution=attempt.resolution,
            observed=attempt.observed,
            before=_before(attempt),
            page=fingerprint(shown.url, shown.title, shown.elements) if shown else None,
            screen=screen,
            **_told(attempt),
        )

    async def _failed(self, attempt: Attempt, trouble: Trouble, trace: Trace) -> Outcome:
        session = attempt.session
        attempt.trouble, attempt.visit.failed_by = trouble, trouble.kind
        attempt.visit.is_used_up |= attempt.patience().is_used_up(time.monotonic())
        attempt.resolution = trouble.resolution or attempt.resolution
        session.crashed |= trouble.kind in (FailureKind.BROWSER_CRASHED, FailureKind.CONNECTION_LOST)
        answers = await session.answers()
        detail = (
            trouble.detail if answers or NO_ANSWER in trouble.detail else f"{trouble.detail}; {NO_ANSWER}"
        )
        await self._gather(attempt, trace)
        await self._forget_lost(attempt.order.run_id)
        return Outcome(
            kind=trouble.kind,
            detail=detail,
            agent_event=trouble.event,
            refuted=attempt.disproven,
            retry_after_s=trouble.retry_after_s,
            outcome_known=_is_known(attempt),
            seen=Seen(
                resolution=attempt.resolution,
                observed=attempt.observed,
                before=_before(attempt),
                screen=self._screen(attempt),
                **_told(attempt),
            ),
        )

    async def _gather(self, attempt: Attempt, trace: Trace) -> None:
        """Evidence of a failure, as much as can be had from a page that may be in any state."""
        session = attempt.session
        attempt.artifacts = [one for one in attempt.artifacts if one.name not in _OF_A_FAILURE]
        if session.page is not None and session.usable:
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(self._limits.picture_s):
                    picture = attempt.pictures.take(session.page, "failure", resolution=attempt.resolution)
                    attempt.artifacts.append(await picture)
        if attempt.seeker.last is not None:
            data = _bounded(attempt.seeker.last.elements, self._limits.seen_bytes_max)
            attempt.artifacts.append(Artifact("elements.json", "application/json", data))
        record = await trace.end(failed=not session.crashed) if session.alive else None
        if record is not None:
            attempt.artifacts.append(record)

    # Sessions

    async def _session(self, run_id: str, env: Mapping[str, str], lifeline: Lifeline) -> Session:
        session = self._sessions.get(run_id)
        if session is not None and not session.alive:
            await self._drop(run_id)
            session = None
        if session is None:
            past = self._pasts.setdefault(run_id, Past())
            session = await self._open(run_id, env, lifeline, past)
            self._sessions[run_id] = session
        session.hang_on(lifeline, lifeline.deadline_boot_s)
        return session

    async def _open(self, run_id: str, env: Mapping[str, str], lifeline: Lifeline, past: Past) -> Session:
        """Starting may take longer than a lease, which is renewed meanwhile: the guard follows it from the first."""
        found = await asyncio.to_thread(needed_browser, self._environ)
        playwright = await self._driver.get()
        guard = self._make_guard(found.executable, run_id, lifeline.deadline_boot_s)
        detach = lifeline.attach(guard.extend)
        try:
            browser = await launch(playwright, guard, env, self._limits)
            session = Session(run_id, browser, guard, await guard.ready(), self._limits, past, dict(env))
            session.lifeline, session.detach = lifeline, detach
            session.hide = self._hide_of(run_id)
            async with asyncio.timeout(self._limits.open_s):
                await session.open_context(past.storage)
        except BaseException:
            detach()
            await guard.close()
            raise
        return session

    def _seeker(self, session: Session) -> Seeker:
        return Seeker(session, self._resolver(session), self._limits)

    def _claims(self, session: Session) -> Claims:
        return Claims(session, self._resolver(session), self._limits)

    def _resolver(self, session: Session) -> Resolver:
        run_id = session.run_id
        resolver = self._resolvers.get(run_id)
        if resolver is None:
            resolver = self._resolvers[run_id] = self._resolver_of(run_id)
        return resolver

    async def _drop(self, run_id: str) -> None:
        self._resolvers.pop(run_id, None)
        session = self._sessions.pop(run_id, None)
        if session is not None:
            if session.useless:
                self._driver.doubt()
            await session.close()

    async def _forget_lost(self, run_id: str) -> None:
        """Drop a browser that is gone or does not answer: the next attempt opens another. A dead page alone is not
        enough."""
        session = self._sessions.get(run_id)
        if session is not None and not session.alive:
            await self._drop(run_id)

    # For whoever looks at pages, or keeps them

    async def examine(self, run_id: str, question: PageQuestion, scene: Scene) -> tuple[bool | None, str]:
        session = self._sessions.get(run_id)
        if session is None or not session.usable:
            return None, NO_PAGE
        seeker = self._seeker(session)
        checks = PageChecks(session, seeker, Pictures(session, self._limits), self._limits)
        return await checks.examine(question, scene)

    async def fingerprint(self, run_id: str) -> Fingerprint | None:
        session = self._sessions.get(run_id)
        if session is None or not session.usable:
            return None
        if not await session.has_cookies():
            session.useless = True
            return None
        try:
            look = await self._seeker(session).look(await session.current())
        except (Trouble, Error):
            return None
        return (
            fingerprint(look.collection.url, look.collection.title, look.collection.elements)
            if look
            else None
        )

    async def keep(self, run_id: str) -> bytes | None:
        session = self._sessions.get(run_id)
        if session is None or not session.usable or session.past.url is None:
            return None
        past, limit_bytes = session.past, self._limits.storage_bytes_max
        assert past.url is not None
        before, after = session.other_tabs()
        page = KeptPage(past.url, tuple(past.touched_by), past.storage, tuple(before), tuple(after))
        return kept_pages.encode(page, limit_bytes)

    def touched_in(self, kept: bytes) -> tuple[str, ...] | None:
        return kept_pages.decode(kept).touched_by

    def touched_in_other_tabs(self, kept: bytes) -> tuple[str, ...]:
        return kept_pages.decode(kept).touched_elsewhere

    async def restore(
        self, run_id: str, kept: bytes, policy: Policy, lifeline: Lifeline, *, with_tabs: bool = False
    ) -> Restored:
        shown = kept_pages.decode(kept)
        url, touched_by = shown.url, shown.touched_by
        await self._drop(run_id)
        past = self._pasts[run_id] = Past(storage=shown.storage)
        if touched_by is None:
            return Restored(None, "what had been done in it since it was loaded is lost")
        try:
            session = await self._session(run_id, self._environ, lifeline)
            page = await self._tabs_opened(session, shown) if with_tabs else await session.current()
            past.url = url
            response = await load(page, url, self._limits.restore_s)
            await settle(page, session.traffic, policy, self._limits.settle_s)
            if response is not None and response.status in _TROUBLE_OF_SERVER:
                raise of_status(response.status, url, None)
        except (KeeperError, SettingsError, Error, TimeoutError, Trouble) as error:
            await self._drop(run_id)
            words = f"it could not be opened again ({first_line(error)})"
            return Restored(None, words, unreachable=True)
        found = await self.fingerprint(run_id)
        if found is None:
            return Restored(None, "it could not be looked at", unreachable=True)
        elsewhere = shown.touched_elsewhere if with_tabs else ()
        return Restored(found, missing=touched_by, missing_in_other_tabs=elsewhere)

    async def _tabs_opened(self, session: Session, kept: KeptPage) -> Page:
        """All tabs in their order; the current one is still empty."""
        opened = []
        for tab in (*kept.before, None, *kept.after):
            opened.append(page := await session.new_page())
            if tab is not None:
                with suppress(Error, TimeoutError, Trouble):
                    await load(page, tab.url, self._limits.restore_s)
        session.turn_to(opened[len(kept.before)])
        return opened[len(kept.before)]

    async def refuted(self, run_id: str, claims: Sequence[PageClaim], wait_s: float = 0) -> Sequence[str]:
        session = self._sessions.get(run_id)
        if session is None or not session.usable:
            return [NO_PAGE] * len(claims)
        return await self._claims(session).refuted(claims, wait_s)

    async def remember(self, run_id: str, kept: bytes) -> None:
        if run_id not in self._sessions:
            self._pasts[run_id] = Past(storage=kept_pages.decode(kept).storage)

    async def touched_by(self, run_id: str) -> tuple[str, ...]:
        session = self._sessions.get(run_id)
        return tuple(session.past.touched_by) if session is not None else ()

    @asynccontextmanager
    async def fresh_copy(self, run_id: str, policy: Policy) -> AsyncIterator[Fingerprint | None]:
        session = self._sessions.get(run_id)
        if session is None or not session.usable or session.past.url is None:
            yield None
            return
        async with session.another_page() as page:
            yield await self._copied(session, page, policy)

    async def _copied(self, session: Session, page: Page | None, policy: Policy) -> Fingerprint | None:
        if page is None or session.past.url is None:
            return None
        try:
            await load(page, session.past.url, self._limits.restore_s)
            await settle(page, session.traffic, policy, self._limits.settle_s)
        except (Error, TimeoutError, Trouble):
            return None
        return await self.fingerprint(session.run_id)

    async def leave(self, run_id: str) -> None:
        self._waiting.forget(run_id)
        self._pasts.pop(run_id, None)
        await self._drop(run_id)

    # While a run waits for a person

    async def wait(self, run_id: str, epoch: int, policy: Policy) -> None:
        session = self._sessions.get(run_id)
        if session is None or not session.usable or not policy.waiting_browsers_max:
            await self.leave(run_id)
            return
        session.hang_on(None, self._boot_s() + policy.waiting_browser_seconds + self._limits.close_s)
        self._waiting.add(run_id, epoch, policy.waiting_browser_seconds)
        for crowded in self._waiting.beyond(policy.waiting_browsers_max):
            await self.leave(crowded)

    async def take_up(self, run_id: str, epoch: int, lifeline: Lifeline) -> bool:
        session, since = self._sessions.get(run_id), self._waiting.forget(run_id)
        if session is None or since is None or since != epoch or not session.usable:
            await self.leave(run_id)
            return False
        session.hang_on(lifeline, lifeline.deadline_boot_s)
        return True

    def waiting(self) -> Mapping[str, int]:
        return self._waiting.epochs

    async def close(self) -> None:
        for run_id in list(self._sessions):
            await self.leave(run_id)
        await self._driver.close()


async def _idle(attempt: Attempt, limit_s: float) -> None:
    """Returns when nothing has come or gone for so long; the time that is spent waiting for a target does not count."""
    since_s = time.monotonic()
    while True:
        await asyncio.sleep(min(_IDLE_LOOK_S, limit_s))
        if attempt.action.verb is BrowserVerb.WAIT or attempt.waits or attempt.seeker.missing is not None:
            since_s = time.monotonic()
        if time.monotonic() - max(since_s, attempt.session.traffic.last_s) >= limit_s:
            return


def _told(attempt: Attempt) -> dict[str, Any]:
    """Of an attempt, however it ended."""
    return {
        "artifacts": tuple(attempt.artifacts),
        "took_ms": None if attempt.took_s is None else round(1000 * attempt.took_s),
        "waited": attempt.waited,
        "rewritten": attempt.rewritten,
    }


def _enter(attempt: Attempt) -> None:
    """One more attempt of this action on the document that is open."""
    session, step_id = attempt.session, attempt.order.step_id
    if not session.visit.is_of(step_id, attempt.action):
        session.visit = Visit(step_id, attempt.action)
    visit = attempt.visit = session.visit
    attempt.is_second_look = visit.was_late
    visit.attempts, visit.failed_by = visit.attempts + 1, None


def _before(attempt: Attempt) -> Element | None:
    """What a target that was not as it was written was compared with."""
    target = attempt.action.target
    return compared_with(target, attempt.looking).recorded if target is not None else None


def _heed_dialogs(attempt: Attempt) -> None:
    told = attempt.session.unexpected_dialog()
    if told is not None:
        asked = f"({told.kind}: {told.words!r})"
        words = f"{_doing(attempt.action)}: the page opened a dialog that the step does not expect {asked}"
        raise Trouble(FailureKind.DIALOG_BLOCKED, words)


def _dialog_first(attempt: Attempt, trouble: Trouble) -> Trouble:
    """A dialog in the way is why the rest failed."""
    try:
        _heed_dialogs(attempt)
    except Trouble as dialog:
        return dialog
    return trouble


def _is_known(attempt: Attempt) -> bool:
    return attempt.action.verb in _REPEATABLE or not (attempt.acting or attempt.acted)


def _bounded(elements: tuple[Any, ...], limit_bytes: int) -> bytes:
    while len(data := msgspec.json.encode(elements)) > limit_bytes:
        elements = elements[: len(elements) // 2]
    return data


def _doing(action: BrowserAction) -> str:
    about = target_words(action.target) if action.target else action.value or ""
    return f"{action.verb} {about}".strip()


def _line(action: BrowserAction, outcome: Outcome) -> str:
    """For the log: what was done, and what came of it. What was typed is not in it."""
    seen = outcome.seen
    healed = (
        f" (healed: {seen.resolution.strategy})"
        if seen and seen.resolution and seen.resolution.healed
        else ""
    )
    result = (
        "interrupted"
        if outcome.interrupted
        else f"{outcome.kind}: {outcome.detail}"
        if outcome.kind
        else "done"
    )
    return f"{_doing(action)}{healed}: {result}"


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
