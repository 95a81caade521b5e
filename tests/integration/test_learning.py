"""What runs learn from heals that proved right, and what later runs do with it."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.integration.test_browsing import (
    APPROVE,
    CLICK,
    CONFIRM,
    GO,
    PLAN,
    TOTAL,
    browser,
    facts,
    make_degraded,
    site,
)

from recoup.audit.exporting import export
from recoup.engine.forcing import force_mode
from recoup.engine.kinds import RunView
from recoup.kernel.healing import target_digest
from recoup.kernel.memory import TargetMemory, identity
from recoup.learning.recall import Recall
from recoup.ledger.sqlite import SqliteLedger
from recoup.model import events as ev
from recoup.model.ids import run_stream, targets_stream, workflow_stream
from recoup.model.memory import Kept
from recoup.model.mode import Mode
from recoup.model.plan import BrowserAction, Repeat, Step
from recoup.model.policy import Policy
from recoup.model.run import RunStatus
from recoup.model.storage import Append, Appended, Draft, StreamAppend
from recoup.model.target import Element, Heal
from recoup.steps.browser.run_targets import RunTargets
from recoup.testing.browser import Guess, ScriptedBrowser
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, kinds_of, plan_of

LEARNED = targets_stream("workflow")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    pages = ScriptedBrowser(site(CONFIRM, TOTAL), {"Approve": Guess("Confirm", 0.92)})
    one = House(tmp_path, browser=pages)
    yield one
    await one.ledger.close()


async def found_by(house: House, run_id: str) -> str:
    (healed,) = await facts(house, ev.TargetHealed, run_stream(run_id))
    return str(healed.found_by)


async def test_what_proved_right_twice_is_found_in_memory_the_third_time(house: House) -> None:
    for run_id in ("run-1", "run-2", "run-3", "run-4"):
        assert (await house.run(PLAN, run_id)).status is RunStatus.SUCCEEDED
    ways = [await found_by(house, run_id) for run_id in ("run-1", "run-2", "run-3", "run-4")]
    assert ways == ["model", "model", "memory", "memory"]
    (lesson,) = await facts(house, ev.TargetLearned, LEARNED)
    assert (lesson.element, lesson.origin, lesson.step_id) == (CONFIRM, "model", "approve")
    assert lesson.identity == identity(CONFIRM)


async def test_nothing_is_learned_from_what_was_not_sure_or_not_proven(house: House) -> None:
    browser(house).guesses = {"Approve": Guess("Confirm", 0.89)}
    await house.run(PLAN)
    browser(house).guesses = {"Approve": Guess("Confirm", 0.95)}
    bare = msgspec.structs.replace(CLICK, expect=())
    assert (await house.run(plan_of(GO, bare), "run-2")).counts.heals == 1
    silent = msgspec.structs.replace(PLAN, heal=Heal(learn=False))
    assert (await house.run(silent, "run-3")).counts.heals == 1
    assert not await facts(house, ev.TargetLearned, LEARNED)


async def test_a_degraded_workflow_learns_nothing(house: House) -> None:
    await make_degraded(house)
    assert (await house.run(PLAN)).counts.heals == 1
    assert not await facts(house, ev.TargetLearned, LEARNED)


async def test_memory_that_led_astray_counts_against_itself(house: House) -> None:
    plan = plan_of(GO, msgspec.structs.replace(CLICK, repeat=Repeat.SAFE))
    for run_id in ("run-1", "run-2"):
        await house.run(plan, run_id)
    browser(house).site.clicks = {}
    assert (await house.run(plan, "run-3")).status is not RunStatus.SUCCEEDED
    ways = [one.found_by for one in await facts(house, ev.TargetHealed, run_stream("run-3"))]
    assert ways[0] == "memory" and "memory" not in ways[1:]
    in_stream = await facts(house, ev.TargetHealed, LEARNED)
    assert [(one.found_by, one.verified) for one in in_stream] == [
        ("model", True),
        ("model", True),
        ("memory", False),
    ]


async def test_what_somebody_rejected_is_not_taken_again(house: House) -> None:
    for run_id in ("run-1", "run-2"):
        await house.run(PLAN, run_id)
    assert isinstance(CLICK.action, BrowserAction) and CLICK.action.target is not None
    no = ev.TargetRejected(
        step_id="approve",
        step_index=2,
        attempt=None,
        run_id="run-1",
        target="it",
        reason="that is another button",
        target_digest=target_digest(CLICK.action.target),
        identity=identity(CONFIRM),
        by="ann",
    )
    part = StreamAppend(LEARNED, (Draft(no.TYPE, house.redactor.seal(no)),))
    await house.ledger.append(Append(at=house.clock.now(), streams=(part,)))
    done = len(browser(house).done)
    assert (await house.run(PLAN, "run-3")).status is RunStatus.FAILED
    (first, *_) = await facts(house, ev.TargetRejected, run_stream("run-3"))
    assert "somebody rejected it" in first.reason
    assert ("click", "Confirm") not in browser(house).done[done:]


async def test_a_later_run_looks_from_what_was_learned_and_from_what_was_last_seen(house: House) -> None:
    recorded = plan_of(GO, as_recorded(APPROVE))
    browser(house).site = site(APPROVE, TOTAL)
    await house.run(recorded)
    browser(house).site = site(CONFIRM, TOTAL)
    await house.run(recorded, "run-2")
    await house.run(recorded, "run-3")
    assert [looking.lessons for looking in browser(house).looked] == [(), (APPROVE,), (APPROVE, CONFIRM)]


async def test_a_lesson_that_led_astray_is_blamed_for_it(house: House) -> None:
    other = msgspec.structs.replace(CONFIRM, name="Continue", text="Continue", id="z")
    plan = plan_of(GO, msgspec.structs.replace(CLICK, repeat=Repeat.SAFE))
    await house.run(plan)
    browser(house).site = site(other, TOTAL)
    browser(house).guesses = {"Approve": Guess("Continue", 0.95, led_by=identity(CONFIRM))}
    assert (await house.run(plan, "run-2")).status is not RunStatus.SUCCEEDED
    blamed = [one.led_by for one in await facts(house, ev.TargetHealed, LEARNED) if not one.verified]
    assert blamed and set(blamed) == {identity(CONFIRM)}
    await house.run(plan, "run-3")
    assert CONFIRM in browser(house).looked[1].lessons and browser(house).looked[-1].lessons == ()


async def test_a_degraded_workflow_does_not_even_note_how_its_targets_look(house: House) -> None:
    browser(house).site = site(APPROVE, TOTAL)
    await make_degraded(house)
    assert (await house.run(PLAN)).status is RunStatus.SUCCEEDED
    assert not await facts(house, ev.TargetObserved, LEARNED)


def as_recorded(element: Element) -> Step:
    assert isinstance(CLICK.action, BrowserAction) and CLICK.action.target is not None
    target = msgspec.structs.replace(CLICK.action.target, recorded=element)
    return msgspec.structs.replace(CLICK, action=msgspec.structs.replace(CLICK.action, target=target))


NIGHTS = st.tuples(
    st.sampled_from((APPROVE, CONFIRM)),
    st.floats(0.5, 1.0),
    st.booleans(),
    st.sampled_from(("", Mode.RUNNING, Mode.DEGRADED, Mode.QUARANTINED)),
)
"""What is on the page, how sure the guess is, whether the click helps, and the mode that comes before."""


@settings(max_examples=12, deadline=None)
@given(st.lists(NIGHTS, min_size=1, max_size=4))
@example([(CONFIRM, 0.95, True, "")] * 3)
@example([(CONFIRM, 0.95, True, Mode.DEGRADED)])
@example([(APPROVE, 0.95, True, Mode.DEGRADED)])
def test_every_decision_is_audited_and_only_proven_successes_are_learned(nights: list[Any]) -> None:
    """Seed 001, Property 5, hybrid storage integrity: for any execution decision, audit records should always be written
    to JSONL, and SQLite records should only be written for validated successes when not in DEGRADED mode."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(go_through(Path(folder), nights))


