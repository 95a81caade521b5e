"""Operators steer a run: on a real ledger, a real git workspace where one is needed, and a runtime that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.altered import altered

from recoup.kernel.documents import exit_code, run_document
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import ApproveAction, Handler, Repeat, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, Verdict
from recoup.model.storage import Control
from recoup.model.workspace import FolderSource
from recoup.ports import Hooks
from recoup.testing.clock import FakeClock, HandClock
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import SUCCESS, ScriptedRuntime, exits, hangs
from recoup.workspace.workspaces import GitWorkspaces

KEEPER = ProcessIdentity("driver", "boot-1", 4242, 7)
RESET = "error: connection reset by peer"


class Gated:
    """Attempts of `step_id` wait until they are let go or stopped; all others succeed at once."""

    inline = False

    def __init__(self, step_id: str = "b") -> None:
        self.step_id = step_id
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.performed: list[tuple[str, int]] = []
        self.stopped = 0

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        await hooks.launched(KEEPER)
        self.performed.append((order.step_id, order.attempt))
        if order.step_id != self.step_id or self.go.is_set():
            return SUCCESS
        self.begun.set()
        either = [asyncio.ensure_future(event.wait()) for event in (self.go, hooks.stop)]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        for waiting in either:
            waiting.cancel()
        if hooks.stop.is_set():
            self.stopped += 1
            return Outcome(interrupted=True)
        return SUCCESS


class Steered:
    """A house with one run, and the operator's side of it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.workspaces: GitWorkspaces | None = None
        self._sent = 0

    def runtime(self, runtime: Gated | ScriptedRuntime) -> None:
        self.house.world.runtimes["run"] = runtime  # type: ignore[index]

    async def begin(self, runtime: Gated, *steps: str | Step) -> asyncio.Task[RunState]:
        """Until the attempt that waits is under way."""
        self.runtime(runtime)
        await self.house.submit(plan_of(*steps))
        driving = await self.start()
        await runtime.begun.wait()
        return driving

    async def start(self) -> asyncio.Task[RunState]:
        return asyncio.create_task((await self.house.driver("run-1", self.workspaces)).drive())

    async def resume(self) -> RunState:
        return await (await self.house.driver("run-1", self.workspaces)).drive()

    async def send(self, action: str, step_id: str | None = None, argument: str | None = None) -> str:
        self._sent += 1
        wish = Control(
            id=f"c{self._sent}",
            run_id="run-1",
            action=action,
            reason="because",
            actor="eve",
            at=self.house.clock.now(),
            step_id=step_id,
            argument=argument,
        )
        await self.house.ledger.send_control(wish)
        return wish.id

    async def outcome(self, control_id: str) -> str:
        while True:
            control = await self.house.ledger.control(control_id)
            assert control is not None
            if control.outcome is not None:
                return control.outcome
            await asyncio.sleep(0.01)

    async def alone(
        self, action: str, step_id: str | None = None, argument: str | None = None
    ) -> tuple[str, RunState]:
        """Carried out by the sender, for nobody drives."""
        sent = await self.send(action, step_id, argument)
        state = await (await self.house.driver("run-1", self.workspaces)).answer()
        return await self.outcome(sent), state

    def detail(self) -> str:
        return next(
            e.payload.detail for e in reversed(self.house.seen) if isinstance(e.payload, ev.ControlHandled)
        )


@pytest.fixture
async def steered(tmp_path: Path) -> AsyncIterator[Steered]:
    house = House(tmp_path / "home", policy=Policy(step_max_attempts=3))
    yield Steered(house)
    await house.ledger.close()


async def test_a_pause_lets_the_attempt_end_and_stops_before_the_next(steered: Steered) -> None:
    runtime = Gated("b")
    driving = await steered.begin(runtime, "a", "b", "c")
    assert await steered.outcome(await steered.send("pause")) == "accepted"
    assert not runtime.stopped
    runtime.go.set()
    state = await driving
    assert (state.status, state.hold.waiting_for, exit_code(state)) == (RunStatus.WAITING, "operator", 5)
    assert state.reason.startswith("paused by ")
    assert [record.verdict for record in state.steps] == ["unverified", "unverified", "not_run"]
    assert msgspec.to_builtins(run_document(state).live_control) == {
        "paused": True,
        "takeover": False,
        "recovery": None,
    }
    lease = await steered.house.ledger.lease("run-1")
    assert lease is not None and lease.owner is None
    outcome, state = await steered.alone("resume")
    assert (outcome, state.hold.paused, state.hold.waiting_for) == ("accepted", False, "driver")
    state = await steered.resume()
    assert (state.status, runtime.performed) == (RunStatus.SUCCEEDED, [("a", 1), ("b", 1), ("c", 1)])


