"""The attempt loop on a real ledger, with a scripted runtime and time that flies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from recoup.engine.claim import Claimed, Held, claim
from recoup.errors import LeaseLost
from recoup.kernel.documents import exit_code
from recoup.kernel.prefix import frontier, known_good_prefix_length, ledger_document
from recoup.ledger.sqlite import SqliteLedger
from recoup.model import events as ev
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.ids import Lease, ProcessIdentity, run_stream
from recoup.model.outcome import Captured, Order, Outcome
from recoup.model.plan import FileCheck, Limits, RegexOutput, Repeat, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunStatus, Verdict
from recoup.model.storage import Control, LeaseRow
from recoup.ports import Hooks
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import SUCCESS, ScriptedRuntime, exits, hangs

T = TypeVar("T")
RESET = "error: connection reset by peer"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path)
    yield one
    await one.ledger.close()


def with_script(house: House, **script: list[Outcome]) -> ScriptedRuntime:
    runtime = ScriptedRuntime({name.replace("_", "-"): told for name, told in script.items()})
    return replace_runtime(house, runtime)


def replace_runtime(house: House, runtime: T) -> T:
    house.world.runtimes["run"] = runtime  # type: ignore[index]
    return runtime


class Frozen:
    """A runtime whose attempts never end; `begun` tells that one has begun."""

    inline = False

    def __init__(self, keeper: ProcessIdentity | None) -> None:
        self.keeper = keeper
        self.begun = asyncio.Event()
        self.stopped = False

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        if self.keeper is not None:
            await hooks.launched(self.keeper)
        self.begun.set()
        await hooks.stop.wait()
        self.stopped = True
        return Outcome(interrupted=True)


KEEPER = ProcessIdentity("driver", "boot-1", 4242, 7)


async def abandon(house: House, runtime: Frozen, run_id: str = "run-1") -> None:
    """Drive until an attempt hangs, then lose the driver as kill -9 would: nothing more is written."""
    driver = await house.driver(run_id)
    task = asyncio.create_task(driver.drive())
    await runtime.begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    house.census.restart()


async def test_a_plan_without_failures_succeeds_and_its_ledger_is_complete(house: House) -> None:
    state = await house.run(plan_of("a", "b", "c"))
    document = ledger_document(state)
    assert (state.status, exit_code(state)) == (RunStatus.SUCCEEDED, 0)
    assert (document.known_good_prefix_length, document.frontier) == (3, None)
    assert [step.verdict for step in document.steps] == ["unverified"] * 3
    assert all((step.args_digest or "").startswith("sha256:") for step in document.steps)


async def test_a_passed_step_and_the_next_start_share_one_commit(house: House) -> None:
    await house.run(plan_of("a", "b"))
    events = await house.ledger.read(run_stream("run-1"))
    finished = next(e for e in events if e.type == ev.AttemptFinished.TYPE)
    following = events[finished.seq]
    assert following.type == ev.AttemptStarted.TYPE
    assert following.at == finished.at


async def test_a_hang_is_followed_by_a_soft_reset_and_success(house: House) -> None:
    with_script(house, b=[hangs()])
    state = await house.run(plan_of("a", "b"))
    healed = [e.payload for e in house.seen if isinstance(e.payload, ev.SelfHealTriggered)]
    assert state.status is RunStatus.SUCCEEDED
    assert [(h.strategy, h.failure_class, h.failure_kind) for h in healed] == [
        ("soft_reset", FailureClass.STUCK_NO_PROGRESS, FailureKind.IDLE_TIMEOUT)
    ]
    assert state.steps[1].spent.attempts == 2


async def test_the_wait_before_each_attempt_doubles(tmp_path: Path) -> None:
    clock = FakeClock()
    house = House(tmp_path, clock=clock, policy=Policy(step_max_attempts=4))
    with_script(house, a=[exits(1, f"{RESET} {n}") for n in "xyz"])
    before = clock.now()
    await house.run(plan_of("a"))
    starts = [e.at for e in house.seen if e.type == ev.AttemptStarted.TYPE]
    gaps = [(later.boot_us - earlier.boot_us) / 1e6 for earlier, later in pairwise(starts)]
    assert [round(gap, 1) for gap in gaps] == [0.5, 1.0, 2.0]
    assert clock.now().boot_us > before.boot_us
    await house.ledger.close()


class Set(FakeClock):
    """Whose wall clock somebody sets as soon as a wait of a second has begun."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def wait(self, wake: asyncio.Event, timeout_s: float | None) -> bool:
        if timeout_s is not None and 0.9 < timeout_s <= 1:
            self.jump_wall(self._seconds)
        return await super().wait(wake, timeout_s)


