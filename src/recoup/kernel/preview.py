"""What a control would do, before anybody asks for it: which attempts end, which steps are performed again, what
becomes of the workspace, and what stays. Whether it is possible is decided by the rules that its driver follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from recoup.kernel.controls import FORCE, current_step, gate, unsettled, why_not, wish
from recoup.kernel.deeds import is_done_for_good, lost_words
from recoup.kernel.documents import unreadable_words
from recoup.kernel.healing import page_can_be_made_again, page_made_by
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, StepRecord
from recoup.model.storage import Control

NEW_RUN: Final = "new_run"
"""Not a control: another run, linked to this one (`POST /api/runs` with `reuse` and `fromStep`)."""
_LISTED_MAX: Final = 50
_OF_RUN: Final = ("pause", "resume", "takeover", "retry_step", "hard_reset_step", "approve", "reject")
_TAKES_UP: Final = "Nothing that is proven is done again."


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    step_id: str
    attempt: int


class Scope(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Exactly what it would touch."""

    ends: tuple[Attempt, ...] = ()
    """Attempts under way that are cut off, with all their processes."""
    again: tuple[str, ...] = ()
    """Steps whose results count no more and that are performed again: the first of them."""
    again_count: int = 0
    restores: str | None = None
    """What the workspace is brought back to; null: it is left as it is."""
    ends_run: bool = False
    words: tuple[str, ...] = ()
    """The same for people."""


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
    step = current_step(state)
    name = None if step is None else step.step_id
    wishes = [wish(state, action, name if _is_about_a_step(action) else None) for action in _OF_RUN]
    found = [preview(state, one, policy, driven) for one in wishes]
    forced = preview(state, wish(state, "hard_reset_step", name, FORCE), policy, driven)
    if forced.allowed and not any(one.action == "hard_reset_step" and one.allowed for one in found):
        found.append(forced)
    asked = unsettled(state)
    for answer in ("done", "not-done"):
        settling = wish(state, "settle", asked.step_id if asked else None, answer)
        found.append(preview(state, settling, policy, driven))
    return [*found, preview(state, wish(state, "cancel"), policy, driven)]


def previews_of_step(state: RunState, index: int, policy: Policy, driven: bool) -> list[Preview]:
    """Going back to this step, here or in a new run."""
    record = state.steps[index]
    back = preview(state, wish(state, "resume_from_step", record.step_id), policy, driven)
    return [back, new_run(state, index, driven)]


def previews_of_unknown_step(state: RunState, step_id: str) -> list[Preview]:
    """The same for a run whose steps are not known, because its first event cannot be read."""
    why = _why_unreadable(state)
    return [
        Preview(action=action, step_id=step_id, allowed=False, why=why, scope=Scope())
        for action in ("resume_from_step", NEW_RUN)
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
        scope=_SCOPES[control.action](state, control, driven) if not why else Scope(),
    )


def new_run(state: RunState, index: int, driven: bool) -> Preview:
    """A run of the same plan that begins at this step, and before it reuses what is proven."""
    again, why = state.steps[index:], _why_no_new_run(state, index, driven)
    kept = _first(state, index, "is reused, if it is still", "are reused, if they are still") + " proven."
    done = [one for one in again if is_done_for_good(state.plan.steps[one.index], one)]
    words = _said(
        f"A new run of the same plan and inputs, linked to this one, performs {_names(again)}.",
        f"Before it repeats {_names(done)}, it asks a person: that was done here." if done else "",
        kept if index else "Nothing is reused.",
        "This run stays as it is.",
    )
    scope = Scope(again=_listed(again), again_count=len(again), words=words)
    return Preview(action=NEW_RUN, step_id=again[0].step_id, allowed=not why, why=why, scope=scope)


# What each would do, where it is possible


def _pause(state: RunState, _control: Control, driven: bool) -> Scope:
    busy = _under_way(state)
    if busy and driven:
        first = f"{_attempts(busy)} goes on to its end; then the run waits for you."
    else:
        first = "The run waits for you from now on; no attempt begins."
    return Scope(words=(first, "Nothing is stopped, and nothing is done again."))


def _resume(state: RunState, _control: Control, driven: bool) -> Scope:
    kept = state.takeover and state.plan.workspace is not None
    changed = "What you changed in the workspace is kept, and recorded." if kept else ""
    return Scope(
        words=_said(f"The run goes on at {_place(state)}.", changed, _TAKES_UP, _by_whom(state, driven))
    )


