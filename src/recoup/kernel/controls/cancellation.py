"""End a run for good."""

from __future__ import annotations

from recoup.kernel.controls.kind import ControlKind, Effect, Pin, Then
from recoup.kernel.controls.scope import Scope, cut_off_words, kept_words, sentences, under_way
from recoup.kernel.position import is_over
from recoup.model.events import RunCancelled
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.model.storage import Control


def _refuse(state: RunState, _control: Control, _policy: Policy) -> str | None:
    return f"the run is {state.status} already" if is_over(state) else None


def _scope(state: RunState, _control: Control, _driven: bool) -> Scope:
    ends = under_way(state)
    words = sentences(
        cut_off_words(ends), "The run ends as cancelled. This cannot be taken back.", kept_words(state)
    )
    return Scope(ends=ends, ends_run=True, words=words)


def _effect(_state: RunState, control: Control) -> Effect:
    cancelled = RunCancelled(reason=control.reason, actor=control.actor)
    return Effect(control=control, facts=(cancelled,), cuts_off=True, then=Then.ENDS)


CANCEL = ControlKind(
    name="cancel",
    label="Cancel run",
    summary="end the run and kill what runs",
    refuse=_refuse,
    scope=_scope,
    effect=_effect,
    pre_empts=True,
    needs_secrets=False,  # nobody must be kept from ending a run because its secrets are elsewhere
    pin=Pin.ANYWHERE,
    danger=True,
    always_shown=True,
)
