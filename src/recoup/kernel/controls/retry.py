"""Retry the step at which a run stands: in its workspace as it is, or in one that is restored first."""

from __future__ import annotations

from msgspec.structs import replace

from recoup.kernel.controls.kind import FORCE, ControlKind, Effect, Hold, StepUse, Takes, Then
from recoup.kernel.controls.rules import current_step_name, in_flight, not_now
from recoup.kernel.controls.scope import (
    TAKES_UP,
    Scope,
    cut_off_words,
    listed,
    next_driver,
    origin,
    place,
    sentences,
    step_names,
    under_way,
)
from recoup.kernel.healing import page_can_be_made_again, page_made_by
from recoup.model.events import ControlHandled
from recoup.model.policy import Policy
from recoup.model.run import RunState, StepRecord
from recoup.model.storage import Control

# Retry step


def _refuse_retry(state: RunState, control: Control, _policy: Policy) -> str | None:
    return not_now(state, control) or in_flight(state)


def _scope_of_retry(state: RunState, _control: Control, driven: bool) -> Scope:
    ends = under_way(state)
    words = sentences(
        cut_off_words(ends),
        f"{place(state)} is tried again at once, with all its attempts; the workspace is left as it is.",
        "The pause is taken back." if state.hold.paused else "",
        TAKES_UP,
        next_driver(state, driven),
    )
    return Scope(ends=ends, words=words)


def _retry(_state: RunState, control: Control) -> Effect:
    return Effect(control=control, cuts_off=True, then=Then.GOES_ON)


RETRY_STEP = ControlKind(
    name="retry_step",
    label="Retry step",
    summary="try the step at which the run stands again, at once",
    takes=Takes(step=StepUse.CURRENT),
    steps=current_step_name,
    refuse=_refuse_retry,
    scope=_scope_of_retry,
    effect=_retry,
    hold=Hold.LIFTS,
    renews=True,
    strategy="soft_reset",
    recovers=True,
    pre_empts=True,
    always_shown=True,
)

# Hard reset step


def _refuse_hard_reset(state: RunState, control: Control, policy: Policy) -> str | None:
    wrong = not_now(state, control) or in_flight(state)
    if wrong:
        return wrong
    if state.workspaces.baseline is None and not page_can_be_made_again(
        state.plan.steps, state.progress.prefix_length
    ):
        return "the plan has no workspace that could be restored"
    if control.argument != FORCE and state.counts.resets >= policy.job_self_heal_max_resets:
        used = f"{state.counts.resets} of {policy.job_self_heal_max_resets} used"
        return f"job_self_heal_max_resets: {used} (--force does it all the same)"
    return None


def _scope_of_hard_reset(state: RunState, control: Control, driven: bool) -> Scope:
    ends, again = under_way(state), _makes_the_page(state)
    counted = (
        "It does not count among the run's resets."
        if control.argument == FORCE
        else "It counts as one of the run's resets."
    )
    restores, restored = "a new browser", ""
    if state.workspaces.baseline is not None:
        restores = origin(state, again[0].index if again else state.progress.prefix_length)
        restored = f"The workspace is restored to {restores}; whatever the step left there is gone."
    made = f"A new browser; {step_names(again)} is performed there once more to make the page again."
    words = sentences(
        cut_off_words(ends),
        restored,
        made if again else "",
        f"Then {place(state)} is tried again, with all its attempts.",
        "The run stays paused until you resume it." if state.hold.paused else next_driver(state, driven),
        counted,
    )
    return Scope(ends=ends, again=listed(again), again_count=len(again), restores=restores, words=words)


def _makes_the_page(state: RunState) -> list[StepRecord]:
    """The steps that a hard reset performs again, for it takes a new browser."""
    if not page_can_be_made_again(state.plan.steps, state.progress.prefix_length):
        return []
    return [state.steps[index] for index in page_made_by(state.plan.steps, state.progress.prefix_length)]


def _hard_reset(state: RunState, control: Control) -> Effect:
    """A paused run stays paused; the workspace is restored when it goes on."""
    return Effect(control=control, cuts_off=True, then=Then.WAITS if state.hold.paused else Then.GOES_ON)


def _restores(state: RunState, handled: ControlHandled) -> RunState:
    resets = state.counts.resets + (handled.argument != FORCE)
    return replace(
        state,
        workspaces=replace(state.workspaces, restore_pending=True),
        counts=replace(state.counts, resets=resets),
    )


HARD_RESET_STEP = ControlKind(
    name="hard_reset_step",
    label="Hard reset step",
    forced_label="Hard reset beyond the limit",
    summary="the same in a workspace restored from the last checkpoint",
    takes=Takes(step=StepUse.CURRENT, beyond="the run's resets"),
    steps=current_step_name,
    refuse=_refuse_hard_reset,
    scope=_scope_of_hard_reset,
    effect=_hard_reset,
    fold=_restores,
    renews=True,
    strategy="hard_reset",
    recovers=True,
    pre_empts=True,
    danger=True,
    always_shown=True,
)
