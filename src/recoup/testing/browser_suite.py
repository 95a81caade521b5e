"""What every browser must do for a run. Subclass `BrowserSuite` in a test module that has the fixture `stage`: a
`Stage` whose browser shows the pages of `PAGES`, and where `RENAMED` is what a resolver would find for a missing name.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from recoup.checks.registry import question_of
from recoup.engine.lease import LeaseLifeline
from recoup.model.failure import FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.memory import Remembered
from recoup.model.outcome import Looking, Order, Outcome, Progress, Restored, Scene
from recoup.model.plan import (
    BrowserAction,
    BrowserVerb,
    Check,
    PageTextCheck,
    TargetCheck,
    TargetState,
    TextMatch,
    TitleCheck,
    UrlCheck,
    ValueCheck,
)
from recoup.model.policy import Policy
from recoup.model.redacted import Redacted
from recoup.model.target import Element, Floors, HealMode, Target
from recoup.ports import Pages, Runtime


@dataclass(frozen=True)
class SuitePage:
    """A page as data: one `h1`, buttons that lead to other pages or do nothing, text fields with labels."""

    title: str
    text: str
    buttons: tuple[tuple[str, str], ...] = ()
    """Name, and the path that it leads to, or ""."""
    fields: tuple[str, ...] = ()


PAGES: Final = {
    "/home": SuitePage(
        "Home", "Two invoices wait", (("Approve", "/done"), ("Later", ""), ("Later", "")), ("Note",)
    ),
    "/done": SuitePage("Done", "All is approved"),
}
RENAMED: Final = ("Agree", "Approve", 0.9)
"""A name that is on no page, the name of the button that it is taken for, and how surely."""
FLOORS: Final = Floors(0.72, 0.0)
_LEASE_S: Final = 60.0
_POLICY: Final = Policy(step_timeout_seconds=20, page_quiet_s=0.1, page_target_s=0.8, page_heal_s=0.3)
"""For pages on loopback."""
_numbers: Final = itertools.count(1)


class Browser(Runtime, Pages, Protocol):
    """The runtime of browser steps is also who looks after the pages."""


class SuiteHooks:
    """What the engine offers a runtime, and a record of what was asked of it."""

    def __init__(self, deadline_boot_s: float) -> None:
        self.lifeline = LeaseLifeline(deadline_boot_s)
        self.stop = asyncio.Event()
        self.keepers: list[ProcessIdentity] = []

    async def launched(self, keeper: ProcessIdentity) -> None:
        self.keepers.append(keeper)

    def said(self, stream: str, chunk: Redacted) -> None:
        del stream, chunk

    def progressed(self, progress: Progress) -> None:
        del progress

    def session_known(self, session_id: str) -> None:
        del session_id


@dataclass
class Stage:
    """A browser, where its pages are, and one run in it."""

    browser: Browser
    url: Callable[[str], str]
    folder: str
    boot_s: Callable[[], float]
    env: dict[str, str] = field(default_factory=dict)
    run_id: str = field(default_factory=lambda: f"suite-{next(_numbers)}")

    async def do(
        self, verb: str, target: Target | None = None, *, looking: Looking | None = None, **how: Any
    ) -> Outcome:
        return (await self.watched(verb, target, looking=looking, **how))[0]

    async def watched(
        self,
        verb: str,
        target: Target | None = None,
        *,
        looking: Looking | None = None,
        is_stopped: bool = False,
        **how: Any,
    ) -> tuple[Outcome, SuiteHooks]:
        hooks = SuiteHooks(self.boot_s() + _LEASE_S)
        if is_stopped:
            hooks.stop.set()
        order = Order(
            run_id=self.run_id,
            step_id="step",
            step_index=0,
            attempt=1,
            action=BrowserAction(verb=BrowserVerb(verb), target=target, **how),
            cwd=self.folder,
            env=self.env,
            policy=_POLICY,
            looking=looking or Looking(floors=FLOORS),
        )
        return await self.browser.perform(order, hooks), hooks

    async def go(self, path: str) -> Outcome:
        outcome = await self.do("goto", value=self.url(path))
        assert outcome.kind is None, f"{outcome.kind}: {outcome.detail}"
        return outcome

    async def holds(self, check: Check) -> bool | None:
        scene = Scene(run_id=self.run_id, cwd=self.folder, env={}, policy=_POLICY, check_timeout_s=0.5)
        question = question_of(check)
        assert question is not None, "this check does not look at the page"
        return (await self.browser.examine(self.run_id, question, scene))[0]

    def another_run(self) -> Stage:
        return Stage(self.browser, self.url, self.folder, self.boot_s, self.env)


def button(name: str) -> Target:
    return Target(role="button", name=name)


CHECKS: Final[list[tuple[Check, bool | None]]] = [
    (UrlCheck("**/home"), True),
    (UrlCheck("**/elsewhere"), False),
    (TitleCheck(TextMatch(text="Home")), True),
    (TitleCheck(TextMatch(text="Done")), False),
    (PageTextCheck(TextMatch(text="invoices wait")), True),
    (PageTextCheck(TextMatch(text="approved")), False),
    (PageTextCheck(TextMatch(text="approved"), absent=True), True),
    (PageTextCheck(TextMatch(text="invoices wait"), absent=True), False),
    (TargetCheck(button("Approve")), True),
    (TargetCheck(button("Reject")), False),
    (TargetCheck(button("Reject"), TargetState.HIDDEN), True),
    (TargetCheck(button("Approve"), TargetState.HIDDEN), False),
    (TargetCheck(button("Later"), TargetState.COUNT, 2), True),
    (TargetCheck(button("Later"), TargetState.COUNT, 1), False),
]
"""Of the home page."""
UNWANTED: Final = (
    Looking(floors=FLOORS, heal=HealMode.OFF),
    Looking(floors=FLOORS, heal=HealMode.REPORT),
    Looking(floors=FLOORS, heal=HealMode.REPORT, limit="ten heals today"),
    Looking(floors=FLOORS, needs_proof=True),
)


class BrowserSuite:
    """Of each promise one test; how a page is drawn and how an element is found are not its business."""

    async def test_a_page_is_gone_to_and_known_again(self, stage: Stage) -> None:
        first = await stage.go("/home")
        assert first.seen is not None and first.seen.page is not None
        assert await stage.browser.fingerprint(stage.run_id) == first.seen.page
        other = await stage.go("/done")
        assert other.seen is not None and other.seen.page is not None
        assert (other.seen.page.url, other.seen.page.title) != (first.seen.page.url, first.seen.page.title)
        again = await stage.go("/home")
        assert again.seen is not None and again.seen.page == first.seen.page

    async def test_where_nobody_answers_the_navigation_has_failed(self, stage: Stage) -> None:
        outcome = await stage.do("goto", value="http://127.0.0.1:2/")
        assert outcome.kind is FailureKind.NAVIGATION_FAILED and outcome.detail

    async def test_what_is_clicked_is_what_was_named_and_leads_where_it_does(self, stage: Stage) -> None:
        await stage.go("/home")
        outcome = await stage.do("click", button("Approve"))
        assert outcome.kind is None and outcome.seen is not None
        seen = outcome.seen
        assert seen.observed is not None and seen.observed.name == "Approve"
        assert seen.resolution is not None and seen.resolution.strategy == "exact"
        assert seen.resolution.chosen is not None and seen.resolution.chosen.confidence == 1.0
        assert await stage.holds(UrlCheck("**/done")) is True
        assert seen.page is not None and seen.page == await stage.browser.fingerprint(stage.run_id)

    async def test_what_is_not_there_is_not_taken_for_something_else(self, stage: Stage) -> None:
        before = (await stage.go("/home")).seen
        outcome = await stage.do("click", button("Delete everything"))
        assert outcome.kind is FailureKind.TARGET_NOT_FOUND and "Delete everything" in outcome.detail
        assert outcome.outcome_known
        assert outcome.seen is not None and outcome.seen.resolution is not None
        assert outcome.seen.resolution.chosen is None and outcome.seen.resolution.reason
        assert before is not None and await stage.browser.fingerprint(stage.run_id) == before.page

    async def test_of_several_that_fit_none_is_taken(self, stage: Stage) -> None:
        await stage.go("/home")
        outcome = await stage.do("click", button("Later"))
        assert outcome.kind is FailureKind.TARGET_AMBIGUOUS
        assert outcome.seen is not None and outcome.seen.resolution is not None
        tie = outcome.seen.resolution
        assert tie.chosen is None and tie.best is not None and tie.runner_up is not None
        assert tie.best.confidence == tie.runner_up.confidence < FLOORS.confidence

    async def test_what_is_filled_in_is_there(self, stage: Stage) -> None:
        await stage.go("/home")
        note = Target(role="textbox", name="Note")
        assert await stage.holds(ValueCheck(note, TextMatch(text="paid in May"))) is False
        outcome = await stage.do("fill", note, value="paid in May")
        assert outcome.kind is None, outcome.detail
        assert "paid in May" not in repr(outcome)
        assert await stage.holds(ValueCheck(note, TextMatch(text="paid in May"))) is True
        assert await stage.holds(ValueCheck(note, TextMatch(text="paid"))) is False
        assert await stage.holds(ValueCheck(note, equals="paid in May")) is True
        assert await stage.holds(ValueCheck(note, equals="paid in Ma.")) is False

    async def test_what_is_read_is_an_output(self, stage: Stage) -> None:
        await stage.go("/home")
        outcome = await stage.do("read", button("Approve"), into="words")
        assert outcome.kind is None and outcome.outputs == {"words": "Approve"}

    async def test_checks_tell_how_the_page_is(self, stage: Stage) -> None:
        await stage.go("/home")
        told = [(check, await stage.holds(check)) for check, _ in CHECKS]
        assert told == CHECKS

    async def test_a_run_without_a_page_cannot_say_anything_of_it(self, stage: Stage) -> None:
        other = stage.another_run()
        assert await other.holds(TitleCheck(TextMatch(text="Home"))) is None
        assert await other.browser.fingerprint(other.run_id) is None
        assert await other.browser.keep(other.run_id) is None
        await other.browser.leave(other.run_id)

    async def test_a_page_that_was_kept_is_come_back_to(self, stage: Stage) -> None:
        shown = (await stage.go("/done")).seen
        kept = await stage.browser.keep(stage.run_id)
        assert kept is not None and shown is not None
        await stage.browser.leave(stage.run_id)
        assert await stage.browser.fingerprint(stage.run_id) is None
        lifeline = LeaseLifeline(stage.boot_s() + _LEASE_S)
        assert await stage.browser.restore(stage.run_id, kept, _POLICY, lifeline) == Restored(shown.page)
        assert await stage.holds(TitleCheck(TextMatch(text="Done"))) is True

    async def test_what_was_done_in_a_document_is_known_until_another_is_loaded(self, stage: Stage) -> None:
        browser, run_id = stage.browser, stage.run_id
        assert await browser.touched_by(run_id) == ()
        await stage.go("/home")
        assert await browser.touched_by(run_id) == ()
        loaded = await browser.keep(run_id)
        assert loaded is not None and browser.touched_in(loaded) == ()
        await stage.do("fill", Target(role="textbox", name="Note"), value="hello")
        assert await browser.touched_by(run_id) == ("step",)
        kept = await browser.keep(run_id)
        assert kept is not None and browser.touched_in(kept) == ("step",)
        lifeline = LeaseLifeline(stage.boot_s() + _LEASE_S)
        assert (await browser.restore(run_id, kept, _POLICY, lifeline)).missing == ("step",)
        await stage.go("/done")
        assert await browser.touched_by(run_id) == ()

    async def test_a_browser_stays_open_for_the_next_driver_of_its_run(self, stage: Stage) -> None:
        browser, run_id = stage.browser, stage.run_id
        shown = (await stage.go("/home")).seen
        assert shown is not None
        await browser.wait(run_id, 3, _POLICY)
        assert browser.waiting() == {run_id: 3}
        lifeline = LeaseLifeline(stage.boot_s() + _LEASE_S)
        assert await browser.take_up(run_id, 3, lifeline) is True
        assert browser.waiting() == {}
        assert await browser.fingerprint(run_id) == shown.page
        assert (await stage.do("click", button("Approve"))).kind is None

    async def test_a_browser_that_others_may_have_overtaken_is_closed(self, stage: Stage) -> None:
        browser, run_id = stage.browser, stage.run_id
        lifeline = LeaseLifeline(stage.boot_s() + _LEASE_S)
        await stage.go("/home")
        await browser.wait(run_id, 3, _POLICY)
        assert await browser.take_up(run_id, 4, lifeline) is False
        assert await browser.fingerprint(run_id) is None and browser.waiting() == {}
        assert await browser.take_up(run_id, 3, lifeline) is False, "there is none"

    async def test_the_longest_waiting_browsers_are_closed_first(self, stage: Stage) -> None:
        first, second = stage, stage.another_run()
        one = msgspec.structs.replace(_POLICY, waiting_browsers_max=1)
        for each in (first, second):
            await each.go("/home")
            await each.browser.wait(each.run_id, 1, one)
        assert first.browser.waiting() == {second.run_id: 1}
        assert await first.browser.fingerprint(first.run_id) is None
        none = msgspec.structs.replace(_POLICY, waiting_browsers_max=0)
        await second.browser.wait(second.run_id, 1, none)
        assert second.browser.waiting() == {} and await second.browser.fingerprint(second.run_id) is None

    async def test_a_copy_of_a_page_leaves_the_page_alone(self, stage: Stage) -> None:
        browser, run_id = stage.browser, stage.run_id
        async with browser.fresh_copy(run_id, _POLICY) as nothing:
            assert nothing is None, "there is no page"
        shown = (await stage.go("/home")).seen
        assert shown is not None
        await stage.do("fill", Target(role="textbox", name="Note"), value="hello")
        async with browser.fresh_copy(run_id, _POLICY) as copied:
            assert copied == shown.page
            assert await stage.holds(UrlCheck("**/home")) is True
        assert await browser.touched_by(run_id) == ("step",)
        assert (await stage.do("click", button("Approve"))).kind is None
        assert await stage.holds(UrlCheck("**/done")) is True

    async def test_runs_have_pages_of_their_own(self, stage: Stage) -> None:
        other = stage.another_run()
        await stage.go("/home")
        await other.go("/done")
        assert await stage.holds(UrlCheck("**/home")) is True
        assert await other.holds(UrlCheck("**/done")) is True
        await other.browser.leave(other.run_id)
        assert await stage.holds(UrlCheck("**/home")) is True

    async def test_the_engine_hears_of_a_launch_before_the_attempt_has_an_outcome(self, stage: Stage) -> None:
        outcome, hooks = await stage.watched("goto", value=stage.url("/home"))
        assert outcome.kind is None and len(hooks.keepers) == 1

    async def test_an_attempt_that_is_to_end_does_nothing(self, stage: Stage) -> None:
        await stage.go("/home")
        outcome, _ = await stage.watched("click", button("Approve"), is_stopped=True)
        assert outcome.interrupted and outcome.kind is None
        assert await stage.holds(UrlCheck("**/home")) is True

    async def test_a_heal_is_applied_and_told(self, stage: Stage) -> None:
        await stage.go("/home")
        outcome = await stage.do("click", button(RENAMED[0]))
        assert outcome.kind is None and outcome.seen is not None
        assert outcome.seen.resolution is not None and outcome.seen.resolution.healed
        assert outcome.seen.observed is not None and outcome.seen.observed.name == RENAMED[1]
        assert await stage.holds(UrlCheck("**/done")) is True

    async def test_what_was_proven_before_is_taken_again(self, stage: Stage) -> None:
        await stage.go("/home")
        seen = (await stage.do("hover", button("Approve"))).seen
        assert seen is not None and seen.observed is not None
        known = Remembered(seen.observed, 0.95, "model")
        outcome = await stage.do(
            "click", button("Long gone"), looking=Looking(floors=FLOORS, remembered=(known,))
        )
        assert outcome.kind is None and outcome.seen is not None and outcome.seen.resolution is not None
        assert outcome.seen.resolution.strategy == "memory"
        assert outcome.seen.resolution.chosen is not None
        assert outcome.seen.resolution.chosen.confidence == 0.95
        assert await stage.holds(UrlCheck("**/done")) is True

    async def test_what_was_proven_before_must_still_be_there_and_sure_enough(self, stage: Stage) -> None:
        await stage.go("/home")
        gone = Remembered(Element(tag="button", role="button", name="Gone", text="Gone"), 0.95, "model")
        seen = (await stage.do("hover", button("Approve"))).seen
        assert seen is not None and seen.observed is not None
        unsure = Remembered(seen.observed, 0.6, "model")
        for known in (gone, unsure):
            looking = Looking(floors=FLOORS, remembered=(known,))
            outcome = await stage.do("click", button("Long gone"), looking=looking)
            assert outcome.kind is FailureKind.TARGET_NOT_FOUND
        assert await stage.holds(UrlCheck("**/home")) is True

    async def test_a_heal_that_is_not_wanted_is_refused_and_told(self, stage: Stage) -> None:
        await stage.go("/home")
        for looking in UNWANTED:
            outcome = await stage.do("click", button(RENAMED[0]), looking=looking)
            assert outcome.kind is FailureKind.LOW_CONFIDENCE and looking.limit in outcome.detail
            assert outcome.seen is not None and outcome.seen.resolution is not None
            refused = outcome.seen.resolution
            assert refused.chosen is None and refused.best is not None
            assert refused.best.element.name == RENAMED[1] and refused.strategy == "none"
            assert await stage.holds(UrlCheck("**/home")) is True
