"""The mode of a workflow, shared through a real ledger, with time that flies. Seed 001, scenario tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from recoup.engine.everywhere import Everywhere
from recoup.engine.forcing import force_mode, known_workflows
from recoup.kernel.breaker import standing
from recoup.kernel.documents import exit_code
from recoup.kernel.modes import FORCIBLE, caution, mode_document
from recoup.ledger.sqlite import SqliteLedger
from recoup.model import events as ev
from recoup.model.ids import EVERY_WORKFLOW, workflow_stream
from recoup.model.mode import Mode
from recoup.model.outcome import Outcome
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, WorkflowState
from recoup.model.storage import Head
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import SUCCESS, ScriptedRuntime, exits

BROKEN = exits(2, "AssertionError: the sum is wrong")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path, policy=Policy(step_max_attempts=1))
    yield one
    await one.ledger.close()


class Runs:
    """Runs of one step, one after the other."""

    def __init__(self, house: House, workflow: str = "workflow") -> None:
        self.house = house
        self.workflow = workflow
        self.count = 0

    async def ends(self, outcome: Outcome, times: int = 1) -> RunState:
        state: RunState
        for _ in range(max(1, times)):
            self.house.world.runtimes["run"] = ScriptedRuntime({"a": [outcome]})  # type: ignore[index]
            self.count += 1
            state = await self.house.run(plan_of("a", name=self.workflow), f"{self.workflow}-{self.count}")
        return state

    async def mode(self) -> Mode:
        health = (await self.house.ledger.workflow_state(self.workflow)).health
        return standing(health, self.house.clock.now()).mode


def later(house: House, seconds: float) -> None:
    assert isinstance(house.clock, FakeClock)
    house.clock.advance(seconds)


async def test_simulation_of_3_consecutive_failures_gives_degraded(house: House) -> None:
    runs = Runs(house)
    await runs.ends(BROKEN, 2)
    assert await runs.mode() is Mode.RUNNING
    await runs.ends(BROKEN)
    assert await runs.mode() is Mode.DEGRADED
    (change,) = [event for event in house.seen if isinstance(event.payload, ev.WorkflowModeChanged)]
    assert change.stream == workflow_stream("workflow")
    stored = await house.ledger.read(change.stream)
    assert stored[change.seq - 1].payload == change.payload
    assert isinstance(change.payload, ev.WorkflowModeChanged)
    causes = [stored[seq - 1].payload for seq in change.payload.causes]
    assert [getattr(cause, "result", None) for cause in causes] == ["failed"] * 3


async def test_simulation_of_10_failures_in_10_minutes_gives_quarantined(house: House) -> None:
    runs = Runs(house)
    await runs.ends(BROKEN, 10)
    assert await runs.mode() is Mode.QUARANTINED
    state = await runs.ends(SUCCESS)
    assert (state.status, exit_code(state), state.driver.delivery) == (RunStatus.BLOCKED, 4, 0)
    assert "quarantined until" in state.reason
    assert "recoup mode workflow running" in state.reason
    assert state.hold.waiting_until is not None
    assert await house.types(state.run_id) == ["task.run.submitted", "task.run.blocked"]


async def test_recovery_after_quarantine(house: House) -> None:
    runs = Runs(house)
    await runs.ends(BROKEN, 10)
    blocked = await runs.ends(SUCCESS)
    later(house, 1800)
    state = await (await house.driver(blocked.run_id)).drive()
    assert (state.status, state.driver.delivery) == (RunStatus.SUCCEEDED, 1)
    assert await runs.mode() is Mode.DEGRADED
    await runs.ends(SUCCESS, 9)
    assert await runs.mode() is Mode.RUNNING


async def test_a_run_that_is_under_way_stops_before_its_next_step_and_goes_on_later(house: House) -> None:
    plan = plan_of("a", "b")
    house.world.runtimes["run"] = ScriptedRuntime({"a": [SUCCESS], "b": [SUCCESS]})  # type: ignore[index]
    await house.submit(plan)
    driver = await house.driver("run-1")
    entered = asyncio.Event()

    class Waits:
        inline = True

        async def perform(self, *_args: object) -> Outcome:
            entered.set()
            await force(house, Mode.PAUSED)
            return SUCCESS

        async def stop(self) -> None: ...

    house.world.runtimes["run"] = Waits()  # type: ignore[index]
    state = await driver.drive()
    assert entered.is_set()
    assert (state.status, state.steps[0].verdict, state.steps[1].spent.attempts) == (
        RunStatus.BLOCKED,
        "unverified",
        0,
    )
    await force(house, Mode.RUNNING)
    house.world.runtimes["run"] = ScriptedRuntime({"b": [SUCCESS]})  # type: ignore[index]
    state = await (await house.driver("run-1")).drive()
    assert (state.status, state.driver.delivery, state.steps[0].spent.attempts) == (RunStatus.SUCCEEDED, 1, 1)


async def force(house: House, mode: Mode, for_s: float | None = None, workflow: str = "workflow") -> None:
    await force_mode(
        *(house.ledger, house.redactor, workflow, mode),
        reason="because",
        actor="op",
        for_s=for_s,
        policy=house.policy,
        now=house.clock.now(),
    )


async def test_all_processes_that_share_a_ledger_share_the_mode(tmp_path: Path) -> None:
    houses = [House(tmp_path, policy=Policy(step_max_attempts=1), name=f"p{number}") for number in range(2)]
    first, second = Runs(houses[0]), Runs(houses[1])
    second.count = 100
    for _ in range(5):
        await first.ends(BROKEN)
        await second.ends(BROKEN)
    assert await first.mode() is await second.mode() is Mode.QUARANTINED
    for house in houses:
        await house.ledger.close()


async def test_of_the_runs_that_wait_for_a_quarantine_to_end_one_probes(house: House) -> None:
    runs = Runs(house)
    await runs.ends(BROKEN, 10)
    for number in range(5):
        await house.submit(plan_of("a"), f"waits-{number}")
    later(house, 1800)
    house.world.runtimes["run"] = ScriptedRuntime({"a": [BROKEN] * 5})  # type: ignore[index]
    drivers = [await house.driver(f"waits-{number}") for number in range(5)]
    states = await asyncio.gather(*[driver.drive() for driver in drivers])
    statuses = sorted(state.status for state in states)
    assert statuses == [RunStatus.BLOCKED] * 4 + [RunStatus.FAILED]
    assert await runs.mode() is Mode.QUARANTINED


async def test_a_pause_of_everything_stops_every_workflow_and_ends_with_its_time(house: House) -> None:
    await force(house, Mode.PAUSED, for_s=60, workflow=EVERY_WORKFLOW)
    runs = Runs(house)
    state = await runs.ends(SUCCESS)
    assert state.status is RunStatus.BLOCKED
    assert "recoup mode --global running" in state.reason
    later(house, 60)
    assert (await runs.ends(SUCCESS)).status is RunStatus.SUCCEEDED


async def test_failures_all_over_the_place_pause_everything_if_the_policy_says_so(tmp_path: Path) -> None:
    policy = Policy(step_max_attempts=1, global_pause=True, global_fail_max_in_window=6)
    house = House(tmp_path, policy=policy)
    for name in "xyz":
        await Runs(house, name).ends(BROKEN, 2)
        later(house, 2)
    state = await Runs(house, "innocent").ends(SUCCESS)
    assert state.status is RunStatus.BLOCKED
    assert "global_fail_max_in_window" in state.reason
    assert await known_workflows(house.ledger) == [EVERY_WORKFLOW, "x", "y", "z"]
    await house.ledger.close()


class CountingLedger(SqliteLedger):
    """Knows which workflows were read."""

    asked: list[str]

    async def workflow_state(self, workflow: str) -> WorkflowState:
        self.asked.append(workflow)
        return await super().workflow_state(workflow)


async def test_of_all_workflows_only_those_in_which_something_happened_are_read_again(house: House) -> None:
    for name in "xyz":
        await Runs(house, name).ends(BROKEN)
    ledger, everywhere = CountingLedger(house.root / "ledger.db"), Everywhere()

    async def read_after(seconds: float) -> set[str]:
        later(house, seconds)
        ledger.asked = []
        await everywhere.pause_if_due(ledger, house.redactor, house.policy, "digest", house.clock)
        return set(ledger.asked) - {EVERY_WORKFLOW}

    assert await read_after(0) == {"x", "y", "z"}
    later_run = Runs(house, "y")
    later_run.count = 1
    await later_run.ends(BROKEN)
    assert await read_after(0.5) == set(), "it was looked at half a second ago"
    assert await read_after(1) == {"y"}
    assert await read_after(house.policy.global_fail_window_s) == set()
    await ledger.close()


@pytest.mark.parametrize(("frozen_s", "mode"), [(0.5, Mode.PAUSED), (90, Mode.RUNNING)])
async def test_who_was_frozen_while_counting_stops_nobody_for_what_is_long_past(
    house: House, frozen_s: float, mode: Mode
) -> None:
    class Freezing(SqliteLedger):
        async def heads(self, prefix: str = "") -> list[Head]:
            found = await super().heads(prefix)
            later(house, frozen_s)
            return found

    policy = Policy(global_pause=True, global_fail_max_in_window=3)
    for name in "xyz":
        await Runs(house, name).ends(BROKEN)
    ledger = Freezing(house.root / "ledger.db")
    await Everywhere().pause_if_due(ledger, house.redactor, policy, "digest", house.clock)
    assert (await ledger.workflow_state(EVERY_WORKFLOW)).health.mode is mode
    await ledger.close()


@pytest.mark.parametrize("mode", FORCIBLE)
async def test_an_operators_word_is_recorded_with_its_reason_and_whose_it_is(
    house: House, mode: Mode
) -> None:
    await force(house, mode, for_s=30)
    (change,) = [event.payload for event in await house.ledger.read(workflow_stream("workflow"))]
    assert isinstance(change, ev.WorkflowModeChanged)
    assert (change.mode, change.previous, change.actor, change.forced) == (mode, Mode.RUNNING, "op", True)
    assert change.reason == "because"
    document = mode_document(
        "workflow", (await house.ledger.workflow_state("workflow")).health, house.policy, house.clock.now()
    )
    assert (document.mode, document.forced, document.last_failure) == (mode.value, True, None)
    assert document.until == house.clock.now().plus_s(30).iso()


async def test_letting_a_workflow_run_again_without_a_time_is_no_override(house: House) -> None:
    await force(house, Mode.RUNNING)
    runs = Runs(house)
    await runs.ends(BROKEN, 10)
    assert await runs.mode() is Mode.QUARANTINED


async def test_a_forced_quarantine_lasts_as_long_as_the_policy_says(house: House) -> None:
    await force(house, Mode.QUARANTINED)
    later(house, house.policy.quarantine_duration_s)
    assert await Runs(house).mode() is Mode.DEGRADED


def test_a_degraded_workflow_is_never_less_cautious_than_a_running_one() -> None:
    policy = Policy()
    running, degraded = caution(Mode.RUNNING, policy), caution(Mode.DEGRADED, policy)
    assert (degraded.confidence_floor, degraded.margin_min) == (0.82, 0.08)
    assert (degraded.tolerance_level_max, degraded.learning) == (0, False)
    assert running.learning
    for mode in Mode:
        assert caution(mode, policy).confidence_floor >= running.confidence_floor
    lenient = caution(Mode.DEGRADED, Policy(disable_learning_in_degraded=False))
    assert lenient.learning
    assert not caution(Mode.PAUSED, Policy(disable_learning_in_degraded=False)).learning


async def test_a_crash_between_a_result_and_its_consequence_cannot_happen(house: House) -> None:
    """They are one transaction: whoever folds the events gets the mode that the ledger says."""
    runs = Runs(house)
    await runs.ends(BROKEN, 10)
    events = await house.ledger.read(workflow_stream("workflow"))
    kinds = [event.type for event in events]
    last_result = max(
        i
        for i, kind in enumerate(kinds)
        if kind == "workflow.step.result" and "failed" in str(events[i].payload)
    )
    assert kinds[last_result + 1 :] == ["workflow.mode.changed"]
    assert events[last_result].at == events[last_result + 1].at