async def test_no_attempt_begins_once_a_pause_was_accepted(steered: Steered) -> None:
    """Also when the start was on its way to the ledger already: it and the acknowledgement meet at the driver's pen."""
    runtime = Gated("a")
    steered.runtime(runtime)
    await steered.house.submit(plan_of("a", "b"))
    driver = await steered.house.driver("run-1")
    recorder = driver._desk.recorder
    driving = asyncio.create_task(driver.drive())
    await runtime.begun.wait()
    await recorder._turn.acquire()
    runtime.go.set()
    while not recorder._turn._waiters:  # the end of a, and the start of b, wait for the pen
        await asyncio.sleep(0.01)
    recorder.state = altered(recorder.state, hold__paused=True)
    recorder._turn.release()
    state = await driving
    assert (state.status, [record.spent.attempts for record in state.steps]) == (RunStatus.WAITING, [1, 0])


async def test_a_pause_during_the_last_step_does_not_keep_the_run_from_succeeding(steered: Steered) -> None:
    runtime = Gated("a")
    driving = await steered.begin(runtime, "a")
    assert await steered.outcome(await steered.send("pause")) == "accepted"
    runtime.go.set()
    assert (await driving).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("action", ["pause", "takeover"])
async def test_a_pause_or_a_takeover_ends_a_backoff_wait_at_once(tmp_path: Path, action: str) -> None:
    class Stands(FakeClock):
        async def wait(self, wake: asyncio.Event, timeout_s: float | None) -> bool:
            """Only the controls are looked for; the backoff never ends by itself."""
            if timeout_s is not None and timeout_s < 0.4:
                await asyncio.sleep(0.005)
                return wake.is_set()
            waiting.set()
            await wake.wait()
            return True

    waiting = asyncio.Event()
    house = House(tmp_path, clock=Stands())
    steered = Steered(house)
    steered.runtime(ScriptedRuntime({"a": [exits(1, RESET)]}))
    await house.submit(plan_of("a"))
    driving = await steered.start()
    await waiting.wait()
    while (await house.state("run-1")).steps[0].recovery.since is None:
        await asyncio.sleep(0.01)
    await steered.send(action)
    state = await asyncio.wait_for(driving, 60)
    assert (state.status, state.hold.waiting_for, state.steps[0].spent.attempts) == (
        RunStatus.WAITING,
        "operator",
        1,
    )
    await house.ledger.close()


async def test_a_pause_that_is_taken_back_during_the_attempt_changes_nothing(steered: Steered) -> None:
    runtime = Gated("a")
    driving = await steered.begin(runtime, "a", "b")
    assert await steered.outcome(await steered.send("pause")) == "accepted"
    assert await steered.outcome(await steered.send("resume")) == "accepted"
    runtime.go.set()
    assert (await driving).status is RunStatus.SUCCEEDED


async def test_retry_step_ends_the_attempt_and_begins_another_at_once(steered: Steered) -> None:
    runtime = Gated("a")
    driving = await steered.begin(runtime, "a")
    sent = await steered.send("retry_step")
    assert await steered.outcome(sent) == "accepted"
    runtime.go.set()
    state = await driving
    assert (state.status, runtime.stopped, runtime.performed) == (
        RunStatus.SUCCEEDED,
        1,
        [("a", 1), ("a", 2)],
    )
    recovery = run_document(state).live_control.recovery
    assert recovery is not None
    assert (recovery.action, recovery.step_id) == ("retry_step", None)


async def test_an_attempt_that_must_not_be_repeated_is_not_cut_off(steered: Steered) -> None:
    runtime = Gated("pay")
    driving = await steered.begin(runtime, Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER))
    for action in ("retry_step", "takeover"):
        assert await steered.outcome(await steered.send(action)) == "refused"
        assert "must not be repeated" in steered.detail()
    runtime.go.set()
    assert (await driving).status is RunStatus.SUCCEEDED
    assert runtime.stopped == 0


