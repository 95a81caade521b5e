"""Runs that a mode stops: nothing is lost by it, and nothing that came before counts as a failed probe."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.engine.forcing import force_mode
from recoup.errors import LedgerBusy, StateError
from recoup.kernel.breaker import standing
from recoup.kernel.documents import exit_code
from recoup.model.ids import EVERY_WORKFLOW
from recoup.model.mode import Mode
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import Handler, Limits, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunStatus, WorkflowState
from recoup.model.workspace import FolderSource
from recoup.ports import Ledger
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import SUCCESS, ScriptedRuntime, exits

BROKEN = exits(2, "AssertionError: the sum is wrong")
FLAKY = exits(1, "error: connection reset by peer")


class Performed:
    """A runtime that does this."""

    inline = True

    def __init__(self, deed: Callable[[Order], Awaitable[Outcome]]) -> None:
        self._deed = deed

    async def perform(self, order: Order, _hooks: object) -> Outcome:
        return await self._deed(order)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path, policy=Policy(backoff_ms=1))
    yield one
    await one.ledger.close()


async def force(house: House, mode: Mode) -> None:
    await force_mode(
        *(house.ledger, house.redactor, "workflow", mode),
        reason="because",
        actor="op",
        for_s=None,
        policy=house.policy,
        now=house.clock.now(),
    )


async def mode(house: House) -> Mode:
    return standing((await house.ledger.workflow_state("workflow")).health, house.clock.now()).mode


async def test_an_attempt_of_a_probe_that_is_tried_again_is_no_failed_probe(house: House) -> None:
    """Although a step that was under way when the quarantine began has failed since."""

    async def fails_in_quarantine(_order: Order) -> Outcome:
        await force(house, Mode.QUARANTINED)
        return BROKEN

    house.world.runtimes["run"] = Performed(fails_in_quarantine)  # type: ignore[index]
    once = Step(id="a", action=RunAction("true"), limits=Limits(max_attempts=1))
    assert (await house.run(plan_of(once), "straggler")).status is RunStatus.FAILED
    assert isinstance(house.clock, FakeClock)
    house.clock.advance(house.policy.quarantine_duration_s)
    house.world.runtimes["run"] = ScriptedRuntime({"a": [FLAKY, SUCCESS]})  # type: ignore[index]
    state = await house.run(plan_of("a"), "probe")
    assert (state.status, state.steps[0].spent.attempts) == (RunStatus.SUCCEEDED, 2)
    assert await mode(house) is Mode.DEGRADED


async def test_a_run_that_was_interrupted_before_it_began_is_blocked_and_not_interrupted(
    house: House,
) -> None:
    class FullDisk:
        async def create(self, _source: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    await house.submit(msgspec.structs.replace(plan_of("a"), workspace=FolderSource(".")))
    with pytest.raises(StateError):
        await (await house.driver("run-1", FullDisk())).drive()  # type: ignore[arg-type]
    assert (await house.state("run-1")).driver.interrupted
    await force(house, Mode.PAUSED)
    state = await (await house.driver("run-1")).drive()
    assert (state.status, state.driver.delivery, exit_code(state)) == (RunStatus.BLOCKED, 0, 4)


async def test_cleaning_up_after_a_quarantine_is_no_probe(house: House) -> None:
    """What failed before the quarantine is counted when the run gives up, and proves nothing about the time after."""
    cleans = (Handler(action=RunAction("true")),)
    step = Step(id="a", action=RunAction("true"), always=cleans, limits=Limits(max_attempts=1))
    performed: list[str] = []

    async def fails_then_cleans(order: Order) -> Outcome:
        performed.append(order.step_id)
        if len(performed) == 1:
            await force(house, Mode.QUARANTINED)
            return BROKEN
        return SUCCESS

    house.world.runtimes["run"] = Performed(fails_then_cleans)  # type: ignore[index]
    state = await house.run(plan_of(step))
    assert state.status is RunStatus.BLOCKED
    assert state.progress.always_pending
    assert isinstance(house.clock, FakeClock)
    house.clock.advance(house.policy.quarantine_duration_s)
    state = await (await house.driver("run-1")).drive()
    assert (state.status, len(performed)) == (RunStatus.FAILED, 2)
    assert await mode(house) is Mode.DEGRADED
    health = (await house.ledger.workflow_state("workflow")).health
    assert (health.permits, health.half_open) == ((), True), "the next run may probe"


class BusyAtFirst:
    """The ledger, but for one question that it has no time for."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def workflow_state(self, workflow: str) -> WorkflowState:
        self.asked += 1
        if self.asked == 1:
            raise LedgerBusy("no turn at the ledger within 5 s")
        return await self._ledger.workflow_state(workflow)


async def test_a_look_that_the_ledger_had_no_time_for_is_taken_again_at_the_next_occasion(
    house: House,
) -> None:
    """Found by a storm: for a second everything could go on, although all of it was paused."""
    await house.submit(plan_of("a"))
    house.world = msgspec.structs.replace(house.world, ledger=BusyAtFirst(house.ledger))
    around = (await house.driver("run-1"))._surroundings
    await force_mode(
        *(house.ledger, house.redactor, EVERY_WORKFLOW, Mode.PAUSED),
        reason="because",
        actor="op",
        for_s=None,
        policy=house.policy,
        now=house.clock.now(),
    )
    await around.look()
    assert around.refusal is None
    await around.look()
    assert around.refusal is not None


async def test_nothing_begins_with_the_end_of_a_step_after_a_look_that_the_ledger_had_no_time_for(
    house: House,
) -> None:
    """Found by a storm: the next step began three seconds after everything was paused."""
    clock = house.clock
    assert isinstance(clock, FakeClock)
    busy, performed = BusyAtFirst(house.ledger), list[str]()
    busy.asked = 1

    async def deed(order: Order) -> Outcome:
        performed.append(order.step_id)
        await force_mode(
            *(house.ledger, house.redactor, EVERY_WORKFLOW, Mode.PAUSED),
            reason="because",
            actor="op",
            for_s=None,
            policy=house.policy,
            now=clock.now(),
        )
        clock.advance(3)
        busy.asked = 0
        return SUCCESS

    await house.submit(plan_of("a", "b"))
    house.world = msgspec.structs.replace(house.world, ledger=busy, runtimes={"run": Performed(deed)})
    state = await (await house.driver("run-1")).drive()
    assert (state.status, performed) == (RunStatus.BLOCKED, ["a"])
