"""What an operator is told when something cannot be done now."""

from __future__ import annotations

from typing import Any

import pytest

from recoup.kernel.approvals import held_to, standing
from recoup.kernel.controls import refusal
from recoup.kernel.fold import advance, submitted
from recoup.kernel.position import visit
from recoup.model import events as ev
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import ApproveAction, Plan, Repeat, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.model.storage import Control

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")


def queued() -> RunState:
    steps = (Step(id="pay", action=RunAction("x"), repeat=Repeat.NEVER), Step(id="b", action=RunAction("x")))
    first = ev.RunSubmitted(
        workflow="w",
        plan_digest="d",
        plan=Plan(name="w", steps=steps),
        plan_redacted=False,
        inputs={},
        policy_digest="p",
    )
    return submitted("r", first, NOW)


def escalated() -> RunState:
    state = queued()
    begun = ev.RunStarted(delivery=1, epoch=1, owner=ProcessIdentity("host", "boot", 1, 1), policy_digest="p")
    asked = ev.Escalated(escalation_id="e", reason="unknown outcome", hint="", step_id="pay", step_index=0)
    for fact in (begun, asked):
        state = advance(state, fact, NOW, state.seq + 1)
    return state


def at_gate() -> RunState:
    steps = (Step(id="a", action=RunAction("x")), Step(id="go", action=ApproveAction("Go on?")))
    plan = Plan(name="w", steps=steps)
    first = ev.RunSubmitted(
        workflow="w", plan_digest="d", plan=plan, plan_redacted=False, inputs={}, policy_digest="p"
    )
    state = submitted("r", first, NOW)
    begun = ev.RunStarted(delivery=1, epoch=1, owner=ProcessIdentity("host", "boot", 1, 1), policy_digest="p")
    state = advance(state, begun, NOW, state.seq + 1)
    return perform_a(state)


def perform_a(state: RunState) -> RunState:
    about: dict[str, Any] = {"step_id": "a", "step_index": 0, "attempt": state.steps[0].spent.attempts + 1}
    for fact in (
        ev.AttemptStarted(
            **about, delivery=1, kind="run", args_digest="d", pre_state=None, workspace=None, inline=False
        ),
        ev.AttemptFinished(**about, verdict="passed", duration_ms=1),
        ev.RunWaiting(reason="Go on?", waiting_for="approval"),
    ):
        state = advance(state, fact, NOW, state.seq + 1)
    return state


def asked(state: RunState, action: str, **more: Any) -> str | None:
    wish = Control(id="c", run_id="r", action=action, reason="", actor="ann", at=NOW, **more)
    return refusal(state, wish, Policy())


def test_what_is_no_control_is_refused_with_those_that_are_possible() -> None:
    assert asked(queued(), "explode") == "explode is not a control; possible now: pause, retry_step, cancel"


def test_a_run_that_has_not_begun_cannot_be_taken_over() -> None:
    words = asked(queued(), "takeover")
    assert words is not None
    assert words.startswith("the run has not begun: there is nothing to take over yet; possible now: ")


@pytest.mark.parametrize("action", ["resume", "retry_step", "hard_reset_step", "resume_from_step"])
def test_nothing_makes_a_run_go_on_while_nobody_knows_whether_a_step_was_done(action: str) -> None:
    assert asked(escalated(), action, step_id="pay") == (
        "nobody knows whether pay was done: settle it first; possible now: cancel, settle"
    )


@pytest.mark.parametrize("argument", ["done", "not-done"])
@pytest.mark.parametrize("step_id", [None, "pay"])
def test_an_unknown_outcome_is_settled_with_one_of_two_answers(step_id: str | None, argument: str) -> None:
    assert asked(escalated(), "settle", step_id=step_id, argument=argument) is None


def test_another_answer_or_another_step_settles_nothing() -> None:
    words = asked(escalated(), "settle", argument="perhaps")
    assert words is not None and words.startswith("say whether it was done or not-done; ")
    words = asked(escalated(), "settle", step_id="b", argument="done")
    assert words is not None and words.startswith("b is not the step in question: pay is; ")


def test_where_nothing_is_unknown_nothing_can_be_settled() -> None:
    words = asked(queued(), "settle", argument="done")
    assert words is not None
    assert words.startswith(
        "the run is queued: only an escalated step with an unknown outcome can be settled"
    )


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_an_answer_that_names_a_visit_of_a_gate_counts_at_no_other(action: str) -> None:
    state = at_gate()
    held = held_to(standing(state, action), action)
    assert held == visit(1, 0)
    assert asked(state, action) is None and asked(state, action, argument=held) is None
    back = ev.StepInvalidated(step_id="a", step_index=0, attempt=None, reason="ann went back")
    state = advance(state, back, NOW, state.seq + 1)
    state = perform_a(state)
    assert asked(state, action) is None, "who names none answers where the run waits now"
    words = asked(state, action, argument=held)
    assert words is not None and words.startswith("the run came to go again since this was asked for")


def test_no_other_control_names_a_visit() -> None:
    assert held_to(standing(at_gate(), "resume"), "resume") is None


@pytest.mark.parametrize("step_id", [None, "nowhere"])
def test_a_run_goes_back_to_no_step_that_it_does_not_have(step_id: str | None) -> None:
    state = queued()
    begun = ev.RunStarted(delivery=1, epoch=1, owner=ProcessIdentity("host", "boot", 1, 1), policy_digest="p")
    pause = ev.ControlHandled(
        command_id="p", action="pause", outcome="accepted", reason="lunch", actor="ann", epoch=1
    )
    for fact in (begun, pause):
        state = advance(state, fact, NOW, state.seq + 1)
    words = asked(state, "resume_from_step", step_id=step_id)
    assert words is not None and words.startswith(f"the run has no step {step_id}")
