"""What an accepted control does, as a value: who carries it out needs to know no control."""

from __future__ import annotations

from typing import Any

import pytest

from recoup.kernel.controls import CONTROLS, heed, pre_empts, why_not, wish
from recoup.kernel.controls.kind import AnswerGate, Effect, GoBack, SettleAsDone, Then
from recoup.kernel.fold import advance, submitted
from recoup.model import events as ev
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import ApproveAction, Plan, Repeat, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunState

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")
OWNER = ProcessIdentity("host", "boot", 1, 1)


def run(*facts: ev.Payload) -> RunState:
    steps = (
        Step(id="a", action=RunAction("x")),
        Step(id="go", action=ApproveAction("Go on?")),
        Step(id="pay", action=RunAction("x"), repeat=Repeat.NEVER),
    )
    first = ev.RunSubmitted(
        workflow="w", plan_digest="d", plan=Plan(name="w", steps=steps), plan_redacted=False, inputs={},
        policy_digest="p",
    )  # fmt: skip
    state = submitted("r", first, NOW)
    for fact in (ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="p"), *facts):
        state = advance(state, fact, NOW, state.seq + 1)
    return state


def done(step_id: str, index: int) -> list[ev.Payload]:
    start = ev.AttemptStarted(
        step_id=step_id, step_index=index, attempt=1, delivery=1, kind="run", args_digest="d", pre_state=None,
        workspace=None, inline=True,
    )  # fmt: skip
    end = ev.AttemptFinished(step_id=step_id, step_index=index, attempt=1, verdict="passed", duration_ms=1)
    return [start, end]


def handled(action: str, **more: Any) -> ev.ControlHandled:
    about = {"command_id": "c", "action": action, "outcome": "accepted", "reason": "", "actor": "ann"}
    return ev.ControlHandled(**about, epoch=1, **more)


def escalated(**question: Any) -> ev.Escalated:
    about: dict[str, Any] = {"escalation_id": "e", "reason": "unknown", "hint": ""}
    return ev.Escalated(**about, step_id="pay", step_index=2, **question)


def effect(state: RunState, action: str, step_id: str | None = None, argument: str | None = None) -> Effect:
    return CONTROLS[action].effect(state, wish(state, action, step_id, argument))


@pytest.mark.parametrize(
    ("action", "then", "cuts_off"),
    [
        ("pause", Then.WAITS_AFTER_ATTEMPT, False),
        ("resume", Then.GOES_ON, False),
        ("takeover", Then.WAITS, True),
        ("retry_step", Then.GOES_ON, True),
        ("hard_reset_step", Then.GOES_ON, True),
        ("cancel", Then.ENDS, True),
    ],
)
def test_what_becomes_of_a_run_and_of_its_attempt(action: str, then: Then, cuts_off: bool) -> None:
    found = effect(run(), action)
    assert (found.then, found.cuts_off) == (then, cuts_off)


def test_only_what_ends_an_attempt_pre_empts_one() -> None:
    state = run()
    for name in CONTROLS:
        cuts_off = name not in ("pause", "resume", "approve", "reject", "settle")
        assert pre_empts(wish(state, name)) is cuts_off
    assert not pre_empts(wish(state, "no such control"))


def test_a_hard_reset_of_a_paused_run_lets_it_wait() -> None:
    assert effect(run(handled("pause")), "hard_reset_step").then is Then.WAITS


def test_going_back_names_the_step_by_its_place_and_says_why() -> None:
    state = run(*done("a", 0), handled("pause"))
    order = effect(state, "resume_from_step", "a").order
    assert isinstance(order, GoBack) and order.index == 0 and "went back to a" in order.reason


def test_nobody_goes_back_before_a_step_that_is_done_and_must_not_be_repeated() -> None:
    state = run(*done("a", 0), *done("go", 1), *done("pay", 2), handled("pause"))
    back = wish(state, "resume_from_step", "a")
    assert why_not(state, back, Policy()) == "pay is done and must not be repeated"


@pytest.mark.parametrize(("action", "passes"), [("approve", True), ("reject", False)])
def test_an_answer_is_about_the_gate_that_was_reached(action: str, passes: bool) -> None:
    state = run(*done("a", 0), ev.RunWaiting(reason="?", step_id="go", waiting_for="approval"))
    found = effect(state, action)
    assert found.order == AnswerGate(1, passes)
    assert found.then is (Then.GOES_ON if passes else Then.ENDS)


def test_an_answer_to_another_gate_is_refused() -> None:
    state = run(*done("a", 0), ev.RunWaiting(reason="?", step_id="go", waiting_for="approval"))
    why = CONTROLS["approve"].refuse(state, wish(state, "approve", "other"), Policy())
    assert why == "the run waits at go, not at other"


def test_a_settlement_names_its_step_and_passes_it_only_where_it_was_done() -> None:
    state = run(escalated())
    said, denied = (effect(state, "settle", None, answer) for answer in ("done", "not-done"))
    assert said.order == SettleAsDone((2,)) and denied.order is None
    assert (said.control.step_id, denied.control.step_id) == ("pay", "pay")
    assert denied.words == "pay was settled as not-done"


def test_a_settlement_of_a_lost_page_names_no_step() -> None:
    state = run(*done("pay", 2), escalated(page_steps=("pay", "a")))
    said, denied = (effect(state, "settle", "pay", answer) for answer in ("done", "not-done"))
    assert (said.control.step_id, said.order) == (None, None)
    assert said.words == "the page is used as it is, without pay, a"
    assert denied.words == "pay, a performed again to restore the page"


def test_a_stored_control_of_which_nothing_is_known_changes_nothing() -> None:
    state, other = run(), run()
    state = heed(state, handled("of another version"))
    assert state == other


def test_only_going_back_and_settling_need_the_name_of_a_step() -> None:
    required = [kind.name for kind in CONTROLS.values() if kind.takes.step.is_required]
    assert required == ["resume_from_step", "settle"]