@pytest.mark.parametrize("seconds", [-3600, 3600, 10 * 365 * 86_400])
async def test_a_wall_clock_that_is_set_during_a_backoff_changes_no_wait(
    tmp_path: Path, seconds: int
) -> None:
    house = House(tmp_path, clock=Set(seconds), policy=Policy(step_max_attempts=3))
    with_script(house, a=[exits(1, f"{RESET} {n}") for n in "xy"])
    await house.run(plan_of("a"))
    starts = [e.at for e in house.seen if e.type == ev.AttemptStarted.TYPE]
    assert abs(starts[2].wall_us - starts[0].wall_us) > 3_000_000_000, "it was set meanwhile"
    assert [round((b.boot_us - a.boot_us) / 1e6, 1) for a, b in pairwise(starts)] == [0.5, 1.0]
    await house.ledger.close()


class Halting(FakeClock):
    """Stands still until it is told to go on."""

    stands = True

    def _rearm(self) -> None:
        if not self.stands:
            super()._rearm()


@pytest.mark.parametrize(("seconds", "waits_s"), [(0, 60), (20, 40), (-3600, 60), (10 * 365 * 86_400, 0)])
async def test_over_a_reboot_a_backoff_goes_on_by_the_wall_clock_and_for_no_longer_than_once(
    tmp_path: Path, seconds: int, waits_s: int
) -> None:
    clock = Halting()
    house = House(tmp_path, clock=clock, policy=Policy(backoff_ms=60_000, backoff_cap_ms=60_000))
    with_script(house, a=[exits(1, RESET)])
    await house.submit(plan_of("a"))
    driving = asyncio.create_task((await house.driver("run-1")).drive())
    while (await house.state("run-1")).steps[0].recovery.since is None:
        await asyncio.sleep(0.01)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    house.census.restart()
    clock.jump_wall(seconds)
    clock.reboot("boot-2")
    clock.stands = False
    assert (await (await house.driver("run-1")).drive()).status is RunStatus.SUCCEEDED
    last = [e.at for e in house.seen if e.type == ev.AttemptStarted.TYPE][-1]
    assert last.boot_us / 1e6 == pytest.approx(waits_s, abs=1)
    await house.ledger.close()


async def test_a_deterministic_failure_is_not_tried_again(house: House) -> None:
    runtime = with_script(house, b=[exits(127, "bash: nosuchtool: command not found")])
    state = await house.run(plan_of("a", "b", "c"))
    assert (state.status, exit_code(state)) == (RunStatus.FAILED, 1)
    assert state.failure.cls is FailureClass.DETERMINISTIC_CONTRACT
    assert runtime.performed == [("a", 1), ("b", 1)]
    edge = frontier(state)
    assert edge is not None
    assert (known_good_prefix_length(state), edge.step_id) == (1, "b")
    reasons = [step.invalidation_reason for step in ledger_document(state).steps]
    assert reasons[0] is None
    assert all(reasons[1:])


async def test_an_exhausted_run_is_retryable_and_goes_on_with_higher_attempt_numbers(house: House) -> None:
    runtime = with_script(house, b=[exits(1, f"{RESET} {n}") for n in "wxyz"])
    state = await house.run(plan_of("a", "b"))
    assert (state.status, state.failure.retryable, exit_code(state)) == (RunStatus.FAILED, True, 75)
    state = await (await house.driver("run-1")).drive()
    assert (state.status, state.driver.delivery) == (RunStatus.SUCCEEDED, 2)
    assert runtime.performed == [("a", 1), ("b", 1), ("b", 2), ("b", 3), ("b", 4), ("b", 5)]