def _takeover(state: RunState, _control: Control, _driven: bool) -> Scope:
    ends = _under_way(state)
    words = _said(
        _cut_off(ends),
        "The run waits; you work in its workspace as it is now, and what you change there is kept."
        if state.plan.workspace is not None
        else "The run waits until you resume it; it has no workspace of its own.",
        "When you resume it, it goes on at " + _place(state) + ".",
    )
    return Scope(ends=ends, words=words)


def _retry_step(state: RunState, _control: Control, driven: bool) -> Scope:
    ends = _under_way(state)
    words = _said(
        _cut_off(ends),
        f"{_place(state)} is tried again at once, with all its attempts; the workspace is left as it is.",
        "The pause is taken back." if state.paused else "",
        _TAKES_UP,
        _by_whom(state, driven),
    )
    return Scope(ends=ends, words=words)


def _hard_reset_step(state: RunState, control: Control, driven: bool) -> Scope:
    ends, again = _under_way(state), _makes_the_page(state)
    counted = (
        "It does not count among the run's resets."
        if control.argument == FORCE
        else "It counts as one of the run's resets."
    )
    restores, restored = "a new browser", ""
    if state.baseline is not None:
        restores = _origin(state, again[0].index if again else state.prefix_length)
        restored = f"The workspace is restored to {restores}; whatever the step left there is gone."
    made = f"A new browser; {_names(again)} is performed there once more to make the page again."
    words = _said(
        _cut_off(ends),
        restored,
        made if again else "",
        f"Then {_place(state)} is tried again, with all its attempts.",
        "The run stays paused until you resume it." if state.paused else _by_whom(state, driven),
        counted,
    )
    return Scope(ends=ends, again=_listed(again), again_count=len(again), restores=restores, words=words)


def _makes_the_page(state: RunState) -> list[StepRecord]:
    """The steps that a hard reset performs again, for it takes a new browser."""
    if not page_can_be_made_again(state.plan.steps, state.prefix_length):
        return []
    return [state.steps[index] for index in page_made_by(state.plan.steps, state.prefix_length)]


def _resume_from_step(state: RunState, control: Control, driven: bool) -> Scope:
    index = next(record.index for record in state.steps if record.step_id == control.step_id)
    ends, again = _under_way(state), state.steps[index : state.prefix_length]
    restores = _origin(state, index) if state.workspace is not None else None
    they = (
        "what they did counts no more, and they are"
        if len(again) > 1
        else "what it did counts no more, and it is"
    )
    lost = f"{_names(again)}: {they} performed again." if again else ""
    words = _said(
        _cut_off(ends),
        lost,
        f"The workspace is restored to {restores}." if restores else "The workspace is left as it is.",
        _first(state, index, "stays.", "stay.") if index else "No step stays.",
        _by_whom(state, driven),
    )
    return Scope(ends=ends, again=_listed(again), again_count=len(again), restores=restores, words=words)


def _approve(state: RunState, _control: Control, driven: bool) -> Scope:
    step = gate(state)
    assert step is not None, "only a gate can be approved"
    after = state.steps[step.index + 1 :]
    following = f"The run goes on with {after[0].step_id}." if after else "The run has then succeeded."
    return Scope(words=_said(f"{step.step_id} is passed, by your word.", following, _by_whom(state, driven)))


def _reject(state: RunState, _control: Control, _driven: bool) -> Scope:
    step = gate(state)
    assert step is not None, "only a gate can be rejected"
    words = _said(f"{step.step_id} fails by your word, and the run ends as failed.", _kept(state))
    return Scope(ends_run=True, words=words)


def _settle(state: RunState, control: Control, driven: bool) -> Scope:
    record = unsettled(state)
    assert record is not None, "only where nobody knows can somebody say"
    if state.page_question:
        return _settle_page(state, control, driven)
    names = (record.step_id, *state.also_settled)
    lost = lost_words(state.plan.steps[record.index], record)
    count, are = ("counts", "it is") if len(names) == 1 else ("count", "each is")
    if control.argument == "done":
        words = _said(
            f"{', '.join(names)} {count} as done: outputs are collected, and {are} not performed again.",
            "The run goes on behind it.",
            lost,
            _by_whom(state, driven),
        )
        return Scope(words=words)
    words = _said(
        f"{', '.join(names)} {count} as not done, and {are} performed. If it was done, it is done twice then.",
        _by_whom(state, driven),
    )
    return Scope(again=names, again_count=len(names), words=words)


