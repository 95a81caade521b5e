"""What storms have found, each as the shortest story that shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from recoup.engine.forcing import force_mode
from recoup.kernel.fold import advance, submitted
from recoup.kernel.position import unsettled
from recoup.model import events as ev
from recoup.model.ids import EVERY_WORKFLOW, ProcessIdentity, workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Mode
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import Handler, Plan, Rebuild, Repeat, RunAction, Step
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Control
from recoup.model.workspace import Baseline, FolderSource
from recoup.ports import Hooks
from recoup.simulation.invariants import broken, read_record
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import SUCCESS, ScriptedRuntime, exits
from recoup.workspace.workspaces import GitWorkspaces


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path)
    yield one
    await one.ledger.close()


async def quarantine(house: House, workflow: str, for_s: float = 60) -> None:
    await force_mode(
        *(house.ledger, house.redactor, workflow, Mode.QUARANTINED),
        reason="because",
        actor="op",
        for_s=for_s,
        policy=house.policy,
        now=house.clock.now(),
    )


@pytest.mark.parametrize("workflow", ["workflow", EVERY_WORKFLOW])
@pytest.mark.parametrize("set_back_s", [3_600.0, 10 * 365 * 86_400.0])
async def test_a_clock_set_back_while_the_machine_was_down_cannot_prolong_a_quarantine_that_only_refuses(
    house: House, workflow: str, set_back_s: float
) -> None:
    """Runs that are refused before they begin write no step result: nothing else would note the boot."""
    clock = house.clock
    assert isinstance(clock, FakeClock)
    await quarantine(house, workflow)
    clock.reboot("boot-2")
    clock.jump_wall(-set_back_s)
    await house.submit(plan_of("a"))
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.BLOCKED
    noted = [event.payload for event in await house.ledger.read(workflow_stream(workflow))]
    assert noted[-1] == ev.WorkflowBootSeen(boot_id="boot-2")
    clock.advance(61)
    state = await (await house.driver("run-1")).drive()
    assert state.status is RunStatus.SUCCEEDED


async def test_whoever_is_refused_twice_notes_the_boot_once(house: House) -> None:
    clock = house.clock
    assert isinstance(clock, FakeClock)
    await quarantine(house, "workflow")
    clock.reboot("boot-2")
    await house.submit(plan_of("a"))
    for _ in range(2):
        await (await house.driver("run-1")).drive()
    types = [event.type for event in await house.ledger.read(workflow_stream("workflow"))]
    assert types == ["workflow.mode.changed", "workflow.boot.seen"]


async def test_no_handler_begins_while_everything_is_paused(house: House) -> None:
    """The pause comes while the step runs; its `always` follows when all may go on."""

    class Pauses:
        inline = True
        performed: list[str] = []  # noqa: RUF012

        async def perform(self, order: Order, hooks: Hooks) -> Outcome:
            del hooks
            assert isinstance(order.action, RunAction)
            self.performed.append(str(order.action.command))
            if order.action.command == "work":
                house.clock.advance(2)  # type: ignore[attr-defined]
                await quarantine(house, EVERY_WORKFLOW)
            return SUCCESS

    runtime = Pauses()
    house.world.runtimes["run"] = runtime  # type: ignore[index]
    step = Step(id="a", action=RunAction("work"), always=(Handler(action=RunAction("clean")),))
    state = await house.run(plan_of(step))
    assert (state.status, runtime.performed) == (RunStatus.BLOCKED, ["work"])
    house.clock.advance(61)  # type: ignore[attr-defined]
    state = await (await house.driver("run-1")).drive()
    assert (state.status, runtime.performed) == (RunStatus.SUCCEEDED, ["work", "clean"])


def test_a_step_that_must_not_be_repeated_is_not_rebuilt_either() -> None:
    steps = [
        Step(id=repeat.value, action=RunAction("x"), repeat=repeat, rebuild=Rebuild.RERUN)
        for repeat in Repeat
    ]
    at = Instant(10**15, 10**9, "boot")
    plan = Plan(name="w", steps=tuple(steps))
    state = submitted(
        "r",
        ev.RunSubmitted(
            workflow="w", plan_digest="d", plan=plan, plan_redacted=False, inputs={}, policy_digest="p"
        ),
        at,
    )
    owner = ProcessIdentity("h", "boot", 1, 1)
    facts: list[ev.Payload] = [
        ev.RunStarted(
            delivery=1, epoch=1, owner=owner, policy_digest="p", baseline=Baseline("t", "m"), workspace=1
        )
    ]
    for index, step in enumerate(steps):
        facts += [
            ev.AttemptStarted(
                step_id=step.id,
                step_index=index,
                attempt=1,
                delivery=1,
                kind="run",
                args_digest="a",
                pre_state="t",
                workspace=1,
                inline=True,
            ),
            ev.AttemptFinished(
                step_id=step.id, step_index=index, attempt=1, verdict="unverified", duration_ms=1
            ),
        ]
    facts.append(ev.CheckpointRestored(step_index=1, tree="t", workspace=2, reason="hard reset"))
    for seq, fact in enumerate(facts, 2):
        state = advance(state, fact, at, seq)
    assert [steps[index].repeat for index in state.progress.rebuild_pending] == [Repeat.SAFE]


class Spoiled:
    """Steps s0, s1 … that are done, then one during which all their checkpoints break and after which the workspace is
    restored."""

    def __init__(self, house: House, *repeats: Repeat) -> None:
        self.house = house
        self.ids = [f"s{number}" for number in range(len(repeats))]
        self.runtime = ScriptedRuntime({**dict.fromkeys(self.ids, self._write), "last": self._fail})
        house.world.runtimes["run"] = self.runtime  # type: ignore[index]
        source = house.root / "source"
        source.mkdir()
        (source / "file.txt").write_text("one\n")
        steps = [
            Step(id=step_id, action=RunAction("x"), repeat=repeat)
            for step_id, repeat in zip(self.ids, repeats, strict=True)
        ]
        self.plan = msgspec.structs.replace(plan_of(*steps, "last"), workspace=FolderSource(str(source)))
        self.workspaces = GitWorkspaces(house.root / "runs" / "run-1")
        self.asked: list[str] = []

    def _write(self, order: Order) -> Outcome:
        (Path(order.cwd) / order.step_id).write_text("done\n")
        return SUCCESS

    def _fail(self, order: Order) -> Outcome:
        (Path(order.cwd) / "bad").touch()
        if order.attempt == 1:
            stored = [e.payload for e in self.house.seen if isinstance(e.payload, ev.CheckpointStored)]
            for one in stored:
                name = one.snapshot.manifest.removeprefix("sha256:")
                (self.house.root / "runs" / "run-1" / "private" / "manifests" / f"{name}.json").unlink()
        return exits(1, "stuck") if order.attempt < 3 else SUCCESS

    async def begin(self) -> RunState:
        await self.house.submit(self.plan)
        return await self.drive()

    async def drive(self) -> RunState:
        state = await (await self.house.driver("run-1", self.workspaces)).drive()
        if (record := unsettled(state)) is not None:
            self.asked.append(record.step_id)
        return state

    async def say(self, action: str, step_id: str | None = None, argument: str | None = None) -> RunState:
        number = len(self.house.seen)
        await self.house.ledger.send_control(
            Control(
                id=f"c{number}",
                run_id="run-1",
                action=action,
                reason="because",
                actor="eve",
                at=self.house.clock.now(),
                step_id=step_id,
                argument=argument,
            )
        )
        state = await (await self.house.driver("run-1", self.workspaces)).answer()
        control = await self.house.ledger.control(f"c{number}")
        assert control is not None and control.outcome == "accepted", action
        return state

    async def until_asked(self, step_id: str) -> None:
        """Whatever is asked before was done."""
        state = await self.begin()
        while self.asked[-1] != step_id:
            assert state.status is RunStatus.ESCALATED
            await self.say("settle", None, "done")
            state = await self.drive()

    def times(self) -> list[int]:
        """How often each step was performed."""
        performed = [step_id for step_id, _ in self.runtime.performed]
        return [performed.count(step_id) for step_id in self.ids]


@pytest.mark.parametrize(
    "answers",
    [
        *(("done", "done"), ("done", "not-done"), ("not-done", "done"), ("not-done", "not-done")),
        *(("done", "done", "done"), ("not-done", "done", "done"), ("not-done", "done", "not-done")),
        *(("done", "not-done", "done"), ("not-done", "not-done", "not-done")),
    ],
)
async def test_every_step_that_must_not_be_repeated_is_settled_before_it_begins_again(
    house: House, answers: tuple[str, ...]
) -> None:
    """When the checkpoint of the first breaks, what follows is good no longer; each was done all the same."""
    story = Spoiled(house, *[Repeat.NEVER] * len(answers))
    await story.until_asked("s0")
    for step_id, answer in zip(story.ids, answers, strict=True):
        assert story.asked[-1] == step_id
        await story.say("settle", step_id, answer)
        await story.drive()
    assert (await house.state("run-1")).status is RunStatus.SUCCEEDED
    assert story.times() == [1 + (answer == "not-done") for answer in answers]
    assert broken(await read_record(house.ledger)) == []


@pytest.mark.parametrize("answer", ["done", "not-done"])
async def test_what_may_be_repeated_is_and_what_follows_it_is_settled_first(
    house: House, answer: str
) -> None:
    story = Spoiled(house, Repeat.SAFE, Repeat.NEVER, Repeat.NEVER)
    await story.until_asked("s1")
    story.asked.clear()
    for _ in range(4):
        await story.say("settle", None, answer)
        if (await story.drive()).status is RunStatus.SUCCEEDED:
            break
    assert "s2" in story.asked
    assert story.times() == ([2, 1, 1] if answer == "done" else [2, 2, 2])
    assert broken(await read_record(house.ledger)) == []


@pytest.mark.parametrize("action", ["retry_step", "hard_reset_step", "resume_from_step"])
async def test_no_control_but_a_settlement_lets_it_begin_again(house: House, action: str) -> None:
    story = Spoiled(house, Repeat.NEVER, Repeat.NEVER)
    await story.until_asked("s0")
    await story.say("settle", "s0", "done")
    if action == "resume_from_step":
        await story.say("pause")
    await story.say(action, "s1", "force" if action == "hard_reset_step" else None)
    state = await story.drive()
    assert (state.status, state.escalation.step_index, story.times()) == (RunStatus.ESCALATED, 1, [1, 1])


async def test_a_step_is_to_be_settled_however_those_before_it_end(house: House) -> None:
    story = Spoiled(house, Repeat.NEVER, Repeat.NEVER)
    await story.until_asked("s0")
    await story.say("settle", "s0", "not-done")
    house.runtime = story.runtime = ScriptedRuntime({"s0": lambda _order: exits(1, "no")})
    house.world.runtimes["run"] = story.runtime  # type: ignore[index]
    state = await story.drive()
    assert state.status is RunStatus.FAILED
    assert [record.doubt.to_settle for record in state.steps] == [False, True, False]
    assert "s1" not in [step_id for step_id, _ in story.runtime.performed]
