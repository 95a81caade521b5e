"""Go back to a step, and do anew what came after it."""

from __future__ import annotations

from recoup.kernel.controls.kind import ControlKind, Effect, GoBack, Hold, StepUse, Takes, Then
from recoup.kernel.controls.rules import ended_words, in_flight, not_settled
from recoup.kernel.controls.scope import (
    Scope,
    cut_off_words,
    first_steps,
    listed,
    next_driver,
    origin,
    sentences,
    step_names,
    under_way,
)
from recoup.kernel.deeds import is_done_for_good
from recoup.kernel.position import is_over
from recoup.model.policy import Policy
from recoup.model.run import RunState, StepRecord
from recoup.model.storage import Control


def _refuse(state: RunState, control: Control, _policy: Policy) -> str | None:
    if is_over(state):
        return ended_words(state)
    nobody_knows = not_settled(state)
    if nobody_knows:
        return nobody_knows
    if not state.hold.paused:
        return "only a paused run, or one that was taken over, can go back to a step"
    record = next((one for one in state.steps if one.step_id == control.step_id), None)
    if record is None:
        return f"the run has no step {control.step_id}"
    if record.index > state.progress.prefix_length:
        frontier = state.steps[state.progress.prefix_length].step_id
        return f"{record.step_id} comes after {frontier}, which is not done"
    return _never(state, record.index) or in_flight(state)


def _never(state: RunState, index: int) -> str | None:
    for record in state.steps[index : state.progress.prefix_length]:
        if is_done_for_good(state.plan.steps[record.index], record):
            return f"{record.step_id} is done and must not be repeated"
    return None


def _scope(state: RunState, control: Control, driven: bool) -> Scope:
    index = _chosen(state, control).index
    ends, again = under_way(state), state.steps[index : state.progress.prefix_length]
    restores = origin(state, index) if state.workspaces.current is not None else None
    they = (
        "what they did counts no more, and they are"
        if len(again) > 1
        else "what it did counts no more, and it is"
    )
    lost = f"{step_names(again)}: {they} performed again." if again else ""
    words = sentences(
        cut_off_words(ends),
        lost,
        f"The workspace is restored to {restores}." if restores else "The workspace is left as it is.",
        first_steps(state, index, "stays.", "stay.") if index else "No step stays.",
        next_driver(state, driven),
    )
    return Scope(ends=ends, again=listed(again), again_count=len(again), restores=restores, words=words)


def _effect(state: RunState, control: Control) -> Effect:
    reason = f"{control.actor} went back to {control.step_id}: {control.reason}"
    order = GoBack(_chosen(state, control).index, reason)
    return Effect(control=control, order=order, cuts_off=True, then=Then.GOES_ON)


def _chosen(state: RunState, control: Control) -> StepRecord:
    return next(record for record in state.steps if record.step_id == control.step_id)


def _steps_so_far(state: RunState) -> list[str]:
    return [record.step_id for record in state.steps[: state.progress.prefix_length + 1]]


RESUME_FROM_STEP = ControlKind(
    name="resume_from_step",
    label="Go back to here",
    summary="go back to a step (only while paused); what came after it is done again",
    takes=Takes(step=StepUse.CHOSEN),
    steps=_steps_so_far,
    refuse=_refuse,
    scope=_scope,
    effect=_effect,
    hold=Hold.LIFTS,
    renews=True,
    recovers=True,
    pre_empts=True,
    danger=True,
)