async def test_what_is_not_allowed_is_refused_with_what_would_be(steered: Steered) -> None:
    runtime = Gated("b")
    driving = await steered.begin(runtime, "a", "b", "c")
    for action, step_id, words in (
        ("resume", None, "not paused"),
        ("resume_from_step", "a", "only a paused run"),
        ("hard_reset_step", None, "no workspace"),
        ("retry_step", "a", "stands at b"),
        ("approve", None, "does not wait"),
        ("settle", "b", "only an escalated step"),
    ):
        assert await steered.outcome(await steered.send(action, step_id)) == "refused"
        assert words in steered.detail()
        assert "possible now: pause, takeover, retry_step, cancel" in steered.detail()
    runtime.go.set()
    assert (await driving).status is RunStatus.SUCCEEDED


async def test_a_control_that_comes_too_late_has_one_outcome(steered: Steered) -> None:
    steered.runtime(Gated("none"))
    await steered.house.run(plan_of("a"))
    for action in ("pause", "takeover", "retry_step", "hard_reset_step", "resume_from_step", "cancel"):
        outcome, state = await steered.alone(action, "a")
        assert (outcome, state.status) == ("refused", RunStatus.SUCCEEDED)


async def test_the_same_id_twice_is_one_control(steered: Steered) -> None:
    runtime = Gated("a")
    driving = await steered.begin(runtime, "a", "b")
    sent = await steered.send("pause")
    steered._sent = 0
    assert await steered.send("pause") == sent
    runtime.go.set()
    state = await driving
    handled = [e.payload for e in steered.house.seen if isinstance(e.payload, ev.ControlHandled)]
    assert (len(handled), handled[0].epoch, state.hold.paused) == (1, 1, True)


async def test_a_paused_run_goes_back_to_a_step(steered: Steered) -> None:
    runtime = Gated("c")
    driving = await steered.begin(runtime, "a", "b", "c")
    await steered.outcome(await steered.send("takeover"))
    state = await driving
    assert (state.hold.paused, state.hold.takeover, runtime.stopped) == (True, True, 1)
    assert state.steps[2].verdict is Verdict.FAILED
    outcome, state = await steered.alone("resume_from_step", "b")
    assert (outcome, state.hold.paused, state.hold.takeover, state.progress.prefix_length) == (
        "accepted",
        False,
        False,
        1,
    )
    assert "eve went back to b" in (state.steps[1].invalidation_reason or "")
    runtime.go.set()
    runtime.performed.clear()
    state = await steered.resume()
    assert (state.status, runtime.performed) == (RunStatus.SUCCEEDED, [("b", 2), ("c", 2)])


async def test_a_run_does_not_go_forward_over_steps_that_are_not_done(steered: Steered) -> None:
    runtime = Gated("a")
    driving = await steered.begin(runtime, "a", "b", "c")
    await steered.outcome(await steered.send("takeover"))
    await driving
    outcome, _ = await steered.alone("resume_from_step", "c")
    assert outcome == "refused"


async def test_a_run_does_not_go_back_over_a_step_that_must_not_be_repeated(steered: Steered) -> None:
    runtime = Gated("c")
    steered.runtime(runtime)
    pay = Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER)
    await steered.house.submit(plan_of("a", pay, "c"))
    driving = await steered.start()
    await runtime.begun.wait()
    await steered.outcome(await steered.send("takeover"))
    await driving
    outcome, state = await steered.alone("resume_from_step", "a")
    assert (outcome, state.progress.prefix_length) == ("refused", 2)


async def test_an_exhausted_step_gets_a_fresh_budget_by_retry_step(tmp_path: Path) -> None:
    house = House(tmp_path, policy=Policy(step_max_attempts=1))
    steered = Steered(house)
    steered.runtime(ScriptedRuntime({"a": [hangs(FailureKind.WALL_TIMEOUT)]}))
    state = await house.run(plan_of("a"))
    assert (state.status, state.failure.retryable) == (RunStatus.FAILED, True)
    outcome, state = await steered.alone("retry_step", "a")
    assert (outcome, state.status) == ("accepted", RunStatus.WAITING)
    assert (await steered.resume()).status is RunStatus.SUCCEEDED
    await house.ledger.close()


async def test_a_run_that_is_not_under_way_is_neither_paused_nor_taken_over(tmp_path: Path) -> None:
    house = House(tmp_path, policy=Policy(step_max_attempts=1))
    steered = Steered(house)
    await house.submit(plan_of("a"))
    assert (await steered.alone("takeover"))[0] == "refused"
    steered.runtime(ScriptedRuntime({"a": [hangs(FailureKind.WALL_TIMEOUT)]}))
    state = await steered.resume()
    assert (state.status, state.failure.retryable) == (RunStatus.FAILED, True)
    for action in ("pause", "takeover"):
        assert (await steered.alone(action))[0] == "refused"
    await house.ledger.close()