async def go_through(folder: Path, nights: list[Any]) -> None:
    policy = Policy(step_max_attempts=2)
    house = House(folder, browser=ScriptedBrowser(site()), policy=policy)
    for number, (shown, sure, helps, mode) in enumerate(nights):
        pages = browser(house)
        pages.site, pages.guesses = site(shown, TOTAL), {"Approve": Guess("Confirm", sure)}
        pages.site.clicks = pages.site.clicks if helps else {}
        if mode:
            await put_into(house, mode)
        before = await written(house)
        was = (await house.ledger.workflow_state("workflow")).health.mode
        await house.run(PLAN, f"run-{number}")
        new = (await written(house))[len(before) :]
        proven = [
            fact for fact in await facts(house, ev.TargetHealed, run_stream(f"run-{number}")) if fact.verified
        ]
        for fact in new:
            assert was is Mode.RUNNING and helps, "only while all was well, and only what was proven"
            if isinstance(fact, ev.TargetLearned):
                assert fact.identity in {one.identity for one in proven}
                assert fact.confidence >= policy.learn_confidence_min
    await is_audited(house, folder / "audit")
    await house.ledger.close()


async def put_into(house: House, mode: Mode) -> None:
    change = ev.WorkflowModeChanged(mode=mode, previous=Mode.RUNNING, reason="for a test", for_s=None)
    part = StreamAppend(workflow_stream("workflow"), (Draft(change.TYPE, house.redactor.seal(change)),))
    await house.ledger.append(Append(at=house.clock.now(), streams=(part,)))


