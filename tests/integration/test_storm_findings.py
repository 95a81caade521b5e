"""What storms have found, each as the shortest story that shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from recoup.engine.forcing import force_mode
from recoup.kernel.fold import advance, submitted
from recoup.model import events as ev
from recoup.model.ids import EVERY_WORKFLOW, ProcessIdentity, workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Mode
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import Handler, Plan, Rebuild, Repeat, RunAction, Step
from recoup.model.run import RunStatus
from recoup.model.workspace import Baseline
from recoup.ports import Hooks
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import SUCCESS


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
        advance(state, fact, at, seq)
    assert [steps[index].repeat for index in state.rebuild_pending] == [Repeat.SAFE]