async def test_the_last_delivery_ends_as_a_dead_letter_with_one_escalation(tmp_path: Path) -> None:
    house = House(tmp_path, policy=Policy(delivery_max=1))
    with_script(house, a=[exits(1, f"{RESET} {n}") for n in "xyz"])
    state = await house.run(plan_of("a"))
    assert (state.status, exit_code(state)) == (RunStatus.DEAD_LETTER, 1)
    assert len(await house.ledger.inbox()) == 1
    await house.ledger.close()


async def test_equal_failures_without_a_workspace_end_the_delivery_early(house: House) -> None:
    runtime = with_script(house, a=[exits(3, "boom")] * 5)
    state = await house.run(plan_of("a"))
    assert state.failure.cls is FailureClass.STUCK_NO_PROGRESS
    assert runtime.performed == [("a", 1), ("a", 2)]


async def test_a_cooldown_is_waited_for_and_shown(house: House) -> None:
    with_script(house, a=[exits(1, "429 too many requests, retry after 120 seconds")])
    state = await house.run(plan_of("a"))
    starts = [e.at.boot_us for e in house.seen if e.type == ev.AttemptStarted.TYPE]
    assert state.status is RunStatus.SUCCEEDED
    assert (starts[1] - starts[0]) / 1e6 >= 120
    assert ev.RunWaiting.TYPE in await house.types()


async def test_a_workflow_that_retries_too_much_stops_retrying(tmp_path: Path) -> None:
    """Retry storms: no retry below half of the workflow's tokens."""
    patient = Policy(workflow_fail_max_in_window=200, workflow_count_window=200, workflow_count_min=200)
    house = House(tmp_path, policy=patient)
    state = None
    for number in range(30):
        with_script(house, a=[exits(1, f"{RESET} {n}") for n in "xyz"])
        state = await house.run(plan_of("a"), f"run-{number}")
    assert state is not None
    assert "retry_tokens" in state.reason
    assert state.steps[0].spent.attempts == 1
    await house.ledger.close()


async def test_outputs_reach_later_steps_and_change_their_digest(house: House) -> None:
    said = b"got 42 rows\n"
    with_script(house, count=[Outcome(exit_code=0, stdout=Captured(said, b"", len(said)))])
    count = Step(id="count", action=RunAction("count"), outputs={"rows": RegexOutput(r"got (\d+) rows")})
    use = Step(id="use", action=RunAction("use ${{ steps.count.outputs.rows }}"))
    orders: list[Order] = []
    scripted = house.world.runtimes["run"]

    class Recording:
        inline = True

        async def perform(self, order: Order, hooks: Hooks) -> Outcome:
            orders.append(order)
            return await scripted.perform(order, hooks)

    replace_runtime(house, Recording())
    state = await house.run(plan_of(count, use))
    assert state.steps[0].results.outputs == {"rows": "42"}
    assert orders[1].action == RunAction("use '42'")


async def test_an_output_that_cannot_be_had_fails_the_step(house: House) -> None:
    step = Step(id="a", action=RunAction("a"), outputs={"rows": RegexOutput("nothing like it")})
    state = await house.run(plan_of(step))
    assert (state.status, state.failure.kind) == (RunStatus.FAILED, FailureKind.OUTPUT_INVALID)


async def test_a_step_whose_condition_does_not_hold_is_skipped_and_the_prefix_goes_on(house: House) -> None:
    state = await house.run(plan_of("a", Step(id="b", action=RunAction("b"), when="no"), "c"))
    assert state.status is RunStatus.SUCCEEDED
    assert (state.steps[1].verdict, state.steps[1].skipped) == (Verdict.NOT_RUN, True)
    assert known_good_prefix_length(state) == 3


async def test_cancel_ends_a_running_attempt_and_beats_the_retry(house: House) -> None:
    runtime = replace_runtime(house, Frozen(KEEPER))
    await house.submit(plan_of("a", "b"))
    driving = asyncio.create_task((await house.driver("run-1")).drive())
    await runtime.begun.wait()
    await house.ledger.send_control(cancel())
    state = await driving
    answered = await house.ledger.control("c1")
    assert runtime.stopped
    assert (state.status, exit_code(state)) == (RunStatus.CANCELLED, 6)
    assert answered is not None
    assert (answered.outcome, answered.epoch) == ("accepted", 1)
    assert state.steps[0].open is None