async def test_a_pause_leaves_a_lost_attempt_to_be_looked_into(steered: Steered) -> None:
    """The sender answers for a driver that was lost: what became of its attempt is still unknown, and stays so."""
    runtime = Gated("pay")
    driving = await steered.begin(runtime, Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER))
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    steered.house.census.dead.add(steered.house.census.own_identity())
    outcome, state = await steered.alone("pause")
    assert outcome == "accepted"
    assert state.steps[0].open is not None
    await steered.send("resume")
    state = await steered.resume()
    assert state.status is RunStatus.ESCALATED


# With a workspace


@pytest.fixture
def with_workspace(steered: Steered, tmp_path: Path) -> Steered:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file.txt").write_text("one\n")
    steered.workspaces = GitWorkspaces(steered.house.root / "runs" / "run-1")
    return steered


async def begin(
    steered: Steered, runtime: Gated, tmp_path: Path, *steps: str | Step
) -> asyncio.Task[RunState]:
    from msgspec.structs import replace

    steered.runtime(runtime)
    plan = replace(plan_of(*steps), workspace=FolderSource(str(tmp_path / "source")))
    await steered.house.submit(plan)
    driving = await steered.start()
    await runtime.begun.wait()
    return driving


def current(steered: Steered) -> Path:
    assert steered.workspaces is not None
    return steered.workspaces.path(steered.workspaces.current())


async def test_what_an_operator_changes_is_recorded_and_kept(with_workspace: Steered, tmp_path: Path) -> None:
    steered, runtime = with_workspace, Gated("b")
    driving = await begin(steered, runtime, tmp_path, "a", "b")
    await steered.outcome(await steered.send("takeover"))
    state = await driving
    folder = Path(steered.detail().removeprefix("the workspace is "))
    assert folder.is_dir()
    (folder / "file.txt").write_text("two\n")
    (folder / "new.txt").write_text("by hand\n")
    await steered.send("resume")
    runtime.go.set()
    state = await steered.resume()
    assert state.status is RunStatus.SUCCEEDED
    (changed,) = [e.payload for e in steered.house.seen if isinstance(e.payload, ev.WorkspaceChanged)]
    assert changed.changed_files == ("file.txt", "new.txt")
    assert b"+two" in await steered.house.world.evidence.get(changed.evidence[0])
    assert (current(steered) / "new.txt").read_text() == "by hand\n"
    assert state.steps[1].beginning.pre_state == changed.snapshot.tree, (
        "the change is the operator's, not the step's"
    )


async def changed_by_hand(steered: Steered, runtime: Gated, tmp_path: Path) -> asyncio.Task[RunState]:
    """An operator took the run over before step b, changed a file, and let it go on: b is under way again."""
    driving = await begin(steered, runtime, tmp_path, "a", "b")
    await steered.outcome(await steered.send("takeover"))
    await driving
    (current(steered) / "file.txt").write_text("by hand\n")
    await steered.send("resume")
    runtime.begun.clear()
    driving = await steered.start()
    await runtime.begun.wait()
    return driving


async def test_a_hard_reset_after_a_takeover_keeps_what_the_operator_made(
    with_workspace: Steered, tmp_path: Path
) -> None:
    steered, runtime = with_workspace, Gated("b")
    driving = await changed_by_hand(steered, runtime, tmp_path)
    (current(steered) / "file.txt").write_text("spoiled by the attempt\n")
    assert await steered.outcome(await steered.send("hard_reset_step")) == "accepted"
    runtime.go.set()
    state = await driving
    assert (state.status, state.counts.resets) == (RunStatus.SUCCEEDED, 1)
    assert (current(steered) / "file.txt").read_text() == "by hand\n"


