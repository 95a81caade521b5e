"""Answer a gate: the run goes on behind it, or fails there."""

from __future__ import annotations

from recoup.kernel.controls.kind import AnswerGate, ControlKind, Effect, Pin, StepUse, Takes, Then
from recoup.kernel.controls.rules import current_step_name
from recoup.kernel.controls.scope import Scope, kept_words, next_driver, sentences
from recoup.kernel.position import current_step, gate, is_gate, is_over, visit
from recoup.model.policy import Policy
from recoup.model.run import RunState, StepRecord
from recoup.model.storage import Control


def _refuse(state: RunState, control: Control, _policy: Policy) -> str | None:
    step = gate(state)
    if step is None:
        return _no_gate(state)
    if control.step_id not in (None, step.step_id):
        return f"the run waits at {step.step_id}, not at {control.step_id}"
    if control.argument not in (None, visit(state.driver.delivery, state.progress.invalidations)):
        return f"the run came to {step.step_id} again since this was asked for: ask for it again"
    return None


def _no_gate(state: RunState) -> str:
    step = current_step(state)
    if is_over(state) or step is None or not is_gate(state, step):
        return "the run does not wait for an approval"
    first = f"resume it (recoup resume {state.run_id}), and answer when it waits there"
    return f"the run has not asked yet, although {step.step_id} is next: {first}"


def _reached(state: RunState) -> StepRecord:
    step = gate(state)
    assert step is not None, "only a gate can be answered"
    return step


# Approve


def _scope_of_approval(state: RunState, _control: Control, driven: bool) -> Scope:
    step = _reached(state)
    after = state.steps[step.index + 1 :]
    following = f"The run goes on with {after[0].step_id}." if after else "The run has then succeeded."
    passes = f"{step.step_id} is passed, by your word."
    return Scope(words=sentences(passes, following, next_driver(state, driven)))


def _approve(state: RunState, control: Control) -> Effect:
    """The gate is a step like any other: it was begun, and it passed, by an operator's word."""
    order = AnswerGate(_reached(state).index, passes=True)
    return Effect(control=control, order=order, then=Then.GOES_ON)


APPROVE = ControlKind(
    name="approve",
    label="Approve",
    summary="at a gate",
    takes=Takes(step=StepUse.CURRENT),
    steps=current_step_name,
    refuse=_refuse,
    scope=_scope_of_approval,
    effect=_approve,
    is_answer=True,
    pin=Pin.VISIT,
)

# Reject


def _scope_of_rejection(state: RunState, _control: Control, _driven: bool) -> Scope:
    fails = f"{_reached(state).step_id} fails by your word, and the run ends as failed."
    return Scope(ends_run=True, words=sentences(fails, kept_words(state)))


def _reject(state: RunState, control: Control) -> Effect:
    order = AnswerGate(_reached(state).index, passes=False)
    return Effect(control=control, order=order, then=Then.ENDS)


REJECT = ControlKind(
    name="reject",
    label="Reject",
    summary="at a gate",
    takes=Takes(step=StepUse.CURRENT),
    steps=current_step_name,
    refuse=_refuse,
    scope=_scope_of_rejection,
    effect=_reject,
    is_answer=True,
    pin=Pin.VISIT,
    danger=True,
)