async def test_a_control_that_makes_no_sense_is_refused_and_disturbs_nothing(house: House) -> None:
    runtime = replace_runtime(house, Frozen(KEEPER))
    await house.submit(plan_of("a"))
    driver = await house.driver("run-1")
    driving = asyncio.create_task(driver.drive())
    await runtime.begun.wait()
    await house.ledger.send_control(cancel(action="settle"))
    while (await answer(house)) is None:
        await asyncio.sleep(0.01)
    assert await answer(house) == "refused"
    assert not runtime.stopped
    driver.interrupt("enough")
    assert exit_code(await driving) == 130


async def test_cancel_of_a_finished_run_is_refused(house: House) -> None:
    await house.run(plan_of("a"))
    await house.ledger.send_control(cancel())
    state = await (await house.driver("run-1")).answer()
    assert state.status is RunStatus.SUCCEEDED
    assert await answer(house) == "refused"


async def test_a_waiting_control_keeps_the_next_step_from_starting(house: House) -> None:
    """finished(n) and started(n+1) share a commit only if no control waits: the transaction itself looks."""

    async def perform(order: Order, hooks: Hooks) -> Outcome:
        if order.step_id == "a":
            await house.ledger.send_control(cancel())
        return SUCCESS

    replace_runtime(house, type("Sender", (), {"inline": True, "perform": staticmethod(perform)})())
    state = await house.run(plan_of("a", "b"))
    assert state.status is RunStatus.CANCELLED
    assert state.steps[0].verdict is Verdict.UNVERIFIED
    assert state.steps[1].spent.attempts == 0


async def test_an_interrupted_run_goes_on_where_it_was(house: House) -> None:
    runtime = replace_runtime(house, Frozen(KEEPER))
    await house.submit(plan_of("a"))
    driver = await house.driver("run-1")
    driving = asyncio.create_task(driver.drive())
    await runtime.begun.wait()
    driver.interrupt("interrupted by Ctrl-C")
    state = await driving
    assert (state.status, exit_code(state)) == (RunStatus.RUNNING, 130)
    replace_runtime(house, ScriptedRuntime())
    state = await (await house.driver("run-1")).drive()
    assert (state.status, state.driver.takeovers) == (RunStatus.SUCCEEDED, 0)


async def test_a_lost_driver_costs_one_attempt_and_no_finished_step(house: House) -> None:
    await house.submit(plan_of("a", "b"))
    await abandon(house, replace_runtime(house, Frozen(KEEPER)))
    runtime = replace_runtime(house, ScriptedRuntime())
    state = await (await house.driver("run-1")).drive()
    assert (state.status, state.driver.takeovers) == (RunStatus.SUCCEEDED, 1)
    assert runtime.performed == [("a", 2), ("b", 1)]
    assert KEEPER in house.census.dead


async def test_an_attempt_that_was_never_launched_is_not_spent(house: House) -> None:
    await house.submit(plan_of("a"))
    await abandon(house, replace_runtime(house, Frozen(None)))
    runtime = replace_runtime(house, ScriptedRuntime())
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.SUCCEEDED
    assert runtime.performed == [("a", 1)]


async def test_a_driver_that_is_lost_too_often_is_handed_over(tmp_path: Path) -> None:
    house = House(tmp_path, policy=Policy(takeovers_max=1, step_max_attempts=9))
    await house.submit(plan_of("a"))
    for _ in range(2):
        await abandon(house, replace_runtime(house, Frozen(KEEPER)))
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.DEAD_LETTER
    assert "takeovers_max" in state.reason
    await house.ledger.close()


async def test_a_lost_step_whose_checks_came_true_is_already_done(house: House, tmp_path: Path) -> None:
    step = Step(id="deploy", action=RunAction("deploy"), expect=(FileCheck("deployed"),), repeat=Repeat.NEVER)
    await house.submit(plan_of(step, folder=str(tmp_path)))
    await abandon(house, replace_runtime(house, Frozen(KEEPER)))
    (tmp_path / "deployed").touch()
    runtime = replace_runtime(house, ScriptedRuntime())
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.SUCCEEDED
    assert runtime.performed == []


