"""Rescue, on_empty, always and approval gates, in the real attempt loop with a scripted runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.kernel.documents import exit_code, run_document
from recoup.kernel.prefix import ledger_document
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.outcome import Captured, Order, Outcome
from recoup.model.plan import (
    ApproveAction,
    ExitCheck,
    FileCheck,
    Handler,
    RegexOutput,
    Repeat,
    RunAction,
    Step,
)
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, Verdict
from recoup.model.storage import Control
from recoup.ports import Hooks
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of

Work = Callable[[Order], Outcome]
Performs = Callable[[Order, Hooks], Coroutine[Any, Any, Outcome]]


class ByCommand:
    """Answers by the command it is given; success where nothing was said."""

    inline = True

    def __init__(self, **answers: Outcome | Work) -> None:
        self.answers = answers
        self.done: list[str] = []

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        assert isinstance(order.action, RunAction)
        command = str(order.action.command)
        self.done.append(command)
        told = self.answers.get(command, said("done"))
        return told(order) if callable(told) else told


def said(text: str, code: int = 0) -> Outcome:
    return Outcome(exit_code=code, stdout=Captured(text.encode(), b"", len(text)))


DENIED = said("error: permission denied", 1)
BROKEN = said("invalid configuration: schema validation failed", 1)


def step(id: str = "a", **more: object) -> Step:
    return Step(id=id, action=RunAction("work"), **more)  # type: ignore[arg-type]


def handlers(*commands: str) -> tuple[Handler, ...]:
    return tuple(Handler(action=RunAction(command)) for command in commands)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path)
    yield one
    await one.ledger.close()


def working(house: House, **answers: Outcome | Work) -> ByCommand:
    runtime = ByCommand(**answers)
    house.world.runtimes["run"] = runtime  # type: ignore[index]
    return runtime


def finished(house: House) -> list[ev.AttemptFinished]:
    return [e.payload for e in house.seen if isinstance(e.payload, ev.AttemptFinished)]


async def test_a_step_that_failed_for_good_is_recovered_by_a_handler_that_passes(house: House) -> None:
    runtime = working(house, work=BROKEN)
    state = await house.run(plan_of(step(rescue=handlers("mend", "notify")), "b"))
    assert runtime.done == ["work", "mend", "notify", "true"]
    assert state.status is RunStatus.SUCCEEDED
    entry = ledger_document(state).steps[0]
    assert (entry.verdict, entry.phase, entry.attempts) == ("recovered", "rescue", 2)
    assert ledger_document(state).known_good_prefix_length == 2


async def test_one_handler_that_passes_is_enough(house: House) -> None:
    working(house, work=BROKEN, first=said("no", 1))
    state = await house.run(plan_of(step(rescue=handlers("first", "second"))))
    assert state.status is RunStatus.SUCCEEDED
    (end,) = finished(house)
    assert [(result.number, result.passed) for result in end.handlers] == [(1, False), (2, True)]


async def test_a_step_is_not_recovered_when_every_handler_failed(house: House) -> None:
    working(house, work=BROKEN, mend=said("no", 1))
    state = await house.run(plan_of(step(rescue=handlers("mend")), "b"))
    assert (state.status, exit_code(state)) == (RunStatus.FAILED, 1)
    assert (state.failure.cls, state.failure.kind) == (
        FailureClass.DETERMINISTIC_CONTRACT,
        FailureKind.EXIT_NONZERO,
    )
    assert state.steps[0].verdict is Verdict.FAILED
    assert "invalid configuration" in state.reason
    assert state.steps[1].spent.attempts == 0


async def test_a_rescue_counts_only_if_the_postconditions_hold(house: House, tmp_path: Path) -> None:
    wanted = tmp_path / "made"
    expecting = step(rescue=handlers("mend"), expect=(FileCheck(str(wanted)),))
    working(house, work=BROKEN)
    state = await house.run(plan_of(expecting, folder=str(tmp_path)), "one")
    assert state.status is RunStatus.FAILED

    def mend(_order: Order) -> Outcome:
        wanted.touch()
        return said("mended")

    working(house, work=BROKEN, mend=mend)
    state = await house.run(plan_of(expecting, folder=str(tmp_path)), "two")
    assert (state.status, state.steps[0].verdict) == (RunStatus.SUCCEEDED, Verdict.RECOVERED)


async def test_a_step_that_passes_needs_no_rescue(house: House) -> None:
    runtime = working(house)
    await house.run(plan_of(step(rescue=handlers("mend"))))
    assert runtime.done == ["work"]


async def test_a_rescued_step_counts_as_recovered_for_the_workflow_and_not_as_failed(house: House) -> None:
    working(house, work=BROKEN)
    await house.run(plan_of(step(rescue=handlers("mend"))))
    stream = await house.ledger.read("workflow:workflow")
    assert [e.payload.result for e in stream if isinstance(e.payload, ev.WorkflowStepResult)] == [
        "attempt_failed",
        "recovered",
    ]


async def test_an_empty_result_is_made_good_by_its_handlers(house: House) -> None:
    runtime = working(house, work=said("  \n"), ask=said("id: 7"))
    outputs = {"id": RegexOutput("id: ([0-9]+)")}
    state = await house.run(plan_of(step(on_empty=handlers("ask"), outputs=outputs)))
    assert runtime.done == ["work", "ask"]
    entry = ledger_document(state).steps[0]
    assert (state.status, entry.verdict, entry.phase) == (RunStatus.SUCCEEDED, "recovered", "rescue")
    assert entry.outputs == {"id": "7"}


async def test_a_step_that_must_not_be_repeated_is_not_for_the_sake_of_its_handlers(house: House) -> None:
    runtime = working(house, work=said(""), fill=said("no", 1))
    state = await house.run(plan_of(step(on_empty=handlers("fill"), repeat=Repeat.NEVER)))
    assert (state.status, runtime.done) == (RunStatus.ESCALATED, ["work", "fill"])
    assert state.escalation.step_index == 0
    (end,) = [e.payload for e in house.seen if isinstance(e.payload, ev.AttemptFailed)]
    assert [(told.number, told.passed) for told in end.handlers] == [(1, False)]


async def test_an_unhandled_empty_result_is_a_success_without_output(house: House) -> None:
    working(house, work=said(""))
    state = await house.run(plan_of(step()))
    assert (state.status, state.steps[0].results.outputs) == (RunStatus.SUCCEEDED, {})


async def test_a_result_that_is_not_empty_needs_no_handler(house: House) -> None:
    runtime = working(house)
    await house.run(plan_of(step(on_empty=handlers("ask"))))
    assert runtime.done == ["work"]


async def test_always_runs_after_success_and_changes_nothing_about_it(house: House) -> None:
    runtime = working(house, clean=said("no", 1))
    state = await house.run(plan_of(step(always=handlers("clean")), "b"))
    assert runtime.done == ["work", "clean", "true"]
    assert (state.status, state.steps[0].verdict) == (RunStatus.SUCCEEDED, Verdict.UNVERIFIED)
    beside = [end for end in finished(house) if end.phase == "always"]
    assert [end.reason for end in beside] == ["1 of 1 failed"]


async def test_always_runs_after_failure_and_before_the_run_ends(house: House) -> None:
    runtime = working(house, work=BROKEN, mend=said("no", 1))
    state = await house.run(plan_of(step(rescue=handlers("mend"), always=handlers("clean"))))
    assert runtime.done == ["work", "mend", "clean"]
    assert state.status is RunStatus.FAILED
    assert (await house.types())[-1] == ev.RunFailed.TYPE


async def test_handlers_that_a_lost_driver_left_are_done_by_the_next(house: House) -> None:
    class Lost(Exception):
        pass

    def lose(_order: Order) -> Outcome:
        raise Lost

    working(house, work=BROKEN, mend=lose)
    await house.submit(plan_of(step(rescue=handlers("mend"), always=handlers("clean"))))
    with pytest.raises(Lost):
        await (await house.driver("run-1")).drive()
    runtime = working(house, work=BROKEN)
    state = await (await house.driver("run-1")).drive()
    assert runtime.done == ["mend", "clean"]
    assert (state.status, state.steps[0].verdict) == (RunStatus.SUCCEEDED, Verdict.RECOVERED)


async def test_handlers_that_a_takeover_cut_off_are_done_when_the_run_goes_on(house: House) -> None:
    cut_off: list[str] = []

    class CutOff(ByCommand):
        async def perform(self, order: Order, hooks: Hooks) -> Outcome:
            outcome = await super().perform(order, hooks)
            if self.done[-1] == "clean" and not cut_off:
                cut_off.append("clean")
                await house.ledger.send_control(control("takeover"))
                while not hooks.stop.is_set():
                    await asyncio.sleep(0.01)
                return Outcome(interrupted=True)
            return outcome

    runtime = CutOff()
    house.world.runtimes["run"] = runtime  # type: ignore[index]
    state = await house.run(plan_of(step(always=handlers("clean")), "b"))
    assert (state.status, state.hold.takeover) == (RunStatus.WAITING, True)
    await answered(house, control("resume"))
    state = await (await house.driver("run-1")).drive()
    assert (state.status, runtime.done) == (RunStatus.SUCCEEDED, ["work", "clean", "clean", "true"])


async def test_a_step_that_was_given_up_is_tried_again_after_a_person_had_the_workspace(house: House) -> None:
    async def mended(order: Order, hooks: Hooks) -> Outcome:
        del order
        await house.ledger.send_control(control("takeover"))
        while not hooks.stop.is_set():
            await asyncio.sleep(0.01)
        return Outcome(interrupted=True)

    runtime = working(house, work=BROKEN)
    runtime.perform, perform = _but(runtime, "mend", mended), runtime.perform  # type: ignore[method-assign, assignment]
    state = await house.run(plan_of(step(rescue=handlers("mend"))))
    assert state.hold.takeover
    runtime.perform = perform  # type: ignore[method-assign]
    runtime.answers["work"] = said("done")
    await answered(house, control("resume"))
    state = await (await house.driver("run-1")).drive()
    assert (state.status, runtime.done) == (RunStatus.SUCCEEDED, ["work", "work"])


def _but(runtime: ByCommand, command: str, other: Performs) -> Performs:
    perform = runtime.perform

    async def either(order: Order, hooks: Hooks) -> Outcome:
        assert isinstance(order.action, RunAction)
        return await (other if str(order.action.command).startswith(command) else perform)(order, hooks)

    return either


async def test_going_back_before_the_always_of_a_step_leaves_it_to_the_next_time(house: House) -> None:
    """What it would refer to is gone."""

    async def pauses(order: Order, hooks: Hooks) -> Outcome:
        del order
        await house.ledger.send_control(control("pause"))
        while not any(isinstance(e.payload, ev.ControlHandled) for e in house.seen):
            await asyncio.sleep(0.01)
        return said("done")

    runtime = working(house, give=said("x=1"))
    runtime.perform, perform = _but(runtime, "use", pauses), runtime.perform  # type: ignore[method-assign, assignment]
    first = Step(id="a", action=RunAction("give"), outputs={"x": RegexOutput(r"x=(\d)")})
    uses = Step(id="b", action=RunAction("use ${{ steps.a.outputs.x }}"), always=handlers("clean"))
    state = await house.run(plan_of(first, uses))
    assert state.hold.paused and state.progress.always_pending == (1,)
    runtime.perform = perform  # type: ignore[method-assign]
    _, outcome = await answered(house, control("resume_from_step", "a"))
    assert outcome == "accepted"
    state = await (await house.driver("run-1")).drive()
    assert (state.status, runtime.done) == (RunStatus.SUCCEEDED, ["give", "give", "use '1'", "clean"])


@pytest.mark.parametrize("kind", ["on_empty", "rescue"])
@pytest.mark.parametrize("code", [0, 1])
async def test_a_secret_output_that_a_handler_gives_is_known_before_anything_is_stored(
    house: House, kind: str, code: int
) -> None:
    token = "Zk93hdTqqLmw22"
    out = {"token": RegexOutput(r"token=(\S+)", secret=True)}
    working(house, work=said("") if kind == "on_empty" else BROKEN, give=said(f"token={token}", code))
    options: dict[str, Any] = {kind: handlers("give"), "outputs": out, "expect": (ExitCheck((0,)),)}
    state = await house.run(plan_of(step(**options)))
    stored = "".join(str(e.raw) for e in house.seen)
    kept = b"".join([await house.world.evidence.get(handle) for handle in state.steps[0].results.evidence])
    assert token not in stored and token.encode() not in kept
    if not code:
        assert (state.status, state.steps[0].results.secret_outputs) == (RunStatus.SUCCEEDED, ("token",))
        assert house.redactor.found_in(token.encode())


async def test_no_handler_outlasts_the_run(tmp_path: Path) -> None:
    house = House(tmp_path, policy=Policy(run_timeout_seconds=100))
    given_s: list[float] = []

    def note(order: Order) -> Outcome:
        given_s.append(order.policy.step_timeout_seconds)
        return said("done")

    working(house, work=BROKEN, mend=note, clean=note)
    long = Handler(action=RunAction("mend"), timeout_s=5000)
    await house.run(plan_of(step(rescue=(long,), always=handlers("clean"))))
    await house.ledger.close()
    assert len(given_s) == 2
    assert all(0 < seconds <= 100 for seconds in given_s)


async def test_a_run_that_is_out_of_time_before_the_rescue_of_a_step_still_does_its_always(
    tmp_path: Path,
) -> None:
    house, given_s = slow_house(tmp_path), list[float]()

    def late(_order: Order) -> Outcome:
        house.clock.advance(150)  # type: ignore[attr-defined]
        return BROKEN

    def clean(order: Order) -> Outcome:
        given_s.append(order.policy.step_timeout_seconds)
        house.clock.advance(20)  # type: ignore[attr-defined]
        return said("done")

    runtime = working(house, work=late, first=clean, second=clean)
    state = await house.run(plan_of(step(rescue=handlers("mend"), always=handlers("first", "second"))))
    await house.ledger.close()
    assert runtime.done == ["work", "first", "second"]
    assert given_s == [30, 10], "all that an `always` gets when the run has no time left"
    assert (state.status, state.failure.kind) == (RunStatus.FAILED, FailureKind.WALL_TIMEOUT)
    assert state.reason.startswith("run_timeout: the run has used its 100 s; step a had failed: ")
    assert "invalid configuration" in state.reason


async def test_a_run_that_is_out_of_time_between_two_attempts_still_does_the_always(tmp_path: Path) -> None:
    house = slow_house(tmp_path)

    class Late(list[Event]):
        def append(self, event: Event) -> None:
            super().append(event)
            if isinstance(event.payload, ev.SelfHealTriggered):
                house.clock.advance(150)  # type: ignore[attr-defined]

    house.seen = Late()
    runtime = working(house, work=said("error: connection reset by peer", 1))
    state = await house.run(plan_of(step(always=handlers("clean")), "b"))
    assert runtime.done == ["work", "clean"]
    assert (state.status, state.failure.kind) == (RunStatus.FAILED, FailureKind.WALL_TIMEOUT)
    assert await house.state("run-1") == state
    await house.ledger.close()


async def test_an_always_is_done_once_when_the_run_is_out_of_time_after_it(tmp_path: Path) -> None:
    house = slow_house(tmp_path)

    def slow(_order: Order) -> Outcome:
        house.clock.advance(150)  # type: ignore[attr-defined]
        return said("done")

    runtime = working(house, work=BROKEN, mend=said("no", 1), clean=slow)
    state = await house.run(plan_of(step(rescue=handlers("mend"), always=handlers("clean"))))
    assert (runtime.done, state.status) == (["work", "mend", "clean"], RunStatus.FAILED)
    runtime = working(house, work=slow)
    state = await house.run(plan_of("a", step("b", always=handlers("clean")), step("c")), "run-2")
    assert runtime.done == ["true", "work", "clean"]
    assert (state.status, state.steps[2].spent.attempts) == (RunStatus.FAILED, 0)
    await house.ledger.close()


async def test_a_step_that_was_never_begun_owes_no_always(tmp_path: Path) -> None:
    house = slow_house(tmp_path)

    def slow(_order: Order) -> Outcome:
        house.clock.advance(150)  # type: ignore[attr-defined]
        return said("done")

    runtime = working(house, true=slow)
    state = await house.run(plan_of("a", step("b", always=handlers("clean"))))
    await house.ledger.close()
    assert (runtime.done, state.status) == (["true"], RunStatus.FAILED)


def slow_house(root: Path) -> House:
    """Its time jumps, and no heartbeat can come in between: the lease lasts."""
    house = House(root, policy=Policy(run_timeout_seconds=100, always_grace_seconds=30))
    house.world = msgspec.structs.replace(house.world, lease_ttl_s=1_000)
    return house


# Gates


def control(action: str, step_id: str | None = None) -> Control:
    at = FakeClock().now()
    return Control(
        id=f"c-{action}",
        run_id="run-1",
        action=action,
        reason="checked",
        actor="eve",
        at=at,
        step_id=step_id,
    )


GATE = Step(id="gate", action=ApproveAction("Release to the bank?"))


async def answered(house: House, wish: Control) -> tuple[RunState, str | None]:
    await house.ledger.send_control(wish)
    state = await (await house.driver("run-1")).answer()
    after = await house.ledger.control(wish.id)
    assert after is not None
    return state, after.outcome


async def test_a_gate_waits_in_nobodys_hands_until_it_is_approved(house: House) -> None:
    runtime = working(house)
    state = await house.run(plan_of("a", GATE, "b"))
    assert (state.status, state.hold.waiting_for, exit_code(state)) == (RunStatus.WAITING, "approval", 5)
    assert "Release to the bank?" in state.reason
    lease = await house.ledger.lease("run-1")
    assert lease is not None and lease.owner is None
    state, outcome = await answered(house, control("approve"))
    assert (outcome, state.status, state.steps[1].verdict) == ("accepted", RunStatus.WAITING, Verdict.PASSED)
    (handle,) = state.steps[1].results.evidence
    assert b'"approvedBy":"eve"' in await house.world.evidence.get(handle)
    state = await (await house.driver("run-1")).drive()
    assert (state.status, runtime.done) == (RunStatus.SUCCEEDED, ["true", "true"])


async def test_a_rejected_gate_ends_the_run(house: House) -> None:
    working(house)
    await house.run(plan_of("a", GATE, "b"))
    state, outcome = await answered(house, control("reject"))
    assert (outcome, state.status, exit_code(state)) == ("accepted", RunStatus.FAILED, 1)
    assert (state.failure.cls, state.failure.kind) == (
        FailureClass.DETERMINISTIC_POLICY,
        FailureKind.REJECTED,
    )
    assert not run_document(state).retryable


async def test_what_is_no_gate_cannot_be_approved(house: House) -> None:
    working(house)
    await house.run(plan_of("a", GATE))
    _, outcome = await answered(house, control("approve", step_id="a"))
    assert outcome == "refused"


async def test_resuming_a_run_at_its_gate_changes_nothing(house: House) -> None:
    working(house)
    await house.run(plan_of("a", GATE))
    state = await (await house.driver("run-1")).drive()
    assert (state.status, state.hold.waiting_for) == (RunStatus.WAITING, "approval")


@pytest.mark.parametrize("wishes", [["pause"], ["takeover"], ["pause", "resume"], ["pause", "takeover"]])
async def test_a_gate_that_was_reached_can_be_answered_whoever_paused_the_run_since(
    house: House, wishes: list[str]
) -> None:
    runtime = working(house)
    await house.run(plan_of("a", GATE, "b"))
    for wish in wishes:
        assert (await answered(house, control(wish)))[1] == "accepted"
    state, outcome = await answered(house, control("approve"))
    paused = wishes[-1] != "resume"
    assert (outcome, state.hold.paused, state.steps[1].verdict) == ("accepted", paused, Verdict.PASSED)
    assert (state.status, state.hold.waiting_for) == (RunStatus.WAITING, "operator" if paused else "driver")
    if paused:
        state = await (await house.driver("run-1")).drive()
        assert (state.status, runtime.done) == (RunStatus.WAITING, ["true"]), "an approval is not a resume"
        await house.ledger.send_control(msgspec.structs.replace(control("resume"), id="go-on"))
    state = await (await house.driver("run-1")).drive()
    assert (state.status, runtime.done) == (RunStatus.SUCCEEDED, ["true", "true"])
    assert await house.state("run-1") == state


async def test_a_gate_can_be_rejected_while_the_run_is_paused(house: House) -> None:
    working(house)
    await house.run(plan_of("a", GATE, "b"))
    await answered(house, control("pause"))
    state, outcome = await answered(house, control("reject"))
    assert (outcome, state.status, state.failure.kind) == ("accepted", RunStatus.FAILED, FailureKind.REJECTED)


async def test_a_gate_that_nobody_was_asked_at_cannot_be_approved_and_says_what_to_do(house: House) -> None:
    async def pauses(order: Order, hooks: Hooks) -> Outcome:
        del order, hooks
        await house.ledger.send_control(control("pause"))
        while not any(isinstance(e.payload, ev.ControlHandled) for e in house.seen):
            await asyncio.sleep(0.01)
        return said("done")

    runtime = working(house)
    runtime.perform = _but(runtime, "true", pauses)  # type: ignore[method-assign, assignment]
    state = await house.run(plan_of("a", GATE, "b"))
    assert (state.hold.paused, state.progress.prefix_length) == (True, 1)
    state, outcome = await answered(house, control("approve"))
    assert outcome == "refused"
    (refused,) = [
        e.payload.detail
        for e in house.seen
        if isinstance(e.payload, ev.ControlHandled) and e.payload.outcome == "refused"
    ]
    assert "has not asked yet" in refused and "recoup resume run-1" in refused


async def test_an_answer_is_not_taken_for_a_gate_before_which_something_changed(house: House) -> None:
    working(house)
    await house.run(plan_of("a", GATE, "b"))
    await answered(house, control("pause"))
    _, outcome = await answered(house, control("resume_from_step", "a"))
    assert outcome == "accepted"
    assert (await house.state("run-1")).progress.gate_reached is None
    assert (await answered(house, control("approve")))[1] == "refused"


async def test_a_gate_whose_condition_does_not_hold_is_passed_by(house: House) -> None:
    working(house)
    skipped = Step(id="gate", action=ApproveAction("Really?"), when="no")
    state = await house.run(plan_of("a", skipped, "b"))
    assert state.status is RunStatus.SUCCEEDED