async def written(house: House) -> list[Any]:
    """What later runs would use."""
    kinds = (ev.TargetLearned, ev.TargetObserved)
    return [event.payload for event in await house.ledger.read(LEARNED) if isinstance(event.payload, kinds)]


async def is_audited(house: House, audit: Path) -> None:
    """Every event that the drivers told of is a line, and so is all that is learned."""
    await export(house.ledger, audit, house.clock.now())
    lines = [
        json.loads(line) for path in sorted(audit.glob("*.jsonl")) for line in path.read_text().splitlines()
    ]
    there = {(line["stream"], line["seq"]) for line in lines if "stream" in line}
    told = {(event.stream, event.seq) for event in [*house.seen, *await house.ledger.read(LEARNED)]}
    assert told and told <= there


async def teach(house: House, *run_ids: str) -> None:
    for run_id in run_ids:
        assert (await house.run(PLAN, run_id)).status is RunStatus.SUCCEEDED


async def test_before_something_is_learned_there_is_a_version_to_go_back_to(house: House) -> None:
    await teach(house, "run-1", "run-2")
    types = [event.type for event in await house.ledger.read(LEARNED)]
    assert types == ["target.healed", "memory.snapshot", "target.learned", "target.healed"]
    (version,) = await facts(house, ev.MemorySnapshot, LEARNED)
    assert (version.version, version.entries) == ("v000001", 0)
    told = await facts(house, ev.MemorySnapshot, workflow_stream("workflow"))
    assert told == [version], "the workflow's health counts from there"


async def test_what_makes_things_worse_is_taken_back_without_a_person(tmp_path: Path) -> None:
    """A poisoned memory: every hit leads astray, and the rule alone ends it."""
    policy = Policy(regression_window_steps=6, workflow_fail_max_in_window=50, workflow_count_min=50)
    pages = ScriptedBrowser(site(CONFIRM, TOTAL), {"Approve": Guess("Confirm", 0.92)})
    house = House(tmp_path, browser=pages, policy=policy)
    await teach(house, "run-1", "run-2", "run-3")
    assert await found_by(house, "run-3") == "memory"
    pages.site.clicks = {}
    for number in range(4, 9):
        await house.run(PLAN, f"run-{number}")
    (back,) = await facts(house, ev.MemoryRollback, LEARNED)
    assert back.to_version == "v000001" and "regression_fail_ratio" in back.reason
    assert back.failed_ratio >= 0.2 > back.failed_ratio_before
    changes = await facts(house, ev.WorkflowModeChanged, workflow_stream("workflow"))
    modes = [change.mode for change in changes]
    at = modes.index(Mode.ROLLBACK)
    assert modes[at + 1] is Mode.DEGRADED
    assert (await facts(house, ev.MemoryRollback, workflow_stream("workflow"))) == [back]
    memory = TargetMemory(events=await house.ledger.read(LEARNED))
    assert len(memory) == 0
    pages.site.clicks = site().clicks
    await house.run(PLAN, "run-9")
    assert await found_by(house, "run-9") == "model", "nothing is remembered"
    await house.ledger.close()