async def test_a_check_that_held_before_the_step_began_proves_nothing(house: House, tmp_path: Path) -> None:
    (tmp_path / "deployed").touch()
    step = Step(id="deploy", action=RunAction("deploy"), expect=(FileCheck("deployed"),))
    await house.submit(plan_of(step, folder=str(tmp_path)))
    await abandon(house, replace_runtime(house, Frozen(KEEPER)))
    runtime = replace_runtime(house, ScriptedRuntime())
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.SUCCEEDED
    assert runtime.performed == [("deploy", 2)]


@pytest.mark.parametrize(("word", "performed"), [("done", []), ("not-done", [("pay", 2)])])
async def test_an_unknown_outcome_that_must_not_repeat_is_settled_by_an_operator(
    house: House, word: str, performed: list[tuple[str, int]]
) -> None:
    step = Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER)
    await house.submit(plan_of(step))
    await abandon(house, replace_runtime(house, Frozen(KEEPER)))
    runtime = replace_runtime(house, ScriptedRuntime())
    state = await (await house.driver("run-1")).drive()
    assert (state.status, exit_code(state)) == (RunStatus.ESCALATED, 5)
    assert len(await house.ledger.inbox()) == 1
    await house.ledger.send_control(cancel(action="settle", argument=word))
    state = await (await house.driver("run-1")).answer()
    assert (state.status, await answer(house)) == (RunStatus.WAITING, "accepted")
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.SUCCEEDED
    assert runtime.performed == performed


async def test_a_step_that_timed_out_and_must_not_repeat_is_handed_over(house: House) -> None:
    with_script(house, pay=[hangs(FailureKind.WALL_TIMEOUT)])
    state = await house.run(plan_of(Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER)))
    assert state.status is RunStatus.ESCALATED


async def test_a_run_has_one_driver(house: House) -> None:
    await house.submit(plan_of("a"))
    await house.driver("run-1")
    assert isinstance(await claim(house.world, "run-1"), Held)


class ReleasedMeanwhile(SqliteLedger):
    """Whoever holds the lease releases it just before somebody looks at it."""

    to_release: Lease | None = None

    async def lease(self, run_id: str) -> LeaseRow | None:
        if self.to_release is not None:
            await self.release(self.to_release)
            self.to_release = None
        return await super().lease(run_id)


async def test_a_run_that_is_released_while_it_is_looked_at_is_claimed(tmp_path: Path) -> None:
    ledger = ReleasedMeanwhile(tmp_path / "released.db")
    house = House(tmp_path, ledger=ledger)
    await house.submit(plan_of("a"))
    first = await claim(house.world, "run-1")
    assert isinstance(first, Claimed)
    ledger.to_release = first.lease
    assert isinstance(await claim(house.world, "run-1"), Claimed)
    await ledger.close()


async def test_a_stale_driver_is_refused_and_writes_nothing(house: House) -> None:
    await house.submit(plan_of("a", "b"))
    stale = await house.driver("run-1")
    house.census.restart()
    fresh = await house.driver("run-1")
    head = await house.ledger.head(run_stream("run-1"))
    with pytest.raises(LeaseLost, match=r"another driver .* has taken run run-1 over") as lost:
        await stale.drive()
    assert lost.value.replaced
    assert await house.ledger.head(run_stream("run-1")) == head
    assert (await fresh.drive()).status is RunStatus.SUCCEEDED


async def test_a_driver_that_loses_its_lease_stops_its_attempt(house: House) -> None:
    runtime = replace_runtime(house, Frozen(KEEPER))
    await house.submit(plan_of("a"))
    driving = asyncio.create_task((await house.driver("run-1")).drive())
    await runtime.begun.wait()
    house.census.restart()
    await house.driver("run-1")
    with pytest.raises(LeaseLost):
        await driving
    assert runtime.stopped