async def test_a_hard_reset_works_while_paused_and_counts_unless_forced(
    with_workspace: Steered, tmp_path: Path
) -> None:
    steered, runtime = with_workspace, Gated("b")
    driving = await begin(steered, runtime, tmp_path, "a", "b")
    (current(steered) / "file.txt").write_text("spoiled\n")
    await steered.outcome(await steered.send("pause"))
    await steered.outcome(await steered.send("hard_reset_step"))
    state = await driving
    assert (state.hold.paused, state.workspaces.restore_pending, state.counts.resets) == (True, True, 1)
    outcome, _ = await steered.alone("hard_reset_step")
    assert outcome == "refused"
    outcome, state = await steered.alone("hard_reset_step", argument="force")
    assert (outcome, state.counts.resets, state.hold.paused) == ("accepted", 1, True)
    await steered.send("resume")
    runtime.go.set()
    state = await steered.resume()
    assert (state.status, state.steps[1].spent.attempts) == (RunStatus.SUCCEEDED, 2)
    assert (current(steered) / "file.txt").read_text() == "one\n"


async def test_going_back_restores_what_was_before_that_step(with_workspace: Steered, tmp_path: Path) -> None:
    steered = with_workspace

    class Writes(Gated):
        async def perform(self, order: Order, hooks: Hooks) -> Outcome:
            with (Path(order.cwd) / "log.txt").open("a") as log:
                log.write(order.step_id)
            return await super().perform(order, hooks)

    runtime = Writes("c")
    driving = await begin(steered, runtime, tmp_path, "a", "b", "c")
    await steered.outcome(await steered.send("takeover"))
    await driving
    await steered.alone("resume_from_step", "b")
    runtime.go.set()
    state = await steered.resume()
    assert state.status is RunStatus.SUCCEEDED
    assert (current(steered) / "log.txt").read_text() == "abc"


async def test_what_an_operator_changed_before_a_gate_is_where_the_next_step_begins(
    with_workspace: Steered, tmp_path: Path
) -> None:
    """A gate has no checkpoint of its own: the operator's work stays what a later step, or a reset, begins from."""
    from msgspec.structs import replace

    steered, runtime = with_workspace, Gated("c")
    steered.runtime(runtime)
    gate = Step(id="gate", action=ApproveAction("Go?"))
    plan = replace(plan_of("a", gate, "c"), workspace=FolderSource(str(tmp_path / "source")))
    await steered.house.submit(plan)
    state = await (await steered.start())
    assert state.hold.waiting_for == "approval"
    outcome, _ = await steered.alone("takeover")
    assert outcome == "accepted"
    (current(steered) / "file.txt").write_text("by hand\n")
    await steered.send("resume")
    state = await steered.resume()
    assert state.hold.waiting_for == "approval"
    (changed,) = [e.payload for e in steered.house.seen if isinstance(e.payload, ev.WorkspaceChanged)]
    await steered.alone("approve")
    driving = await steered.start()
    await runtime.begun.wait()
    (current(steered) / "file.txt").write_text("spoiled by the attempt\n")
    assert await steered.outcome(await steered.send("hard_reset_step")) == "accepted"
    runtime.go.set()
    state = await driving
    assert (state.status, state.steps[2].beginning.pre_state) == (RunStatus.SUCCEEDED, changed.snapshot.tree)
    assert (current(steered) / "file.txt").read_text() == "by hand\n"


class Tidying(Gated):
    """Its `always` waits the first time, and then leaves a file."""

    def __init__(self) -> None:
        super().__init__("b")
        self.tidies = asyncio.Event()

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        if order.action != TIDY:
            return await super().perform(order, hooks)
        await hooks.launched(KEEPER)
        if not self.tidies.is_set():
            self.tidies.set()
            await hooks.stop.wait()
            return Outcome(interrupted=True)
        (Path(order.cwd) / "tidy.txt").write_text("tidy\n")
        return SUCCESS


TIDY = RunAction("tidy")


async def taken_over_before_an_always(steered: Steered, tmp_path: Path) -> Tidying:
    """Until the step after it is under way."""
    from msgspec.structs import replace

    runtime = Tidying()
    steered.runtime(runtime)
    first = Step(id="a", action=RunAction("true"), always=(Handler(action=TIDY),))
    plan = replace(plan_of(first, "b"), workspace=FolderSource(str(tmp_path / "source")))
    await steered.house.submit(plan)
    driving = await steered.start()
    await runtime.tidies.wait()
    await steered.outcome(await steered.send("takeover"))
    await driving
    (current(steered) / "file.txt").write_text("by hand\n")
    await steered.send("resume")
    return runtime