def _settle_page(state: RunState, control: Control, driven: bool) -> Scope:
    names, who = state.page_question, _by_whom(state, driven)
    if control.argument == "done":
        words = f"The run continues on the page as it is now, without what {', '.join(names)} did there."
        return Scope(words=_said(words, who))
    words = f"{', '.join(names)}: performed again, with all effects, to restore the page."
    return Scope(again=names, again_count=len(names), words=_said(words, who))


def _cancel(state: RunState, _control: Control, _driven: bool) -> Scope:
    ends = _under_way(state)
    words = _said(_cut_off(ends), "The run ends as cancelled. This cannot be taken back.", _kept(state))
    return Scope(ends=ends, ends_run=True, words=words)


_SCOPES: Final[dict[str, Callable[[RunState, Control, bool], Scope]]] = {
    "pause": _pause,
    "resume": _resume,
    "takeover": _takeover,
    "retry_step": _retry_step,
    "hard_reset_step": _hard_reset_step,
    "resume_from_step": _resume_from_step,
    "cancel": _cancel,
    "approve": _approve,
    "reject": _reject,
    "settle": _settle,
}


def _is_about_a_step(action: str) -> bool:
    return action in ("retry_step", "hard_reset_step", "approve", "reject")


def _why_unreadable(state: RunState) -> str:
    return "" if state.unreadable is None else unreadable_words(state.unreadable)


def _why_no_new_run(state: RunState, index: int, driven: bool) -> str:
    if state.unreadable is not None:
        return _why_unreadable(state)
    if driven:
        return "somebody drives this run: pause or cancel it first"
    if state.status is RunStatus.QUEUED:
        return "the run has not begun"
    if index > state.prefix_length:
        return f"{state.steps[state.prefix_length].step_id} comes before it and is not done"
    return ""


def _under_way(state: RunState) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(record.step_id, record.open.attempt) for record in state.steps if record.open is not None
    )


def _cut_off(ends: tuple[Attempt, ...]) -> str:
    return f"{_attempts(ends)} is ended now, with all its processes." if ends else ""


def _attempts(some: tuple[Attempt, ...]) -> str:
    said = ", ".join(f"attempt {one.attempt} of {one.step_id}" for one in some)
    return f"A{said[1:]}"


def _place(state: RunState) -> str:
    step = current_step(state)
    return "its end" if step is None else step.step_id


def _origin(state: RunState, index: int) -> str:
    """What a workspace before this step holds, in words."""
    base = state.base if state.base is not None and state.base.index <= index else None
    since = 0 if base is None else base.index
    kept = [record for record in state.steps[since:index] if record.checkpoint is not None]
    if kept:
        return f"the end of {kept[-1].step_id}"
    return (
        "the beginning" if base is None else f"what an operator left before {state.steps[base.index].step_id}"
    )


def _by_whom(state: RunState, driven: bool) -> str:
    if driven:
        return ""
    if state.queue is not None:
        return f"A worker of the queue {state.queue} takes it up."
    return f"Nobody drives it now: recoup resume {state.run_id} goes on."


def _kept(state: RunState) -> str:
    """What is left of a run that ends; nothing is not worth a word."""
    proven = _first(state, state.prefix_length, "stays", "stay")
    return f"{proven} proven, for a new run to reuse." if state.prefix_length else ""


def _first(state: RunState, count: int, one: str, many: str) -> str:
    total = len(state.steps)
    return f"The first of {total} steps {one}" if count == 1 else f"The first {count} of {total} steps {many}"


def _names(records: list[StepRecord]) -> str:
    """The first and the last of many."""
    names = [record.step_id for record in records]
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} … {names[-1]} ({len(names)} steps)"


def _listed(records: list[StepRecord]) -> tuple[str, ...]:
    return tuple(record.step_id for record in records[:_LISTED_MAX])


def _said(*sentences: str) -> tuple[str, ...]:
    return tuple(sentence for sentence in sentences if sentence)
