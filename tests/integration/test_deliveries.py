"""What a worker does with one run: the real engine and ledger, a scripted runtime, and time that flies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.dispatch.local import LocalDispatch
from recoup.engine.claim import Claimed
from recoup.engine.driver import Driver
from recoup.engine.forcing import force_mode
from recoup.engine.verification import TROUBLES_MAX
from recoup.engine.world import Job
from recoup.errors import MachineTrouble, NotFound, SettingsError, StateError
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import NoSecrets
from recoup.fleet.delivering import (
    CLOSED_S,
    CROWDED_S,
    DUE_MAX_S,
    PAGE_BUSY_S,
    PAGE_FREE_S,
    REFUSALS_MAX,
    Deliveries,
    Left,
)
from recoup.fleet.overview import worker_document
from recoup.fleet.worker import PROBES_UNTIL_IDLE, Notice, Shift, Worker
from recoup.kernel.fold import fold
from recoup.model import events as ev
from recoup.model.dispatch import Hint, Taken
from recoup.model.ids import ProcessIdentity, run_stream
from recoup.model.instant import Instant
from recoup.model.mode import Mode
from recoup.model.outcome import Order, Outcome
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Append, Control, Draft, StreamAppend, WorkerRow
from recoup.model.target import Fingerprint
from recoup.ports import Hooks
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import ScriptedRuntime, exits

RESET = exits(1, "error: connection reset by peer")
ONE_TRY = Policy(step_max_attempts=1)
OTHER = ProcessIdentity("elsewhere", "boot-9", 77, 1)


class Crew(House):
    """A house in which runs belong to a queue."""

    drivers: list[Driver]

    @property
    def time(self) -> FakeClock:
        assert isinstance(self.clock, FakeClock)
        return self.clock

    async def queue(self, run_id: str, **how: object) -> None:
        plan = how.pop("plan", None) or plan_of("a", "b")
        fact = ev.RunSubmitted(
            **{
                "workflow": plan.name,  # type: ignore[attr-defined]
                "plan_digest": "p",
                "plan": plan,
                "plan_redacted": False,
                "inputs": {},
                "policy_digest": "policy",
                "queue": "q",
                **how,
            }
        )
        draft = Draft(fact.TYPE, self.redactor.seal(fact))
        await self.ledger.append(
            Append(at=self.clock.now(), streams=(StreamAppend(run_stream(run_id), (draft,), 0),))
        )

    def deliveries(self, driver: Callable[[RunState], None] = lambda _state: None) -> Deliveries:
        return Deliveries(self.world, _Source(self, driver))

    async def deliver(self, run_id: str = "r") -> Left:
        return await self.deliveries().deliver(run_id, lambda _driver: None)

    def job(self, state: RunState) -> Job:
        files = RunFolder(self.root / "runs" / state.run_id)
        return Job(state.run_id, state.plan, self.policy, files, self.redactor, NoSecrets(), None)


class _Source:
    """The runs of a crew; `driver` is called where one is made."""

    def __init__(self, crew: Crew, driver: Callable[[RunState], None]) -> None:
        self._crew = crew
        self._driver = driver

    async def known_state(self, run_id: str) -> RunState | None:
        events = await self._crew.ledger.read(run_stream(run_id))
        return fold(run_id, events) if events else None

    async def policy_of(self, _state: RunState) -> Policy:
        return self._crew.policy

    async def driver_of(self, state: RunState, taken: Claimed) -> Driver:
        self._driver(state)
        return self.decliner_of(state, self._crew.policy, taken)

    def decliner_of(self, state: RunState, _policy: Policy, taken: Claimed) -> Driver:
        return Driver(self._crew.world, self._crew.job(state), state, taken.lease, taken.replaced)

    async def report_if_due(self, _state: RunState) -> list[str]:
        return []


def crew(tmp_path: Path, policy: Policy = ONE_TRY, **script: list[Outcome]) -> Crew:
    return Crew(tmp_path, ScriptedRuntime(script), policy=policy)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[Crew]:
    one = crew(tmp_path)
    yield one
    await one.ledger.close()


async def test_a_run_is_driven_to_its_end(house: Crew) -> None:
    await house.queue("r")
    left = await house.deliver()
    assert (left.again_in_s, left.state and left.state.status) == (None, RunStatus.SUCCEEDED)
    again = await house.deliver()
    assert (again.again_in_s, "over" in again.words) == (None, True)
    assert (await house.deliver("nobody")).again_in_s is None


async def test_an_exhausted_run_is_delivered_again_after_its_backoff_and_goes_on(tmp_path: Path) -> None:
    house = crew(tmp_path, Policy(step_max_attempts=2), b=[RESET, RESET])
    await house.queue("r")
    first = await house.deliver()
    assert first.state is not None
    assert (first.state.status, first.state.failure.retryable, first.state.driver.delivery) == (
        RunStatus.FAILED,
        True,
        1,
    )
    assert first.again_in_s == pytest.approx(15, abs=1)

    early = await house.deliver()
    assert early.again_in_s == pytest.approx(15, abs=1)
    assert len(await house.types("r")) == first.state.seq, "nothing was recorded"

    house.time.advance(15)
    second = await house.deliver()
    assert second.state is not None
    assert (second.state.status, second.state.driver.delivery) == (RunStatus.SUCCEEDED, 2)
    assert isinstance(house.runtime, ScriptedRuntime)
    assert house.runtime.performed == [("a", 1), ("b", 1), ("b", 2), ("b", 3)], (
        "numbers go on, a is not repeated"
    )
    await house.ledger.close()


async def test_after_the_last_delivery_a_run_is_a_dead_letter_with_an_escalation(tmp_path: Path) -> None:
    house = crew(tmp_path, Policy(step_max_attempts=1, delivery_max=2), a=[RESET] * 9)
    await house.queue("r")
    waits = []
    while (left := await house.deliver()).again_in_s is not None:
        waits.append(round(left.again_in_s))
        house.time.advance(left.again_in_s)
    assert left.state is not None
    assert (left.state.status, left.state.driver.delivery, waits) == (RunStatus.DEAD_LETTER, 2, [15])
    assert len(await house.ledger.inbox()) == 1
    await house.ledger.close()


async def test_what_is_not_retryable_fails_at_once(tmp_path: Path) -> None:
    house = crew(tmp_path, a=[exits(1, "permission denied: invalid credentials")])
    await house.queue("r")
    left = await house.deliver()
    assert left.state is not None
    assert (left.state.status, left.state.failure.retryable, left.again_in_s) == (
        RunStatus.FAILED,
        False,
        None,
    )
    await house.ledger.close()


async def test_a_run_that_is_to_be_cancelled_is_cancelled_though_it_could_be_tried_again(
    tmp_path: Path,
) -> None:
    house = crew(tmp_path, a=[RESET])
    await house.queue("r")
    await house.deliver()
    wish = Control(id="c", run_id="r", action="cancel", reason="no", actor="op", at=house.clock.now())
    await house.ledger.send_control(wish)
    house.time.advance(20)
    left = await house.deliver()
    assert left.state is not None
    assert (left.state.status, left.again_in_s) == (RunStatus.CANCELLED, None)
    await house.ledger.close()


async def test_a_run_is_not_begun_before_its_time(house: Crew) -> None:
    await house.queue("r", not_before_us=house.clock.now().plus_s(60).wall_us)
    left = await house.deliver()
    assert left.again_in_s == pytest.approx(60, abs=0.1)
    assert await house.ledger.lease("r") is None
    house.time.advance(60)
    assert (await house.deliver()).again_in_s is None


@pytest.mark.parametrize("workflow", ["workflow", "*"])
async def test_a_run_of_a_stopped_workflow_is_not_claimed_and_spends_nothing(
    house: Crew, workflow: str
) -> None:
    await house.queue("r")
    force = (house.ledger, house.redactor, workflow)
    at = {"reason": "x", "actor": "op", "policy": house.policy, "now": house.clock.now()}
    await force_mode(*force, Mode.PAUSED, for_s=None, **at)  # type: ignore[arg-type]
    left = await house.deliver()
    assert left.again_in_s == CLOSED_S
    assert "paused" in left.words
    assert await house.ledger.lease("r") is None
    assert (await house.state("r")).seq == 1
    await force_mode(*force, Mode.RUNNING, for_s=None, **at)  # type: ignore[arg-type]
    left = await house.deliver()
    assert left.state is not None
    assert (left.state.status, left.state.driver.delivery) == (RunStatus.SUCCEEDED, 1)


async def test_a_run_that_finds_no_room_comes_again_soon(tmp_path: Path) -> None:
    house = crew(tmp_path, Policy(workflow_concurrency_max=1))
    await house.queue("r")
    await house.queue("other")
    lease = await house.ledger.claim("other", OTHER, 10, house.clock.now())
    assert lease is not None
    assert (await house.deliver()).again_in_s == CROWDED_S
    await house.ledger.release(lease)
    assert (await house.deliver()).again_in_s is None
    await house.ledger.close()


async def test_a_queue_has_its_own_limit(tmp_path: Path) -> None:
    house = crew(tmp_path, Policy(queue_concurrency_max=1))
    await house.queue("r", plan=plan_of("a", name="one"))
    await house.queue("other", plan=plan_of("a", name="two"))
    assert await house.ledger.claim("other", OTHER, 10, house.clock.now()) is not None
    assert (await house.deliver()).again_in_s == CROWDED_S
    await house.ledger.close()


async def test_what_another_worker_drives_is_left_to_it(house: Crew) -> None:
    await house.queue("r")
    await house.ledger.claim("r", OTHER, 10, house.clock.now())
    left = await house.deliver()
    assert (left.again_in_s, "another worker" in left.words) == (None, True)


async def test_five_deliveries_at_once_make_one_driver(house: Crew) -> None:
    await house.queue("r")
    left = await asyncio.gather(*[house.deliver() for _ in range(5)])
    assert sum(one.state is not None and "another worker" not in one.words for one in left) >= 1
    assert (await house.types("r")).count("task.run.started") == 1
    assert isinstance(house.runtime, ScriptedRuntime)
    assert house.runtime.performed == [("a", 1), ("b", 1)]


async def test_a_run_that_cannot_be_driven_here_spends_its_deliveries_and_says_why(house: Crew) -> None:
    def cannot(_state: RunState) -> None:
        raise NotFound("the plan of this run is on another machine")

    await house.queue("r")
    waits = []
    while True:
        left = await house.deliveries(cannot).deliver("r", lambda _driver: None)
        if left.again_in_s is None:
            break
        waits.append(round(left.again_in_s))
        house.time.advance(left.again_in_s)
    assert left.state is not None
    assert (left.state.status, waits) == (RunStatus.DEAD_LETTER, [15, 30])
    assert "the plan of this run is on another machine" in left.state.reason
    assert not left.state.begun
    (row,) = (await house.ledger.runs()).rows
    assert (row.status, row.delivery) == ("dead_letter", 3)


async def test_a_delivery_that_could_not_begin_is_followed_by_one_that_does(house: Crew) -> None:
    troubles = [OSError("no space left on device")]

    def once(_state: RunState) -> None:
        if troubles:
            raise troubles.pop()

    await house.queue("r")
    first = await house.deliveries(once).deliver("r", lambda _driver: None)
    assert "no space left" in first.words and first.trouble
    assert first.again_in_s == 0, "another worker may take it at once"
    second = await house.deliveries(once).deliver("r", lambda _driver: None)
    assert second.state is not None
    assert (second.state.status, second.state.driver.delivery, second.state.begun) == (
        RunStatus.SUCCEEDED,
        1,
        True,
    )


class FullDisk(ScriptedRuntime):
    async def perform(self, order: object, hooks: object) -> Outcome:
        raise StateError("no space left on device")


async def test_trouble_in_the_middle_spends_nothing_and_frees_the_run(tmp_path: Path) -> None:
    house = Crew(tmp_path, FullDisk(), policy=ONE_TRY)
    await house.queue("r")
    left = await house.deliver()
    assert left.state is not None and "no space left" in left.trouble
    assert (left.state.status, left.state.driver.delivery) == (RunStatus.RUNNING, 1)
    assert (left.state.driver.in_trouble, left.state.driver.troubles, left.again_in_s) == (True, 1, 0)
    row = await house.ledger.lease("r")
    assert row is not None and row.owner is None
    await house.ledger.close()


async def test_a_run_that_meets_trouble_on_machines_that_are_well_ends_as_a_dead_letter(
    tmp_path: Path,
) -> None:
    """It may be the trouble itself. Otherwise it would be taken for ever."""
    house = Crew(tmp_path, FullDisk(), policy=Policy(step_max_attempts=1, delivery_max=2))
    await house.queue("r")
    deliveries = house.deliveries()
    lefts: list[Left] = []
    while not lefts or lefts[-1].again_in_s is not None:
        lefts.append(await deliveries.deliver("r", lambda _driver: None))
        assert len(lefts) < 20
        house.time.advance(lefts[-1].again_in_s or 0)
    assert lefts[-1].state is not None and lefts[-1].state.status is RunStatus.DEAD_LETTER
    assert [bool(left.trouble) for left in lefts[:TROUBLES_MAX]] == [True] * TROUBLES_MAX
    await house.ledger.close()


async def test_a_run_never_pays_while_the_machine_is_known_to_be_in_trouble(tmp_path: Path) -> None:
    house = Crew(tmp_path, FullDisk(), policy=Policy(step_max_attempts=1, delivery_max=1))
    house.world = msgspec.structs.replace(house.world, machine=ScriptedMachine("the disk is full"))
    await house.queue("r")
    for _ in range(3 * TROUBLES_MAX):
        left = await house.deliver()
        assert left.trouble and left.state is not None and left.state.driver.delivery == 1
    await house.ledger.close()


class ScriptedMachine:
    """Says what it was told to, and counts how often it was asked."""

    def __init__(self, words: str | None) -> None:
        self.words = words
        self.probes = 0

    async def trouble(self) -> str | None:
        self.probes += 1
        return self.words

    def full(self, folder: str) -> str | None:
        del folder
        return None

    def is_home_disk(self, folder: str) -> bool:
        del folder
        return True

    def behind(self, error: Exception) -> str | None:
        del error
        return None


async def test_a_worker_in_trouble_takes_nothing_until_a_probe_write_works(house: Crew) -> None:
    machine = ScriptedMachine("the disk is full")
    house.world = msgspec.structs.replace(house.world, machine=machine)
    await house.queue("r")
    dispatch = LocalDispatch(house.root / "queue.db", house.clock)
    await dispatch.hint([Hint("r", "q")])
    notices: list[Notice] = []

    def say(notice: Notice) -> None:
        notices.append(notice)
        if len(notices) == 2:  # in trouble, and known to be
            assert notice.event == "trouble" and "the disk is full" in notice.words

    shift = Shift(worker_id="w", queues=("q",), until_idle=True)
    worker = Worker(house.deliveries(), dispatch, shift, say)
    working = asyncio.create_task(worker.work())
    while machine.probes < 3:
        await asyncio.sleep(0)
        assert worker.runs == ()
    (row,) = await house.ledger.workers(house.clock.now())
    assert worker_document(row, 10)["state"] == "troubled"
    assert worker_document(row, 10)["trouble"] == "the disk is full"
    machine.words = None
    await asyncio.wait_for(working, 60)
    assert [n.event for n in notices if n.event in ("trouble", "recovered", "taken")] == [
        *("trouble", "recovered", "taken")
    ]
    await dispatch.close()


async def test_a_worker_that_should_end_when_idle_ends_in_trouble_instead_of_waiting_for_ever(
    house: Crew,
) -> None:
    machine = ScriptedMachine("the disk is full")
    house.world = msgspec.structs.replace(house.world, machine=machine)
    await house.queue("r")
    dispatch = LocalDispatch(house.root / "queue.db", house.clock)
    shift = Shift(worker_id="w", queues=("q",), until_idle=True)
    with pytest.raises(MachineTrouble, match="the disk is full"):
        await asyncio.wait_for(Worker(house.deliveries(), dispatch, shift, lambda _: None).work(), 60)
    assert machine.probes == 1 + PROBES_UNTIL_IDLE
    await dispatch.close()


async def test_a_gate_frees_the_slot_and_an_answer_makes_the_run_wanted_again(house: Crew) -> None:
    from recoup.model.plan import ApproveAction, Step

    gate = Step(id="gate", action=ApproveAction("may it?"))
    await house.queue("r", plan=plan_of("a", gate, "b"))
    left = await house.deliver()
    assert left.again_in_s is None
    assert await house.ledger.wanting() == []
    wish = Control(id="c", run_id="r", action="approve", reason="yes", actor="op", at=house.clock.now())
    await house.ledger.send_control(wish)
    await (await house.driver("r")).answer()
    assert [run.run_id for run in await house.ledger.wanting()] == ["r"]
    left = await house.deliver()
    assert left.state is not None
    assert left.state.status is RunStatus.SUCCEEDED


# What a worker that stops, or is not set up, costs a run


class Waiting(ScriptedRuntime):
    """Works until it is stopped, the first times."""

    inline = False

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.begun = asyncio.Event()

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        await hooks.launched(ProcessIdentity("driver", "boot-1", 4242, order.attempt))
        self.performed.append((order.step_id, order.attempt))
        if len(self.performed) > self.times:
            return Outcome(exit_code=0)
        self.begun.set()
        await hooks.stop.wait()
        return Outcome(interrupted=True)


async def test_a_worker_that_is_told_to_stop_costs_no_attempt(tmp_path: Path) -> None:
    runtime = Waiting(5)
    house = Crew(tmp_path, runtime, policy=Policy(step_max_attempts=2))
    await house.queue("r", plan=plan_of("a"))
    for _ in range(5):
        drivers: list[Driver] = []
        delivering = asyncio.create_task(house.deliveries().deliver("r", drivers.append))
        await runtime.begun.wait()
        runtime.begun.clear()
        drivers[0].interrupt("its worker was told to stop")
        left = await delivering
        assert left.again_in_s == 0
    left = await house.deliver()
    assert left.state is not None
    assert (left.state.status, left.state.driver.delivery) == (RunStatus.SUCCEEDED, 1)
    assert runtime.performed == [("a", number) for number in range(1, 7)], "the numbers go on"
    await house.ledger.close()


async def test_a_step_that_must_not_be_repeated_is_handed_over_also_then(tmp_path: Path) -> None:
    from recoup.model.plan import Repeat, RunAction, Step

    runtime = Waiting(1)
    house = Crew(tmp_path, runtime, policy=Policy())
    await house.queue("r", plan=plan_of(Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER)))
    drivers: list[Driver] = []
    delivering = asyncio.create_task(house.deliveries().deliver("r", drivers.append))
    await runtime.begun.wait()
    drivers[0].interrupt("its worker was told to stop")
    await delivering
    left = await house.deliver()
    assert left.state is not None
    assert (left.state.status, left.again_in_s) == (RunStatus.ESCALATED, None)
    await house.ledger.close()


async def test_a_worker_that_is_not_set_up_for_a_run_leaves_it_to_others_first(house: Crew) -> None:
    def cannot(_state: RunState) -> None:
        raise SettingsError("the key is another one")

    await house.queue("r")
    deliveries = house.deliveries(cannot)
    waits = []
    for _ in range(REFUSALS_MAX):
        left = await deliveries.deliver("r", lambda _driver: None)
        assert left.state is not None
        assert left.state.seq == 1, "nothing is recorded"
        waits.append(left.again_in_s)
    assert waits == [2, 4, 8, 16, 32]
    spent = await deliveries.deliver("r", lambda _driver: None)
    assert spent.state is not None
    assert (spent.state.driver.delivery, spent.state.status) == (1, RunStatus.FAILED)
    house.time.advance(15)
    left = await house.deliver()
    assert left.state is not None
    assert left.state.status is RunStatus.SUCCEEDED, "one that is set up drives it"


async def test_a_run_that_is_to_be_cancelled_is_cancelled_where_it_cannot_be_driven(house: Crew) -> None:
    def cannot(_state: RunState) -> None:
        raise NotFound("the plan of this run is on another machine")

    await house.queue("r")
    wish = Control(id="c", run_id="r", action="cancel", reason="no", actor="op", at=house.clock.now())
    await house.ledger.send_control(wish)
    left = await house.deliveries(cannot).deliver("r", lambda _driver: None)
    assert left.state is not None
    assert left.state.status is RunStatus.CANCELLED


async def test_many_that_find_no_room_are_put_off_longer_and_longer_without_a_question(
    tmp_path: Path,
) -> None:
    house = crew(tmp_path, Policy(workflow_concurrency_max=1))
    await house.queue("r")
    await house.queue("other")
    assert await house.ledger.claim("other", OTHER, 1e6, house.clock.now()) is not None
    deliveries, waits = house.deliveries(), []
    for _ in range(8):
        left = await deliveries.deliver("r", lambda _driver: None)
        assert left.quiet
        waits.append(left.again_in_s)
        house.time.advance(1)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    await house.ledger.close()


async def test_a_full_workflow_keeps_no_other_workflow_of_its_queue_waiting(tmp_path: Path) -> None:
    house = crew(tmp_path, Policy(workflow_concurrency_max=1, queue_concurrency_max=10))
    for run_id, workflow in (("busy", "full"), ("r", "full"), ("s", "free")):
        await house.queue(run_id, plan=plan_of("a", name=workflow))
    assert await house.ledger.claim("busy", OTHER, 1e6, house.clock.now()) is not None
    deliveries = house.deliveries()
    assert (await deliveries.deliver("r", lambda _driver: None)).again_in_s == CROWDED_S
    left = await deliveries.deliver("s", lambda _driver: None)
    assert left.state is not None
    assert left.state.status is RunStatus.SUCCEEDED
    await house.ledger.close()


async def test_a_clock_that_is_wrong_puts_nobody_off_for_long(house: Crew) -> None:
    await house.queue("r", not_before_us=house.clock.now().plus_s(86_400).wall_us)
    assert (await house.deliver()).again_in_s == DUE_MAX_S


async def test_a_driver_that_could_not_renew_in_time_was_not_lost(tmp_path: Path) -> None:
    house = crew(tmp_path, Policy(takeovers_max=0))
    await house.queue("r")
    lease = await house.ledger.claim("r", house.census.own_identity(), 10, house.clock.now())
    assert lease is not None
    house.time.advance(11)
    left = await house.deliver()
    assert left.state is not None
    assert (left.state.status, left.state.driver.takeovers) == (RunStatus.SUCCEEDED, 0)
    await house.ledger.close()


# A worker


class SlowTaking(LocalDispatch):
    """Takes its hints, and answers when it is let."""

    def __init__(self, *about: Any, **more: Any) -> None:
        super().__init__(*about, **more)
        self.asked, self.let = asyncio.Event(), asyncio.Event()

    async def take(self, queues: Sequence[str], capabilities: frozenset[str], limit: int) -> list[Taken]:
        taken = await super().take(queues, capabilities, limit)
        self.asked.set()
        await self.let.wait()
        return taken


async def test_a_worker_takes_no_lost_run_into_the_room_that_it_asked_hints_for(house: Crew) -> None:
    dispatch = SlowTaking(house.root / "queue.db", house.clock)
    shift = Shift(worker_id="w", queues=("q",), concurrency=1, until_idle=True)
    for run_id in ("hinted", "lost"):
        await house.queue(run_id)
    await dispatch.hint([Hint("hinted", "q")])
    await house.ledger.claim("lost", OTHER, 10, house.clock.now())
    house.time.advance(60)
    worker = Worker(house.deliveries(), dispatch, shift, lambda _notice: None)
    taking = asyncio.create_task(worker._take_some())
    await dispatch.asked.wait()
    await worker._take_up_lost()
    dispatch.let.set()
    assert await taking
    assert worker.runs == ("hinted",), "the lost one waits for its turn"
    assert await dispatch.hinted(["lost"]) == {"lost"}
    await asyncio.gather(*worker._tasks.values(), *worker._leaving)
    await dispatch.close()


async def test_a_worker_that_is_told_to_stop_while_it_takes_hints_begins_none_of_them(house: Crew) -> None:
    dispatch = SlowTaking(house.root / "queue.db", house.clock)
    shift = Shift(worker_id="w", queues=("q",), concurrency=2)
    for run_id in ("a", "b"):
        await house.queue(run_id)
    await dispatch.hint([Hint("a", "q"), Hint("b", "q")])
    worker = Worker(house.deliveries(), dispatch, shift, lambda _notice: None)
    taking = asyncio.create_task(worker._take_some())
    await dispatch.asked.wait()
    worker.drain()
    dispatch.let.set()
    await taking
    assert worker.runs == ()
    (depth,) = await dispatch.depths()
    assert (depth.waiting, depth.taken) == (2, 0), "another worker may take them at once"
    await dispatch.close()


def holder(now: Instant, **how: Any) -> WorkerRow:
    """A worker that keeps the page of the run open."""
    return WorkerRow(
        **{
            "worker_id": "holder",
            "identity": OTHER,
            "queues": ("q",),
            "capabilities": (),
            "concurrency": 1,
            "version": "1",
            "started_at": now,
            "waiting_pages": ("r",),
            **how,
        }
    )


async def answered(house: Crew) -> RunState:
    """A run with a page that a person has let continue a moment ago."""
    await house.queue("r")
    state = await house.deliveries().runs.known_state("r")
    assert state is not None
    replace = msgspec.structs.replace
    results = replace(state.steps[0].results, page=Fingerprint("https://shop.test/", "Shop"))
    return replace(
        state,
        hold=replace(state.hold, waiting_for="driver"),
        clocks=replace(state.clocks, updated_at=house.clock.now()),
        steps=state.steps.replaced(0, replace(state.steps[0], results=results)),
    )


async def left_for_s(house: Crew, state: RunState, row: WorkerRow, *, answers: bool = True) -> int:
    """For how many seconds the run is left to the worker of this row."""
    seconds = 0
    await house.ledger.keep_worker(row, house.clock.now())
    while (left := await house.deliveries()._page_elsewhere(state)) is not None:
        assert left.quiet and left.again_in_s is not None
        house.time.advance(1)
        seconds += 1
        if answers:
            await house.ledger.keep_worker(row, house.clock.now())
    return seconds


async def test_a_run_is_left_to_the_worker_that_has_its_page_while_it_answers(house: Crew) -> None:
    state = await answered(house)
    assert await left_for_s(house, state, holder(house.clock.now())) == PAGE_FREE_S


@pytest.mark.parametrize("why", [{"runs": ("other",)}, {"draining": True}, {"trouble": "the disk is full"}])
async def test_a_run_is_left_for_a_moment_to_a_worker_that_has_no_place_for_it(
    house: Crew, why: dict[str, Any]
) -> None:
    state = await answered(house)
    assert await left_for_s(house, state, holder(house.clock.now(), **why)) == PAGE_BUSY_S


async def test_a_run_is_not_left_to_a_worker_that_no_longer_answers(house: Crew) -> None:
    state = await answered(house)
    left_s = await left_for_s(house, state, holder(house.clock.now()), answers=False)
    assert left_s == house.world.lease_ttl_s


async def test_a_run_is_not_left_to_a_worker_that_has_died_or_has_another_page(house: Crew) -> None:
    state, now = await answered(house), house.clock.now()
    house.census.dead.add(OTHER)
    assert await left_for_s(house, state, holder(now)) == 0
    house.census.dead.clear()
    assert await left_for_s(house, state, holder(now, waiting_pages=("other",))) == 0
