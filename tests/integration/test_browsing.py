"""The engine and steps in a browser, with pages that are values: levels, heals, what is remembered, pages that are lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.kernel.prefix import known_good_prefix_length
from recoup.model import events as ev
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.ids import run_stream, targets_stream, workflow_stream
from recoup.model.mode import Mode
from recoup.model.outcome import Outcome, PageClaim, Rewritten
from recoup.model.plan import (
    ApproveAction,
    BrowserAction,
    BrowserVerb,
    Handler,
    Limits,
    PageTextCheck,
    Plan,
    Repeat,
    RunAction,
    Step,
    TextMatch,
    UrlCheck,
)
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, Verdict
from recoup.model.storage import Append, Control, Draft, StreamAppend
from recoup.model.target import Element, Heal, HealMode, Target
from recoup.testing.browser import Guess, ScriptedBrowser, ScriptedPage, ScriptedSite
from recoup.testing.house import House, plan_of

HOME, DONE = "http://site/", "http://site/done"
APPROVE = Element(tag="button", role="button", name="Approve", text="Approve", id="a1")
CONFIRM = Element(tag="button", role="button", name="Confirm", text="Confirm", id="c7")
TOTAL = Element(tag="td", role="cell", name="total", text="42")
APPROVED = PageTextCheck(TextMatch(text="Approved"))


def site(*elements: Element) -> ScriptedSite:
    pages = {
        HOME: ScriptedPage("Home", elements or (APPROVE, TOTAL)),
        DONE: ScriptedPage("Done", (), "Approved"),
    }
    return ScriptedSite(pages, {"Approve": DONE, "Confirm": DONE})


def step(id: str, verb: BrowserVerb, name: str | None = None, **said: Any) -> Step:
    target = Target(role=said.pop("role", "button"), name=name) if name else None
    action = BrowserAction(
        verb=verb, target=target, value=said.pop("value", None), into=said.pop("into", None)
    )
    return Step(id=id, action=action, **said)


GO = step("go", BrowserVerb.GOTO, value=HOME)
READ = step("read", BrowserVerb.READ, "total", role="cell", into="total")
CLICK = step("approve", BrowserVerb.CLICK, "Approve", expect=(APPROVED,), repeat=Repeat.NEVER)
PLAN = plan_of(GO, READ, CLICK)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path, browser=ScriptedBrowser(site()))
    yield one
    await one.ledger.close()


def browser(house: House) -> ScriptedBrowser:
    assert isinstance(house.pages, ScriptedBrowser)
    return house.pages


async def facts(house: House, kind: type[ev.Payload], stream: str = run_stream("run-1")) -> list[Any]:
    return [event.payload for event in await house.ledger.read(stream) if isinstance(event.payload, kind)]


async def make_degraded(house: House) -> None:
    change = ev.WorkflowModeChanged(mode=Mode.DEGRADED, previous=Mode.RUNNING, reason="for a test")
    draft = Draft(change.TYPE, house.redactor.seal(change))
    part = StreamAppend(workflow_stream("workflow"), (draft,))
    await house.ledger.append(Append(at=house.clock.now(), streams=(part,)))


async def test_a_flow_ends_and_what_was_found_exactly_is_remembered_once_it_is_proven(house: House) -> None:
    state = await house.run(PLAN)
    assert state.status is RunStatus.SUCCEEDED
    assert [record.verdict for record in state.steps] == [
        Verdict.UNVERIFIED,
        Verdict.UNVERIFIED,
        Verdict.PASSED,
    ]
    assert state.steps[1].results.outputs == {"total": "42"}
    assert browser(house).done == [("goto", HOME), ("read", "total"), ("click", "Approve")]
    (observed,) = await facts(house, ev.TargetObserved, targets_stream("workflow"))
    assert (observed.step_id, observed.element) == ("approve", APPROVE), "reading proves nothing"
    finished = await facts(house, ev.AttemptFinished)
    assert finished[2].resolution.found_by == "exact"
    assert finished[2].page is not None
    assert await browser(house).fingerprint("run-1") is None, "the driver has left"
    await house.run(PLAN, "run-2")
    assert browser(house).looked[-1].observed == APPROVE
    assert len(await facts(house, ev.TargetObserved, targets_stream("workflow"))) == 1, "nothing new"


async def test_an_element_that_records_mask_is_observed_once_and_not_in_every_run(tmp_path: Path) -> None:
    """The page always differs from the record; that is not news."""
    secret = "word-" + "in-the-link"
    element = msgspec.structs.replace(APPROVE, href=f"/go?t={secret}")
    house = House(tmp_path, browser=ScriptedBrowser(site(element, TOTAL)))
    house.redactor.register("word", secret)
    for run_id in ("run-1", "run-2", "run-3"):
        await house.run(PLAN, run_id)
    (observed,) = await facts(house, ev.TargetObserved, targets_stream("workflow"))
    assert secret not in observed.element.href
    await house.ledger.close()


async def test_a_target_that_changed_is_healed_proven_and_told(house: House) -> None:
    browser(house).site.pages = site(CONFIRM, TOTAL).pages
    browser(house).guesses = {"Approve": Guess("Confirm", 0.9)}
    state = await house.run(PLAN)
    assert (state.status, state.counts.heals) == (RunStatus.SUCCEEDED, 1)
    (healed,) = await facts(house, ev.TargetHealed)
    assert (healed.verified, healed.confidence, healed.found_by) == (True, 0.9, "model")
    assert (healed.after, healed.target) == (CONFIRM, "role 'button', name 'Approve'")
    assert len(await facts(house, ev.TargetHealed, targets_stream("workflow"))) == 1
    assert await facts(house, ev.TargetObserved, targets_stream("workflow")) == [], "a heal is no observation"


async def test_each_attempt_is_more_tolerant_and_waits_longer_healed_or_not(house: House) -> None:
    browser(house).site.pages = site(CONFIRM, TOTAL).pages
    browser(house).guesses = {"Approve": Guess("Confirm", 0.9, from_level=2)}
    state = await house.run(PLAN)
    assert state.status is RunStatus.SUCCEEDED
    assert [looking.level for looking in browser(house).looked[1:]] == [0, 1, 2]
    rejected = await facts(house, ev.TargetRejected)
    assert [one.attempt for one in rejected] == [1, 2]
    assert "nothing fits" in rejected[0].reason
    delays = [one.delay_ms for one in await facts(house, ev.SelfHealTriggered)]
    assert delays == [500, 1000], "doubled, whatever is healed"
    failed = await facts(house, ev.AttemptFailed)
    assert [one.tolerance_level for one in failed] == [0, 1]
    assert [one.resolution.healing_attempt for one in failed] == [0, 1]
    await house.run(PLAN, "run-2")
    assert browser(house).looked[-3].level == 0, "the next run begins strict again"


async def test_an_attempt_knows_how_tolerant_later_ones_may_be(house: House) -> None:
    await house.run(PLAN)
    once = msgspec.structs.replace(CLICK, limits=Limits(max_attempts=1))
    await house.run(plan_of(GO, once), "run-2")
    strict = msgspec.structs.replace(CLICK, heal=Heal(max_level=1))
    await house.run(plan_of(GO, strict), "run-3")
    assert [looking.level_max for looking in browser(house).looked] == [2, 2, 0, 1]


async def test_how_long_a_slow_target_takes_is_kept_and_waited_for_the_next_time(house: House) -> None:
    browser(house).took_ms = 6000
    for run_id in ("run-1", "run-2"):
        assert (await house.run(PLAN, run_id)).status is RunStatus.SUCCEEDED
    timed = await facts(house, ev.TargetTimed, targets_stream("workflow"))
    assert [(one.step_id, one.took_ms) for one in timed] == [("approve", 6000)] * 2, "reading proves nothing"
    assert [looking.wait_s for looking in browser(house).looked] == [0, 0, 0, 9]
    (adapted,) = await facts(house, ev.TargetAdapted, run_stream("run-2"))
    assert (adapted.strategy, adapted.verified, adapted.took_ms) == ("timing", True, 6000)
    assert (await house.state("run-2")).counts.heals == 0, "to wait is no heal"
    browser(house).site.pages = site(CONFIRM, TOTAL).pages
    browser(house).guesses = {"Approve": Guess("Confirm", 0.9)}
    for run_id in ("run-3", "run-4"):
        assert (await house.run(PLAN, run_id)).counts.heals == 1
    assert [looking.wait_s for looking in browser(house).looked[-3:]] == [9, 0, 0], "it looks otherwise now"


async def test_a_target_that_is_there_at_once_is_not_told_of(house: House) -> None:
    browser(house).took_ms = 40
    await house.run(PLAN)
    assert await facts(house, ev.TargetTimed, targets_stream("workflow")) == []


async def test_a_value_in_another_form_is_a_heal_and_counts_as_one_proven_or_not(house: House) -> None:
    browser(house).rewrites = {"Approve": Rewritten("date", "9999-99-99", "99.99.9999")}
    house.policy = Policy(max_heals_per_run=1, max_heals_per_day=2)
    assert (await house.run(PLAN)).counts.heals == 1
    (adapted,) = await facts(house, ev.TargetAdapted)
    assert (adapted.strategy, adapted.verified, adapted.value_kind) == ("format", True, "date")
    assert (adapted.before, adapted.after) == ("9999-99-99", "99.99.9999")
    browser(house).site.clicks = {}
    plan = plan_of(GO, msgspec.structs.replace(CLICK, repeat=Repeat.SAFE))
    state = await house.run(plan, "run-2")
    assert state.status is RunStatus.FAILED and state.counts.heals >= 1
    unproven = await facts(house, ev.TargetAdapted, run_stream("run-2"))
    assert unproven and not any(one.verified for one in unproven)
    assert (
        browser(house).looked[-1].heal is HealMode.REPORT and "max_heals" in browser(house).looked[-1].limit
    )
    in_stream = await facts(house, ev.TargetAdapted, targets_stream("workflow"))
    assert len(in_stream) == 1 + len(unproven), "those who count see them all"


async def test_an_ambiguous_target_fails_at_once_and_for_good(house: House) -> None:
    browser(house).site.pages = site(APPROVE, msgspec.structs.replace(APPROVE, id="a2"), TOTAL).pages
    state = await house.run(PLAN)
    assert (state.status, state.failure.retryable) == (RunStatus.FAILED, False)
    (failed,) = await facts(house, ev.AttemptFailed)
    assert failed.failure_kind is FailureKind.TARGET_AMBIGUOUS
    assert failed.failure_class is FailureClass.DETERMINISTIC_CONTRACT


async def test_what_was_done_after_a_reset_and_where_work_goes_on_name_attempt_and_strategy(
    house: House,
) -> None:
    lost = Outcome(kind=FailureKind.NAVIGATION_FAILED, detail="nobody answers")
    browser(house).fails = [lost]
    await house.run(PLAN)
    finished = await facts(house, ev.AttemptFinished)
    assert [(one.attempt, one.strategy) for one in finished] == [
        (2, "soft_reset"),
        (1, None),
        (1, None),
    ]


async def test_a_new_driver_says_with_which_attempt_and_strategy_work_goes_on(
    house: House, tmp_path: Path
) -> None:
    """The first one was lost while it waited for the second attempt of `go`."""
    browser(house).fails = [Outcome(kind=FailureKind.NAVIGATION_FAILED, detail="nobody answers")]
    await house.run(PLAN)
    events = await house.ledger.read(run_stream("run-1"))
    count = 1 + next(n for n, one in enumerate(events) if isinstance(one.payload, ev.SelfHealTriggered))
    heir = House(tmp_path / "heir", browser=ScriptedBrowser(site()))
    drafts = tuple([Draft(one.type, heir.redactor.seal(one.payload)) for one in events[:count]])
    part = StreamAppend(run_stream("run-1"), drafts, 0)
    await heir.ledger.append(Append(at=heir.clock.now(), streams=(part,)))
    assert (await (await heir.driver("run-1")).drive()).status is RunStatus.SUCCEEDED
    (resumed,) = await facts(heir, ev.ResumeFromStep)
    assert (resumed.step_id, resumed.attempt, resumed.strategy) == ("go", 1, "soft_reset")
    await heir.ledger.close()


async def test_a_heal_that_is_not_sure_enough_is_none(house: House) -> None:
    browser(house).site.pages = site(CONFIRM, TOTAL).pages
    browser(house).guesses = {"Approve": Guess("Confirm", 0.71)}
    state = await house.run(PLAN)
    assert state.status is RunStatus.FAILED
    assert state.steps[2].failure.kind is FailureKind.LOW_CONFIDENCE
    (*_, last) = await facts(house, ev.TargetRejected)
    assert (last.best, last.confidence) == (CONFIRM, 0.71)
    assert ("click", "Confirm") not in browser(house).done


async def test_what_was_said_of_healing_is_kept_to(house: House) -> None:
    browser(house).site.pages = site(CONFIRM, TOTAL).pages
    browser(house).guesses = {"Approve": Guess("Confirm", 0.9)}
    for mode, words in ((HealMode.OFF, "healing is off"), (HealMode.REPORT, "only reported")):
        plan = msgspec.structs.replace(PLAN, heal=Heal(mode))
        run_id = f"run-{mode}"
        state = await house.run(plan, run_id)
        assert state.status is RunStatus.FAILED
        (first, *_) = await facts(house, ev.TargetRejected, run_stream(run_id))
        assert words in first.reason
    assert ("click", "Confirm") not in browser(house).done


async def test_heals_are_limited_in_a_run_and_in_a_day(tmp_path: Path) -> None:
    policy = Policy(max_heals_per_run=1, max_heals_per_day=2)
    pages = ScriptedBrowser(site(CONFIRM, TOTAL), {"Approve": Guess("Confirm", 0.9)})
    house = House(tmp_path, browser=pages, policy=policy)
    again = msgspec.structs.replace(CLICK, id="again")
    plan = plan_of(GO, CLICK, msgspec.structs.replace(GO, id="back"), again)
    state = await house.run(plan)
    assert (state.status, state.counts.heals) == (RunStatus.FAILED, 1)
    (first, *_) = await facts(house, ev.TargetRejected)
    assert "max_heals_per_run (1)" in first.reason
    assert (await house.run(plan_of(GO, CLICK), "run-2")).status is RunStatus.SUCCEEDED
    assert (await house.run(plan_of(GO, CLICK), "run-3")).status is RunStatus.FAILED
    assert "max_heals_per_day (2)" in (await facts(house, ev.TargetRejected, run_stream("run-3")))[0].reason
    await house.ledger.close()


async def test_a_degraded_workflow_stays_strict_and_takes_nothing_that_nothing_proves(house: House) -> None:
    await make_degraded(house)
    browser(house).site.pages = site(CONFIRM, TOTAL).pages
    browser(house).guesses = {"Approve": Guess("Confirm", 0.9)}
    bare = msgspec.structs.replace(CLICK, expect=())
    state = await house.run(plan_of(GO, bare))
    assert state.status is not RunStatus.SUCCEEDED
    looked = browser(house).looked
    assert {one.level for one in looked} == {0}
    assert {(one.floors.confidence, one.floors.margin, one.needs_proof) for one in looked} == {
        (0.82, 0.08, True)
    }
    assert (await facts(house, ev.TargetRejected))[0].reason == "nothing would prove the heal"
    assert (await house.run(plan_of(GO, CLICK), "run-2")).status is RunStatus.SUCCEEDED, "this one is proven"


async def test_a_heal_after_which_nothing_is_as_expected_is_told_as_unproven(house: House) -> None:
    page = site(CONFIRM, TOTAL)
    browser(house).site.pages, browser(house).site.clicks = page.pages, {}
    browser(house).guesses = {"Approve": Guess("Confirm", 0.9)}
    state = await house.run(PLAN)
    assert state.status is RunStatus.ESCALATED, "it must not be repeated, and may have been done"
    (healed,) = await facts(house, ev.TargetHealed)
    assert not healed.verified


async def interrupted_before(house: House, plan: Any, step_id: str, run_id: str = "run-1") -> None:
    """The driver is lost when the steps before this one are done: its pages are gone, and another process goes on."""
    await house.submit(plan, run_id)
    driver = await house.driver(run_id)
    pages = browser(house)
    perform = pages.perform

    async def stop_there(order: Any, hooks: Any) -> Outcome:
        if order.step_id == step_id:
            driver.interrupt("for a test")
            return Outcome(interrupted=True)
        return await perform(order, hooks)

    pages.perform = stop_there  # type: ignore[method-assign]
    await driver.drive()
    pages.perform = perform  # type: ignore[method-assign]
    house.census.restart()


async def test_a_resumed_run_comes_back_to_its_page_and_repeats_nothing(house: House) -> None:
    await interrupted_before(house, PLAN, "approve")
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.SUCCEEDED
    assert browser(house).done == [
        ("goto", HOME),
        ("read", "total"),
        ("restore", HOME),
        ("click", "Approve"),
    ]


async def test_where_another_page_comes_back_the_steps_that_made_it_are_performed_again(house: House) -> None:
    await interrupted_before(house, PLAN, "approve")
    pages = browser(house).site.pages
    pages[HOME] = ScriptedPage("Please sign in", pages[HOME].elements)
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.SUCCEEDED
    assert browser(house).done[2:] == [
        ("restore", HOME),
        ("goto", HOME),
        ("read", "total"),
        ("click", "Approve"),
    ]
    invalidated = await facts(house, ev.StepInvalidated)
    assert [one.step_id for one in invalidated] == ["go", "read"]
    assert "another title" in invalidated[0].reason


async def test_what_must_not_be_repeated_is_not_for_a_page_that_was_lost(house: House) -> None:
    plan = plan_of(GO, CLICK, step("look", BrowserVerb.READ, "total", role="cell", into="total"))
    await interrupted_before(house, plan, "look")
    del browser(house).site.pages[DONE]
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.ESCALATED
    assert [one for one in browser(house).done if one[0] == "click"] == [("click", "Approve")]
    assert "could not be opened again" in state.reason


async def test_a_lost_click_is_done_if_the_page_says_so(house: House) -> None:
    """The driver died after the click and before its record: the page that comes back shows what it came to."""
    await house.submit(PLAN)
    driver = await house.driver("run-1")
    pages = browser(house)
    perform = pages.perform

    async def die_after(order: Any, hooks: Any) -> Outcome:
        outcome = await perform(order, hooks)
        if order.step_id == "approve":
            driver.interrupt("for a test")
            return Outcome(interrupted=True)
        return outcome

    pages.perform = die_after  # type: ignore[method-assign]
    await driver.drive()
    pages.perform = perform  # type: ignore[method-assign]
    house.census.restart()
    pages.site.pages[HOME] = ScriptedPage("Home", (TOTAL,), "Approved")
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.SUCCEEDED
    assert [one for one in pages.done if one[0] == "click"] == [("click", "Approve")]
    (*_, last) = await facts(house, ev.AttemptFinished)
    assert last.settled_by == "already_done"


async def test_a_check_waits_for_a_page_only_as_long_as_pages_take(house: House) -> None:
    pages, waited = browser(house), list[float]()
    examine = pages.examine

    async def noting(run_id: str, question: Any, scene: Any) -> tuple[bool | None, str]:
        if scene.waits:
            waited.append(scene.check_timeout_s)
        return await examine(run_id, question, scene)

    pages.examine = noting  # type: ignore[method-assign]
    await house.run(PLAN)
    assert waited == [Policy().page_check_s]
    assert Policy().page_check_s < Policy().check_s


async def test_shell_steps_between_are_not_asked_for_a_page(house: House) -> None:
    plan = plan_of(GO, Step(id="think", action=RunAction("true")), CLICK)
    assert (await house.run(plan)).status is RunStatus.SUCCEEDED


async def test_checks_on_the_page_of_a_run_without_one_say_nothing(house: House) -> None:
    lonely = Step(id="alone", action=RunAction("true"), expect=(UrlCheck("**"),))
    state = await house.run(plan_of(lonely))
    assert state.status is RunStatus.FAILED
    assert known_good_prefix_length(state) == 0


def test_the_event_types_are_public() -> None:
    names = {"target.healed", "target.rejected", "target.observed"}
    assert names <= ev.PAYLOADS.keys()


STUCK = Outcome(kind=FailureKind.IDLE_TIMEOUT, detail="nothing moves", outcome_known=True)


async def test_a_hard_reset_makes_the_page_anew_where_that_may_be_repeated(house: House) -> None:
    plan = plan_of(GO, READ, msgspec.structs.replace(CLICK, repeat=Repeat.SAFE))
    await house.submit(plan)
    pages = browser(house)
    perform, stuck = pages.perform, [STUCK, STUCK]

    async def stuck_at_first(order: Any, hooks: Any) -> Outcome:
        if order.step_id == "approve" and stuck:
            await hooks.launched(house.census.own_identity())
            return stuck.pop()
        return await perform(order, hooks)

    pages.perform = stuck_at_first  # type: ignore[method-assign]
    state = await (await house.driver("run-1")).drive()
    assert (state.status, state.counts.resets) == (RunStatus.SUCCEEDED, 1)
    first = [("goto", HOME), ("read", "total")]
    assert pages.done == [*first, ("remember", HOME), ("goto", HOME), ("click", "Approve")]
    assert len(await facts(house, ev.BrowserReset)) == 1
    assert [one.steps for one in await facts(house, ev.PageLost)] == [("go",)]
    assert await facts(house, ev.StepInvalidated) == [], "what was done stays done"
    assert state.steps[2].spent.attempts == 3


async def test_no_hard_reset_repeats_what_must_not_be(house: House) -> None:
    last = msgspec.structs.replace(READ, id="last", action=msgspec.structs.replace(READ.action, into="x"))
    browser(house).site.pages[DONE] = ScriptedPage("Done", (TOTAL,), "Approved")
    await house.submit(plan_of(GO, CLICK, last))
    pages = browser(house)
    perform = pages.perform

    async def stuck(order: Any, hooks: Any) -> Outcome:
        if order.step_id == "last":
            await hooks.launched(house.census.own_identity())
            return STUCK
        return await perform(order, hooks)

    pages.perform = stuck  # type: ignore[method-assign]
    state = await (await house.driver("run-1")).drive()
    assert (state.status, state.counts.resets) == (RunStatus.FAILED, 0)
    assert pages.done == [("goto", HOME), ("click", "Approve")]


async def test_a_handler_may_act_in_the_browser_but_is_never_healed(house: House) -> None:
    browser(house).guesses = {"Approve": Guess("Confirm", 0.99), "Help": Guess("Confirm", 0.99)}
    browser(house).site.pages = site(CONFIRM, TOTAL).pages
    missing = BrowserAction(verb=BrowserVerb.CLICK, target=Target(role="button", name="Help"))
    there = BrowserAction(verb=BrowserVerb.CLICK, target=Target(role="button", name="Confirm"))
    rescue = (Handler(action=missing), Handler(action=there))
    step = msgspec.structs.replace(CLICK, heal=Heal(HealMode.OFF), rescue=rescue)
    state = await house.run(plan_of(GO, step))
    assert (state.status, state.steps[1].verdict) == (RunStatus.SUCCEEDED, Verdict.RECOVERED)
    (*_, finished) = await facts(house, ev.AttemptFinished)
    assert [one.passed for one in finished.handlers] == [False, True]
    assert [one for one in browser(house).done if one[0] == "click"] == [("click", "Confirm")]


async def test_what_should_vanish_is_never_healed(house: House) -> None:
    gone = BrowserAction(verb=BrowserVerb.WAIT, target=Target(role="button", name="Approve"), hidden=True)
    await house.run(plan_of(GO, Step(id="gone", action=gone)))
    assert {one.heal for one in browser(house).looked} == {HealMode.OFF}


# A page that is asked before a gate

GATE = Step(id="gate", action=ApproveAction("Pay ${{ steps.read.outputs.total }}?"))
PAY = step("pay", BrowserVerb.CLICK, "Confirm", expect=(APPROVED,), repeat=Repeat.NEVER)


class AskedOnce:
    """What a page answers the first time that somebody waits for its answer; then it is asked itself."""

    def __init__(self, pages: ScriptedBrowser, answer: Callable[[PageClaim], str], *, dies: bool) -> None:
        self._pages, self._answer, self._dies = pages, answer, dies
        self._ask = pages.refuted
        pages.refuted = self.refuted  # type: ignore[method-assign]

    async def refuted(self, run_id: str, claims: Sequence[PageClaim], wait_s: float = 0) -> Sequence[str]:
        if not wait_s:
            return await self._ask(run_id, claims, wait_s)
        self._pages.refuted = self._ask  # type: ignore[method-assign]
        if self._dies:
            await self._pages.leave(run_id)
        return [self._answer(claim) for claim in claims]


async def approved(house: House, plan: Plan) -> RunState:
    """The run up to its gate, a person's word, and the rest by another driver."""
    waiting = await house.run(plan)
    assert waiting.status is RunStatus.WAITING, waiting.reason
    approve = Control(id="c1", run_id="run-1", action="approve", reason="r", actor="me", at=house.clock.now())
    await house.ledger.send_control(approve)
    return await (await house.driver("run-1")).drive()