async def test_a_hard_reset_after_a_takeover_keeps_what_a_pending_always_made(
    with_workspace: Steered, tmp_path: Path
) -> None:
    steered = with_workspace
    runtime = await taken_over_before_an_always(steered, tmp_path)
    driving = await steered.start()
    await runtime.begun.wait()
    (current(steered) / "file.txt").write_text("spoiled by the attempt\n")
    assert await steered.outcome(await steered.send("hard_reset_step")) == "accepted"
    runtime.go.set()
    state = await driving
    assert (state.status, state.counts.resets) == (RunStatus.SUCCEEDED, 1)
    assert (current(steered) / "file.txt").read_text() == "by hand\n"
    assert (current(steered) / "tidy.txt").read_text() == "tidy\n"
    checkpoint = state.steps[0].results.checkpoint
    assert checkpoint is not None and state.steps[1].beginning.pre_state == checkpoint.tree


async def test_going_back_before_what_an_operator_changed_leaves_it_behind_for_good(
    with_workspace: Steered, tmp_path: Path
) -> None:
    steered, runtime = with_workspace, Gated("b")
    driving = await changed_by_hand(steered, runtime, tmp_path)
    await steered.outcome(await steered.send("pause"))
    assert await steered.outcome(await steered.send("resume_from_step", "a")) == "accepted"
    runtime.begun.clear()
    await runtime.begun.wait()
    assert await steered.outcome(await steered.send("hard_reset_step")) == "accepted"
    runtime.go.set()
    state = await driving
    assert (state.status, state.workspaces.base) == (RunStatus.SUCCEEDED, None)
    assert (current(steered) / "file.txt").read_text() == "one\n"


async def test_what_was_changed_before_a_second_takeover_is_recorded_too(
    with_workspace: Steered, tmp_path: Path
) -> None:
    steered, runtime = with_workspace, Gated("b")
    driving = await begin(steered, runtime, tmp_path, "a", "b")
    await steered.outcome(await steered.send("takeover"))
    await driving
    (current(steered) / "file.txt").write_text("by hand\n")
    await steered.alone("resume")
    outcome, _ = await steered.alone("takeover")
    assert outcome == "accepted"
    (current(steered) / "more.txt").write_text("by hand\n")
    await steered.send("resume")
    runtime.go.set()
    assert (await steered.resume()).status is RunStatus.SUCCEEDED
    (changed,) = [e.payload for e in steered.house.seen if isinstance(e.payload, ev.WorkspaceChanged)]
    assert changed.changed_files == ("file.txt", "more.txt")


async def test_going_back_while_an_attempt_is_under_way_ends_it_and_repeats_it(
    with_workspace: Steered, tmp_path: Path
) -> None:
    """What that attempt would have left rests on what is done again."""
    steered, runtime = with_workspace, Gated("b")
    driving = await begin(steered, runtime, tmp_path, "a", "b", "c")
    await steered.outcome(await steered.send("pause"))
    assert await steered.outcome(await steered.send("resume_from_step", "a")) == "accepted"
    runtime.go.set()
    state = await driving
    assert (state.status, runtime.stopped) == (RunStatus.SUCCEEDED, 1)
    assert runtime.performed == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("c", 1)]


async def test_a_run_does_not_go_back_under_an_attempt_that_must_not_be_repeated(steered: Steered) -> None:
    runtime = Gated("b")
    steered.runtime(runtime)
    never = Step(id="b", action=RunAction("true"), repeat=Repeat.NEVER)
    await steered.house.submit(plan_of("a", never, "c"))
    driving = await steered.start()
    await runtime.begun.wait()
    await steered.outcome(await steered.send("pause"))
    assert await steered.outcome(await steered.send("resume_from_step", "a")) == "refused"
    assert "b is under way and must not be repeated" in steered.detail()
    runtime.go.set()
    await driving
    assert (runtime.stopped, runtime.performed) == (0, [("a", 1), ("b", 1)])


