"""What a control would do, before anybody asks for it: which attempts end, which steps are performed again, what
becomes of the workspace, and what stays. Whether it is possible is decided by the rules that its driver follows."""

from __future__ import annotations

from typing import Final

import msgspec

from recoup.kernel.controls import CONTROLS, why_not, wish, wishes
from recoup.kernel.controls.kind import FORCE, ControlKind, StepUse
from recoup.kernel.controls.scope import Scope, first_steps, listed, sentences, step_names
from recoup.kernel.deeds import is_done_for_good
from recoup.kernel.unreadable import unreadable_words
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Control

NEW_RUN: Final = "new_run"
"""Not a control: another run, linked to this one (`POST /api/runs` with `reuse` and `fromStep`)."""


class Preview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One control: whether it is possible now, and what it would do."""

    action: str
    step_id: str | None = None
    answer: str | None = msgspec.field(default=None, name="as")
    """For settle: done | not-done."""
    force: bool = False
    allowed: bool
    why: str = ""
    """Why not."""
    scope: Scope


def previews(state: RunState, policy: Policy, driven: bool) -> list[Preview]:
    """Of the run and the step at which it stands. `driven`: somebody holds its lease."""
    of_run = [kind for kind in CONTROLS.values() if kind.takes.step is not StepUse.CHOSEN]
    return [seen for kind in of_run for seen in _previews_of_kind(state, kind, policy, driven)]


def previews_of_step(state: RunState, index: int, policy: Policy, driven: bool) -> list[Preview]:
    """Going back to this step, here or in a new run."""
    step_id = state.steps[index].step_id
    here = [preview(state, wish(state, name, step_id), policy, driven) for name in _of_each_step()]
    return [*here, new_run(state, index, driven)]


def previews_of_unknown_step(state: RunState, step_id: str) -> list[Preview]:
    """The same for a run whose steps are not known, because its first event cannot be read."""
    why = _why_unreadable(state)
    return [
        Preview(action=action, step_id=step_id, allowed=False, why=why, scope=Scope())
        for action in (*_of_each_step(), NEW_RUN)
    ]


def preview(state: RunState, control: Control, policy: Policy, driven: bool) -> Preview:
    """Of one wish as somebody would send it."""
    why = _why_unreadable(state) or why_not(state, control, policy)
    forced = control.argument == FORCE
    return Preview(
        action=control.action,
        step_id=control.step_id,
        answer=None if forced else control.argument,
        force=forced,
        allowed=not why,
        why=why or "",
        scope=CONTROLS[control.action].scope(state, control, driven) if not why else Scope(),
    )


def new_run(state: RunState, index: int, driven: bool) -> Preview:
    """A run of the same plan that begins at this step, and before it reuses what is proven."""
    again, why = state.steps[index:], _why_no_new_run(state, index, driven)
    kept = (
        first_steps(state, index, "is reused, if it is still", "are reused, if they are still") + " proven."
    )
    done = [one for one in again if is_done_for_good(state.plan.steps[one.index], one)]
    words = sentences(
        f"A new run of the same plan and inputs, linked to this one, performs {step_names(again)}.",
        f"Before it repeats {step_names(done)}, it asks a person: that was done here." if done else "",
        kept if index else "Nothing is reused.",
        "This run stays as it is.",
    )
    scope = Scope(again=listed(again), again_count=len(again), words=words)
    return Preview(action=NEW_RUN, step_id=again[0].step_id, allowed=not why, why=why, scope=scope)


def _previews_of_kind(state: RunState, kind: ControlKind, policy: Policy, driven: bool) -> list[Preview]:
    """Beyond its limit only where that alone makes it possible."""
    plain = [preview(state, one, policy, driven) for one in wishes(state, kind)]
    if not kind.takes.beyond or any(one.allowed for one in plain):
        return plain
    forced = preview(state, wish(state, kind.name, plain[0].step_id, FORCE), policy, driven)
    return [*plain, forced] if forced.allowed else plain


def _of_each_step() -> list[str]:
    return [kind.name for kind in CONTROLS.values() if kind.takes.step is StepUse.CHOSEN]


def _why_unreadable(state: RunState) -> str:
    return "" if state.unreadable is None else unreadable_words(state.unreadable)


def _why_no_new_run(state: RunState, index: int, driven: bool) -> str:
    if state.unreadable is not None:
        return _why_unreadable(state)
    if driven:
        return "somebody drives this run: pause or cancel it first"
    if state.status is RunStatus.QUEUED:
        return "the run has not begun"
    if index > state.progress.prefix_length:
        return f"{state.steps[state.progress.prefix_length].step_id} comes before it and is not done"
    return ""
