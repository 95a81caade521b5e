"""Pause a run, go on after it, or take the run over."""

from __future__ import annotations

from msgspec.structs import replace

from recoup.kernel.controls.kind import ControlKind, Effect, HandOver, Hold, Pin, Then
from recoup.kernel.controls.rules import in_flight, is_active, not_settled
from recoup.kernel.controls.scope import (
    TAKES_UP,
    Scope,
    attempt_names,
    cut_off_words,
    next_driver,
    place,
    sentences,
    under_way,
)
from recoup.kernel.position import current_step, is_over
from recoup.kernel.records import with_steps
from recoup.model.events import ControlHandled
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Control

# Pause


def _refuse_pause(state: RunState, _control: Control, _policy: Policy) -> str | None:
    if not is_active(state):
        return f"the run is {state.status}"
    return "the run is paused already" if state.hold.paused else None


def _scope_of_pause(state: RunState, _control: Control, driven: bool) -> Scope:
    busy = under_way(state)
    if busy and driven:
        first = f"{attempt_names(busy)} goes on to its end; then the run waits for you."
    else:
        first = "The run waits for you from now on; no attempt begins."
    return Scope(words=(first, "Nothing is stopped, and nothing is done again."))


def _pause(_state: RunState, control: Control) -> Effect:
    return Effect(control=control, then=Then.WAITS_AFTER_ATTEMPT)


PAUSE = ControlKind(
    name="pause",
    label="Pause",
    summary="before the next attempt",
    refuse=_refuse_pause,
    scope=_scope_of_pause,
    effect=_pause,
    hold=Hold.BEGINS,
    pin=Pin.ANYWHERE,
    always_shown=True,
)

# Resume


def _refuse_resume(state: RunState, _control: Control, _policy: Policy) -> str | None:
    if is_over(state):
        return f"the run is {state.status}"
    return not_settled(state) or (None if state.hold.paused else "the run is not paused")


def _scope_of_resume(state: RunState, _control: Control, driven: bool) -> Scope:
    kept = state.hold.takeover and state.plan.workspace is not None
    changed = "What you changed in the workspace is kept, and recorded." if kept else ""
    goes_on = f"The run goes on at {place(state)}."
    return Scope(words=sentences(goes_on, changed, TAKES_UP, next_driver(state, driven)))


def _resume(_state: RunState, control: Control) -> Effect:
    return Effect(control=control, then=Then.GOES_ON)


RESUME = ControlKind(
    name="resume",
    label="Resume",
    summary="after a pause or a takeover",
    refuse=_refuse_resume,
    scope=_scope_of_resume,
    effect=_resume,
    hold=Hold.LIFTS,
    always_shown=True,
)

# Takeover


def _refuse_takeover(state: RunState, _control: Control, _policy: Policy) -> str | None:
    if not is_active(state):
        return f"the run is {state.status}"
    if state.hold.takeover:
        return "the run is taken over already"
    if state.status is RunStatus.QUEUED:
        return "the run has not begun: there is nothing to take over yet"
    return in_flight(state)


def _scope_of_takeover(state: RunState, _control: Control, _driven: bool) -> Scope:
    ends = under_way(state)
    words = sentences(
        cut_off_words(ends),
        "The run waits; you work in its workspace as it is now, and what you change there is kept."
        if state.plan.workspace is not None
        else "The run waits until you resume it; it has no workspace of its own.",
        f"When you resume it, it goes on at {place(state)}.",
    )
    return Scope(ends=ends, words=words)


def _takeover(_state: RunState, control: Control) -> Effect:
    """At once: the operator works in the workspace from now on."""
    return Effect(control=control, order=HandOver(), cuts_off=True, then=Then.WAITS)


def _taken_over(state: RunState, _handled: ControlHandled) -> RunState:
    """A person fixes the step: it is tried once more before the run ends."""
    state = replace(state, hold=replace(state.hold, takeover=True))
    step = current_step(state)
    if step is None:
        return state
    recovery = replace(step.recovery, given_up=None, rescue_tried=False)
    return with_steps(state, replace(step, recovery=recovery))


TAKEOVER = ControlKind(
    name="takeover",
    label="Take over",
    summary="stop the attempt and work in the workspace yourself; what you change there is kept",
    refuse=_refuse_takeover,
    scope=_scope_of_takeover,
    effect=_takeover,
    fold=_taken_over,
    hold=Hold.BEGINS,
    held_words="taken over",
    recovers=True,
    pre_empts=True,
    pin=Pin.ANYWHERE,
    danger=True,
    always_shown=True,
)