@pytest.mark.parametrize("action", ["resume", "resume_from_step"])
async def test_a_paused_run_with_an_unknown_outcome_does_not_go_on_before_it_is_settled(
    steered: Steered, action: str
) -> None:
    class TimesOut(Gated):
        async def perform(self, order: Order, hooks: Hooks) -> Outcome:
            await super().perform(order, hooks)
            return Outcome(kind=FailureKind.WALL_TIMEOUT, outcome_known=False)

    runtime = TimesOut("pay")
    steered.runtime(runtime)
    await steered.house.submit(plan_of(Step(id="pay", action=RunAction("true"), repeat=Repeat.NEVER), "b"))
    driving = await steered.start()
    await runtime.begun.wait()
    await steered.outcome(await steered.send("pause"))
    runtime.go.set()
    state = await driving
    assert (state.status, state.hold.paused) == (RunStatus.ESCALATED, True)
    outcome, state = await steered.alone(action, "pay" if action == "resume_from_step" else None)
    assert (outcome, state.status) == ("refused", RunStatus.ESCALATED)
    assert "settle it first" in steered.detail()
    outcome, state = await steered.alone("settle", "pay", "done")
    assert (outcome, state.hold.paused) == ("accepted", True)
    steered.runtime(Gated())
    await steered.alone("resume")
    assert runtime.performed == [("pay", 1)]


async def test_an_attempt_that_a_retry_cut_off_spends_nothing_of_the_fresh_budget(steered: Steered) -> None:
    class FailsLater(Gated):
        async def perform(self, order: Order, hooks: Hooks) -> Outcome:
            outcome = await super().perform(order, hooks)
            if outcome.interrupted:
                self.go.set()
                return outcome
            return Outcome(kind=FailureKind.CONNECTION_LOST, detail=f"connection lost {'x' * order.attempt}")

    runtime = FailsLater("a")
    steered.runtime(runtime)
    await steered.house.submit(plan_of("a"))
    driving = await steered.start()
    await runtime.begun.wait()
    await steered.outcome(await steered.send("retry_step"))
    assert (await driving).status is RunStatus.FAILED
    assert [attempt for _, attempt in runtime.performed] == [1, 2, 3, 4]


async def test_an_attempt_that_was_ended_for_a_control_that_is_refused_is_not_performed_twice(
    steered: Steered,
) -> None:
    """The control came before the attempt was launched, when it was still possible, and was looked at afterwards."""

    class Slow(Gated):
        async def perform(self, order: Order, hooks: Hooks) -> Outcome:
            if order.step_id == "pay":
                await steered.send("takeover")
                while not hooks.stop.is_set():
                    await asyncio.sleep(0.01)
            return await super().perform(order, hooks)

    runtime = Slow("pay")
    steered.runtime(runtime)
    await steered.house.submit(plan_of("a", Step(id="pay", action=RunAction("true"), repeat=Repeat.NEVER)))
    state = await asyncio.wait_for(await steered.start(), 60)
    assert (state.status, runtime.performed) == (RunStatus.ESCALATED, [("a", 1), ("pay", 1)])


async def test_a_control_that_another_makes_possible_ends_the_attempt_first(steered: Steered) -> None:
    """Both wait when the driver looks: the second can be done only once the first was, and never beside an attempt."""
    runtime = Gated("b")
    steered.runtime(runtime)
    await steered.house.submit(plan_of("a", "b", "c"))
    driver = await steered.house.driver("run-1")
    driving = asyncio.create_task(driver.drive())
    await runtime.begun.wait()
    async with driver._interventions._turn:  # the driver is about to look
        sent = [await steered.send("pause"), await steered.send("resume_from_step", "a")]
    assert [await steered.outcome(one) for one in sent] == ["accepted", "accepted"]
    runtime.go.set()
    state = await driving
    assert (state.status, runtime.stopped) == (RunStatus.SUCCEEDED, 1)
    assert runtime.performed == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("c", 1)]


async def test_a_run_whose_cooldown_an_operator_ends_is_shown_as_running(tmp_path: Path) -> None:
    shown: list[str] = []

    class Limited(ScriptedRuntime):
        async def perform(self, order: Order, hooks: Hooks) -> Outcome:
            shown.append((await house.state("run-1")).status)
            return await super().perform(order, hooks)

    clock = HandClock()
    house = House(tmp_path, clock=clock)
    steered = Steered(house)
    steered.runtime(Limited({"a": [exits(1, "429 too many requests, retry after 120 seconds")]}))
    await house.submit(plan_of("a"))
    driving = await steered.start()
    while ev.RunWaiting.TYPE not in await house.types():
        await asyncio.sleep(0.01)
    sent = asyncio.create_task(steered.outcome(await steered.send("retry_step")))
    while not sent.done():
        clock.advance(0.05)
        await asyncio.sleep(0.01)
    state = await driving
    assert (await sent, state.status) == ("accepted", RunStatus.SUCCEEDED)
    assert shown == [RunStatus.RUNNING, RunStatus.RUNNING]
    await house.ledger.close()