async def test_a_rollback_that_nobody_carried_out_is_done_by_the_next_driver(house: House) -> None:
    await teach(house, "run-1", "run-2")
    change = ev.WorkflowModeChanged(
        mode=Mode.ROLLBACK, previous=Mode.RUNNING, reason="regression_fail_ratio: worse", for_s=60.0
    )
    part = StreamAppend(workflow_stream("workflow"), (Draft(change.TYPE, house.redactor.seal(change)),))
    await house.ledger.append(Append(at=house.clock.now(), streams=(part,)))
    assert isinstance(house.clock, FakeClock)
    house.clock.advance(61)
    assert (await house.run(PLAN, "run-3")).status is RunStatus.SUCCEEDED
    assert len(await facts(house, ev.MemoryRollback, LEARNED)) == 1
    assert await found_by(house, "run-3") == "model"
    assert (await house.ledger.workflow_state("workflow")).health.mode is Mode.DEGRADED


class Meanwhile(SqliteLedger):
    """Something else happens just before the next append that belongs to no run."""

    first: Callable[[], Awaitable[object]] | None = None

    async def append(self, append: Append) -> Appended:
        if append.lease is None and self.first is not None:
            first, self.first = self.first, None
            await first()
        return await super().append(append)


@pytest.fixture
async def busy(tmp_path: Path) -> AsyncIterator[tuple[House, Meanwhile]]:
    pages = ScriptedBrowser(site(CONFIRM, TOTAL), {"Approve": Guess("Confirm", 0.92)})
    ledger = Meanwhile(tmp_path / "ledger.db")
    yield House(tmp_path, browser=pages, ledger=ledger), ledger
    await ledger.close()


async def test_a_rollback_that_two_drivers_find_due_is_done_once(busy: tuple[House, Meanwhile]) -> None:
    house, ledger = busy
    await teach(house, "run-1", "run-2")
    change = ev.WorkflowModeChanged(mode=Mode.ROLLBACK, previous=Mode.RUNNING, reason="worse", for_s=60.0)
    part = StreamAppend(workflow_stream("workflow"), (Draft(change.TYPE, house.redactor.seal(change)),))
    await ledger.append(Append(at=house.clock.now(), streams=(part,)))
    await house.submit(PLAN, "run-3")
    driver = await house.driver("run-3")
    view = RunView(house.world, driver._desk.job, driver._desk.recorder, driver._desk.lifeline)
    mine, theirs = (RunTargets(view, house.recalls) for _ in range(2))
    ledger.first = theirs.take_back
    await mine.take_back()
    assert len(await facts(house, ev.MemoryRollback, LEARNED)) == 1


async def test_a_damaged_disk_does_not_lift_a_quarantine_that_comes_meanwhile(
    busy: tuple[House, Meanwhile],
) -> None:
    class Damaged(Recall):
        async def last(self, workflow: str) -> tuple[Kept | None, str]:
            return None, "a byte was flipped"

    house, ledger = busy
    kinds = kinds_of(house.pages, Damaged(house.root / "learned"))
    house.world = msgspec.structs.replace(house.world, kinds=kinds)
    await house.submit(PLAN)
    driver = await house.driver("run-1")
    ledger.first = lambda: force_mode(
        *(ledger, house.redactor, "workflow", Mode.QUARANTINED),
        reason="stop",
        actor="eve",
        for_s=3600,
        policy=Policy(),
        now=house.clock.now(),
    )
    await driver.drive()
    assert (await ledger.workflow_state("workflow")).health.mode is Mode.QUARANTINED
