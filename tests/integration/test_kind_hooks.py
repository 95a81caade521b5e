"""A kind of step that keeps something: what the engine asks it, and when. A made-up kind; the browser is one like it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.kernel.outset import Outset
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.ids import run_stream
from recoup.model.outcome import Order, Outcome, Seen
from recoup.model.plan import ApproveAction, PythonAction, RunAction, Step
from recoup.model.run import RunStatus, StepRecord, Verdict
from recoup.ports import Secrets
from recoup.steps.hooks import (
    Beside,
    CannotBegin,
    FactsFirst,
    KindFacts,
    KindHooks,
    Obstacle,
    RunInHand,
    Undone,
)
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import ScriptedRuntime, exits

NOTES = "notes-of-workflow"
DESK, OPEN = PythonAction("desk:work"), Step(id="open", action=PythonAction("desk:open"))
WORK = Step(id="work", action=DESK)
SHELL = Step(id="shell", action=RunAction("true"))
GATE = Step(id="gate", action=ApproveAction("go on?"))


class DeskHooks(KindHooks):
    """Notes what it is asked."""

    def __init__(self, run: RunInHand) -> None:
        self.run = run
        self.asked: list[str] = []
        self.obstacles: list[Obstacle] = []

    async def take_up(self) -> None:
        self.asked.append("take up")

    async def release(self, *, stays: bool) -> None:
        self.asked.append("stays" if stays else "leaves")

    async def obstacle(self, step: Step, record: StepRecord) -> Obstacle | None:
        self.asked.append(f"obstacle before {step.id}")
        return self.obstacles.pop(0) if self.obstacles else None

    async def gate_reached(self, gate: Step, record: StepRecord) -> None:
        self.asked.append(f"at {gate.id}")

    def may_follow_at_once(self, seen: Seen | None) -> bool:
        return False

    async def reconsider(self) -> None:
        self.asked.append("reconsider")

    async def order(self, order: Order, step: Step, record: StepRecord, *, hides: bool) -> Order:
        self.asked.append(f"order {step.id}")
        return msgspec.structs.replace(order, secret_values=("typed",))

    def explained(self, step: Step, outcome: Outcome) -> Outcome:
        return msgspec.structs.replace(outcome, detail="the desk is locked")

    async def keep(self, step: Step, outcome: Outcome) -> None:
        self.asked.append(f"keep after {step.id}")

    def passed(
        self, step: Step, record: StepRecord, seen: Seen | None, evidence: tuple[str, ...], verdict: Verdict
    ) -> KindFacts:
        return KindFacts(beside=(Beside(NOTES, (_note(record),)),))

    def recorded(self, facts: KindFacts) -> None:
        self.asked.extend("recorded" for _ in facts.beside)

    async def go_back(self, index: int) -> None:
        self.asked.append(f"go back to {index}")


class Desk:
    """One for the process."""

    def __init__(self) -> None:
        self.hooks: list[DeskHooks] = []
        self.obstacles: list[Obstacle] = []

    def of_run(self, run: RunInHand) -> DeskHooks:
        self.hooks.append(DeskHooks(run))
        self.hooks[-1].obstacles = self.obstacles
        return self.hooks[-1]

    def waiting(self) -> Mapping[str, int]:
        return {}

    async def leave(self, run_id: str) -> None:
        raise AssertionError(run_id)

    def inherited(self, secrets: Secrets, reused: Sequence[StepRecord]) -> Mapping[str, str]:
        return {}

    def foreseen(self, run: Outset, secrets: Secrets) -> Outset:
        return run


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path)
    one.world.runtimes["python"] = one.runtime  # type: ignore[index]
    yield one
    await one.ledger.close()


@pytest.fixture
def desk(house: House) -> Desk:
    desk = Desk()
    house.world = msgspec.structs.replace(house.world, kinds={"python": lambda: desk})
    return desk


def _note(record: StepRecord) -> ev.Payload:
    return ev.PageLost(
        step_id=record.step_id, step_index=record.index, attempt=None, reason="moved", steps=()
    )


async def _events(house: House, kind: type[ev.Payload], stream: str = run_stream("run-1")) -> list[Any]:
    return [event.payload for event in await house.ledger.read(stream) if isinstance(event.payload, kind)]


async def test_a_run_without_a_step_of_the_kind_never_makes_it(house: House) -> None:
    def made() -> Desk:
        raise AssertionError("asked for")

    house.world = msgspec.structs.replace(house.world, kinds={"python": made})
    assert (await house.run(plan_of("a", "b"))).status is RunStatus.SUCCEEDED


async def test_steps_of_other_kinds_ask_it_nothing(house: House, desk: Desk) -> None:
    await house.run(plan_of(SHELL, WORK, "last"))
    assert desk.hooks[0].asked == [
        *("take up", "obstacle before work", "reconsider"),
        *("order work", "keep after work", "recorded", "leaves"),
    ]


async def test_what_it_adds_to_the_order_reaches_the_runtime(house: House, desk: Desk) -> None:
    orders: list[Order] = []

    def look(order: Order) -> Outcome:
        orders.append(order)
        return exits(0)

    house.world.runtimes["python"] = ScriptedRuntime({"work": look})  # type: ignore[index]
    await house.run(plan_of(WORK))
    assert orders[0].secret_values == ("typed",)


async def test_its_facts_stand_in_the_commit_that_ends_the_attempt(house: House, desk: Desk) -> None:
    await house.run(plan_of(WORK))
    (note,) = await house.ledger.read(NOTES)
    (end,) = [
        event
        for event in await house.ledger.read(run_stream("run-1"))
        if event.type == ev.AttemptFinished.TYPE
    ]
    assert note.payload == _note((await house.state("run-1")).steps[0]) and note.at == end.at


async def test_it_explains_a_failure_and_learns_of_failures_of_others(house: House, desk: Desk) -> None:
    failing = ScriptedRuntime({"work": [exits(1)], "shell": [exits(1)]})
    house.world.runtimes["python"] = house.world.runtimes["run"] = failing  # type: ignore[index]
    await house.run(plan_of("first", WORK, SHELL))
    mine, others = await _events(house, ev.AttemptFailed)
    assert "the desk is locked" in mine.summary and "the desk is locked" not in others.summary
    assert desk.hooks[0].asked.count("reconsider") == 4, "before two attempts and after each failure"


async def test_a_gate_is_an_obstacle_for_what_every_kind_has_left(house: House, desk: Desk) -> None:
    state = await house.run(plan_of(WORK, GATE))
    assert state.status is RunStatus.WAITING
    assert desk.hooks[0].asked[-3:] == ["obstacle before gate", "at gate", "leaves"]


async def test_facts_come_before_the_step(house: House, desk: Desk) -> None:
    again = ev.PageLost(step_id="work", step_index=1, attempt=None, reason="gone", steps=("open",))
    desk.obstacles = [FactsFirst((again,))]
    state = await house.run(plan_of(OPEN, WORK))
    assert state.status is RunStatus.SUCCEEDED
    assert house.runtime.performed == [("open", 1), ("open", 2), ("work", 1)]  # type: ignore[attr-defined]


async def test_a_step_that_cannot_begin_fails_and_is_retried(house: House, desk: Desk) -> None:
    desk.obstacles = [CannotBegin("the desk is away", FailureKind.NAVIGATION_FAILED)]
    state = await house.run(plan_of("first", WORK))
    (failed,) = await _events(house, ev.AttemptFailed)
    assert failed.failure_kind == FailureKind.NAVIGATION_FAILED and "the desk is away" in failed.summary
    assert state.status is RunStatus.SUCCEEDED
    assert house.runtime.performed == [("first", 1), ("work", 2)]  # type: ignore[attr-defined]


async def test_what_is_undone_is_performed_again(house: House, desk: Desk) -> None:
    desk.obstacles = [Undone("the desk was moved", 0)]
    state = await house.run(plan_of(OPEN, WORK))
    undone = await _events(house, ev.StepInvalidated)
    assert [(one.step_id, one.reason) for one in undone] == [("open", "the desk was moved")]
    assert state.status is RunStatus.SUCCEEDED
    assert [name for name, _ in house.runtime.performed] == ["open", "open", "work"]  # type: ignore[attr-defined]


async def test_an_outcome_that_stays_refuted_costs_nothing(house: House, desk: Desk) -> None:
    refuted = [Outcome(kind=FailureKind.RUNTIME_DRIFT, refuted="the desk says something else")]
    house.world.runtimes["python"] = ScriptedRuntime({"work": refuted})  # type: ignore[index]
    state = await house.run(plan_of(WORK))
    (failed,) = await _events(house, ev.AttemptFailed)
    assert failed.spared and failed.reason == "the desk says something else"
    assert state.status is RunStatus.SUCCEEDED and state.steps[0].spent.attempts_in_delivery == 1