async def test_a_page_that_dies_while_it_is_asked_refutes_nothing(house: House) -> None:
    """Found by a campaign: the read total was taken for changed, and a finished charge was made again."""
    browser(house).site = site(CONFIRM, TOTAL)
    AskedOnce(browser(house), lambda _claim: "the page cannot be looked at: Target crashed", dies=True)
    state = await approved(house, plan_of(GO, READ, "charge", GATE, PAY))
    assert state.status is RunStatus.SUCCEEDED, state.reason
    begun = [fact.step_id for fact in await facts(house, ev.AttemptStarted)]
    assert begun == ["go", "read", "charge", "gate", "pay"]
    assert await facts(house, ev.StepInvalidated) == []


async def test_what_was_in_doubt_at_a_gate_is_not_taken_for_approved(house: House) -> None:
    """Found by the same campaign: behind a gate that had been sent back once, a step that signed in was asked about,
    because the door did not show any more what it showed before."""
    door = ScriptedPage("Home", (APPROVE, CONFIRM, TOTAL), "Sign in")
    inside = msgspec.structs.replace(door, text="Welcome")
    pages = {HOME: door, DONE: ScriptedPage("Done", (), "Approved")}
    clicks: dict[str, str | Callable[[], None]] = {
        "Approve": lambda: pages.update({HOME: inside}),
        "Confirm": DONE,
    }
    browser(house).site = ScriptedSite(pages, clicks)
    AskedOnce(browser(house), lambda claim: "says something else now" if claim.read else "gone", dies=False)
    go = msgspec.structs.replace(GO, expect=(PageTextCheck(TextMatch(text="Sign in")),))
    sign_in = step("sign-in", BrowserVerb.CLICK, "Approve", repeat=Repeat.SAFE)
    state = await approved(house, plan_of(go, sign_in, READ, GATE, PAY))
    assert state.status is RunStatus.SUCCEEDED, state.reason
    assert [fact.step_id for fact in await facts(house, ev.StepInvalidated)] == ["read"]