async def test_the_live_state_is_the_fold_of_the_ledger(house: House) -> None:
    with_script(house, b=[hangs(), exits(1, RESET)])
    live = await house.run(plan_of("a", "b", "c"))
    assert live == await house.state("run-1")


async def test_a_run_out_of_time_ends(tmp_path: Path) -> None:
    house = House(tmp_path, policy=Policy(run_timeout_seconds=100, backoff_ms=60_000, step_max_attempts=9))
    with_script(house, a=[exits(1, f"{RESET} {n}") for n in "vwxyz"])
    state = await house.run(plan_of("a"))
    assert state.status is RunStatus.FAILED
    assert "run_timeout" in state.reason
    await house.ledger.close()


async def test_limits_of_a_step_beat_those_of_the_policy(house: House) -> None:
    runtime = with_script(house, a=[exits(1, f"{RESET} {n}") for n in "xyz"])
    step = Step(id="a", action=RunAction("a"), limits=Limits(max_attempts=1))
    state = await house.run(plan_of(step))
    assert state.status is RunStatus.FAILED
    assert runtime.performed == [("a", 1)]


async def test_every_decision_names_a_policy_that_can_be_read(house: House) -> None:
    with_script(house, a=[exits(1, RESET)])
    await house.run(plan_of(Step(id="a", action=RunAction("a"), limits=Limits(max_attempts=2))))
    digests = {
        e.payload.policy_digest
        for e in house.seen
        if isinstance(e.payload, ev.AttemptFailed | ev.SelfHealTriggered)
    }
    assert len(digests) == 1
    for digest in digests:
        assert digest is not None
        assert await house.ledger.policy_body(digest) is not None


def cancel(action: str = "cancel", argument: str | None = None) -> Control:
    now = FakeClock().now()
    return Control(
        id="c1", run_id="run-1", action=action, reason="why not", actor="me", at=now, argument=argument
    )


async def answer(house: House) -> str | None:
    control = await house.ledger.control("c1")
    assert control is not None
    return control.outcome


async def test_no_wait_ends_after_the_runs_own_time(tmp_path: Path) -> None:
    house = House(tmp_path, policy=Policy(run_timeout_seconds=100))
    runtime = with_script(house, a=[exits(1, "429 too many requests, retry after 600 seconds")])
    state = await house.run(plan_of("a"))
    assert (state.status, state.failure.retryable, exit_code(state)) == (RunStatus.FAILED, False, 1)
    assert "run_timeout" in state.reason
    assert runtime.performed == [("a", 1)]
    await house.ledger.close()


async def test_time_in_which_nobody_works_does_not_count(tmp_path: Path) -> None:
    clock = FakeClock()
    house = House(tmp_path, clock=clock, policy=Policy(run_timeout_seconds=100))
    await house.submit(plan_of(Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER), "after"))
    await abandon(house, replace_runtime(house, Frozen(KEEPER)))
    replace_runtime(house, ScriptedRuntime())
    assert (await (await house.driver("run-1")).drive()).status is RunStatus.ESCALATED
    clock.advance(3 * 86_400)
    await house.ledger.send_control(cancel(action="settle", argument="done"))
    await (await house.driver("run-1")).answer()
    clock.advance(86_400)
    assert (await (await house.driver("run-1")).drive()).status is RunStatus.SUCCEEDED
    await house.ledger.close()


async def test_every_lost_driver_is_counted_also_before_the_run_began(tmp_path: Path) -> None:
    house = House(tmp_path, policy=Policy(takeovers_max=2))
    await house.submit(plan_of("a"))
    for _ in range(3):
        await house.driver("run-1")
        house.census.restart()
    state = await (await house.driver("run-1")).drive()
    assert state.driver.takeovers == 1
    assert ev.RunTakenOver.TYPE in await house.types()
    await house.ledger.close()


async def test_the_frontier_of_a_run_that_ended_says_why(house: House) -> None:
    use = Step(id="use", action=RunAction("use ${{ steps.a.outputs.nothing }}"))
    state = await house.run(plan_of("a", use))
    edge = frontier(state)
    assert edge is not None
    assert "nothing" in edge.reason