async def test_a_page_that_lacks_what_steps_did_is_not_kept_while_a_person_is_asked(house: House) -> None:
    """Found by the same campaign: a form was sent empty. Its page was loaded again to see whether the click had worked,
    and stayed open for the next driver."""
    field = Element(tag="input", role="textbox", name="Customer", id="f1")
    pages = browser(house)
    pages.site = site(field, APPROVE)
    fill = step("fill", BrowserVerb.FILL, "Customer", role="textbox", value="ann", repeat=Repeat.SAFE)
    perform, crashes = pages.perform, [True]

    async def crashing(order: Any, hooks: Any) -> Outcome:
        if order.step_id != "approve" or not crashes:
            return await perform(order, hooks)
        crashes.clear()
        await hooks.launched(house.census.own_identity())
        await pages.leave("run-1")
        return Outcome(kind=FailureKind.BROWSER_CRASHED, outcome_known=False)

    pages.perform = crashing  # type: ignore[method-assign]
    await house.submit(plan_of(GO, fill, CLICK))
    asked = await (await house.driver("run-1")).drive(stays=True)
    assert asked.status is RunStatus.ESCALATED, asked.reason
    assert ("restore", HOME) in pages.done, "somebody looked whether it was done"
    settle = Control(
        id="c1", run_id="run-1", action="settle", reason="r", actor="me", at=house.clock.now(),
        step_id="approve", argument="not-done",
    )  # fmt: skip
    await house.ledger.send_control(settle)
    pages.done.clear()
    here = house.world
    house.world = msgspec.structs.replace(here, kinds={})  # the answer is carried out by another process
    assert (await (await house.driver("run-1")).answer()).status is RunStatus.WAITING
    house.world = here
    state = await (await house.driver("run-1")).drive(stays=True)
    assert state.status is RunStatus.SUCCEEDED, state.reason
    assert pages.done == [("restore", HOME), ("fill", "Customer"), ("click", "Approve")]