async def test_a_failed_attempt_records_what_the_budget_held(house: House) -> None:
    with_script(house, a=[exits(1, RESET)])
    await house.run(plan_of("a"))
    (failed,) = [e.payload for e in house.seen if isinstance(e.payload, ev.AttemptFailed)]
    assert failed.retry_tokens == 99


async def test_a_control_sent_during_a_cooldown_is_answered_at_once(house: House) -> None:
    with_script(house, a=[exits(1, "429 too many requests, retry after 300 seconds")])
    await house.submit(plan_of("a"))
    began = house.clock.now()
    driving = asyncio.create_task((await house.driver("run-1")).drive())
    while RunStatus.WAITING not in {(await house.state("run-1")).status}:
        await asyncio.sleep(0)
    await house.ledger.send_control(cancel(action="settle"))
    while (await answer(house)) is None:
        await asyncio.sleep(0.001)
    assert await answer(house) == "refused"
    assert (house.clock.now().boot_us - began.boot_us) / 1e6 < 300
    assert (await driving).status is RunStatus.SUCCEEDED


async def test_the_ledger_document_stays_small_whatever_the_outputs(house: House) -> None:
    said = b"got " + b"x" * 50_000 + b"\n"
    with_script(house, a=[Outcome(exit_code=0, stdout=Captured(said, b"", len(said)))])
    state = await house.run(
        plan_of(Step(id="a", action=RunAction("a"), outputs={"o": RegexOutput("got (x+)")}))
    )
    (step,) = ledger_document(state).steps
    assert step.outputs["o"]["bytes"] == 50_002
    assert len(str(ledger_document(state))) < 2_000


async def test_an_agent_that_was_denied_a_tool_and_found_another_way_is_done(
    house: House, tmp_path: Path
) -> None:
    denied = Outcome(kind=FailureKind.TOOL_DENIED, exit_code=0, agent=ev.AgentReport(cli="claude"))
    with_script(house, a=[denied, denied])
    (tmp_path / "made").touch()
    step = Step(id="a", action=RunAction("a"), expect=(FileCheck(str(tmp_path / "made")),))
    state = await house.run(plan_of(step))
    assert (state.status, state.steps[0].verdict) == (RunStatus.SUCCEEDED, Verdict.PASSED)
    state = await house.run(plan_of(msgspec.structs.replace(step, expect=(FileCheck("absent"),))), "run-2")
    assert (state.status, state.failure.cls) == (RunStatus.FAILED, FailureClass.DETERMINISTIC_POLICY)


async def test_an_agent_that_fails_alike_in_other_words_is_stuck(house: House) -> None:
    def claims(text: str) -> Outcome:
        said = Captured(text.encode(), b"", len(text))
        return Outcome(exit_code=0, stdout=said, agent=ev.AgentReport(cli="claude", last_command="pytest"))

    with_script(house, a=[claims("I fixed the parser."), claims("Done: all is well now!")])
    step = Step(id="a", action=RunAction("a"), expect=(FileCheck("absent"),))
    state = await house.run(plan_of(step))
    failed = [e.payload for e in house.seen if isinstance(e.payload, ev.AttemptFailed)]
    assert [one.failure_class for one in failed] == [FailureClass.UNKNOWN, FailureClass.STUCK_NO_PROGRESS]
    assert state.steps[0].agent.last_command == "pytest"


async def test_a_step_that_must_not_be_repeated_and_ended_well_without_its_traces_goes_to_a_person(
    house: House,
) -> None:
    runtime = with_script(house)
    paid = Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER, expect=(FileCheck("receipt"),))
    state = await house.run(plan_of(paid))
    assert (state.status, runtime.performed) == (RunStatus.ESCALATED, [("pay", 1)])


async def test_a_step_that_says_that_a_disk_is_full_fails_as_that(tmp_path: Path) -> None:
    """Not ours: the machine would know about that."""
    said = exits(1, "write /var/lib/images/tmp: no space left on device")
    house = House(tmp_path, ScriptedRuntime({"a": [said] * 3}))
    state = await house.run(plan_of("a"))
    assert state.failure.kind is FailureKind.DISK_FULL
    await house.ledger.close()
