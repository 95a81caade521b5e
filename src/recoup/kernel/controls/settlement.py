"""Say whether a step whose outcome nobody knows was done."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from recoup.kernel.controls.kind import ControlKind, Effect, SettleAsDone, StepUse, Takes, Then
from recoup.kernel.controls.scope import Scope, next_driver, sentences
from recoup.kernel.deeds import lost_words
from recoup.kernel.position import unsettled
from recoup.kernel.prefix import is_good
from recoup.kernel.records import with_steps, without
from recoup.model.events import ControlHandled
from recoup.model.policy import Policy
from recoup.model.run import PageConsent, RunState, StepRecord
from recoup.model.storage import Control

DONE: Final = "done"
NOT_DONE: Final = "not-done"


def _refuse(state: RunState, control: Control, _policy: Policy) -> str | None:
    record = unsettled(state)
    if record is None:
        return f"the run is {state.status}: only an escalated step with an unknown outcome can be settled"
    if control.step_id not in (None, record.step_id):
        return f"{control.step_id} is not the step in question: {record.step_id} is"
    return None if control.argument in (DONE, NOT_DONE) else "say whether it was done or not-done"


def _in_question(state: RunState) -> StepRecord:
    record = unsettled(state)
    assert record is not None, "only where nobody knows can somebody say"
    return record


def _name_in_question(state: RunState) -> tuple[str, ...]:
    record = unsettled(state)
    return () if record is None else (record.step_id,)


# Scope


def _scope(state: RunState, control: Control, driven: bool) -> Scope:
    record, who = _in_question(state), next_driver(state, driven)
    if state.page.question:
        return _scope_of_page(state, control, who)
    names = (record.step_id, *state.escalation.also_settled)
    lost = lost_words(state.plan.steps[record.index], record)
    count, are = ("counts", "it is") if len(names) == 1 else ("count", "each is")
    if control.argument == DONE:
        done = f"{', '.join(names)} {count} as done: outputs are collected, and {are} not performed again."
        return Scope(words=sentences(done, "The run goes on behind it.", lost, who))
    words = sentences(
        f"{', '.join(names)} {count} as not done, and {are} performed. If it was done, it is done twice then.",
        who,
    )
    return Scope(again=names, again_count=len(names), words=words)


def _scope_of_page(state: RunState, control: Control, who: str) -> Scope:
    names = state.page.question
    if control.argument == DONE:
        words = f"The run continues on the page as it is now, without what {', '.join(names)} did there."
        return Scope(words=sentences(words, who))
    words = f"{', '.join(names)}: performed again, with all effects, to restore the page."
    return Scope(again=names, again_count=len(names), words=sentences(words, who))


# Effect


def _effect(state: RunState, control: Control) -> Effect:
    record = _in_question(state)
    if is_good(record):
        # It was done. The question is whether it is performed again for its page: no linked run may do so instead.
        unnamed = replace(control, step_id=None)
        return Effect(control=unnamed, words=_page_words(state, control), then=Then.GOES_ON)
    named = replace(control, step_id=record.step_id)
    also = [
        one for one in state.steps if one.step_id in state.escalation.also_settled and one.doubt.to_settle
    ]
    indexes = tuple(one.index for one in (record, *also))
    order = SettleAsDone(indexes) if control.argument == DONE else None
    words = f"{record.step_id} was settled as {control.argument}"
    return Effect(control=named, order=order, words=words, then=Then.GOES_ON)


def _page_words(state: RunState, control: Control) -> str:
    names = ", ".join(state.page.question)
    if control.argument == DONE:
        return f"the page is used as it is, without {names}"
    return f"{names} performed again to restore the page"


# Fold


def _settled(state: RunState, handled: ControlHandled) -> RunState:
    """Either way: as done it need not begin, as not done it may. Where events were lost, a step that was not done says
    that none after it was. About a lost page: the steps that were asked about are performed again, or not."""
    if state.page.question:
        as_is = handled.argument == DONE
        page = PageConsent(repeats=() if as_is else state.page.question, as_is=as_is)
        return replace(state, page=page)
    named = next((step for step in state.steps if step.step_id == handled.step_id), None)
    settled = named or unsettled(state)
    also = [step for step in state.steps if step.step_id in state.escalation.also_settled]
    state = with_steps(state, *[replace(step, doubt=replace(step.doubt, to_settle=False)) for step in also])
    return state if settled is None else _step_settled(state, settled, handled.argument)


def _step_settled(state: RunState, settled: StepRecord, answer: str | None) -> RunState:
    if answer == DONE:
        progress = state.progress
        pending = without(progress.rebuild_pending, settled.index)
        state = replace(state, progress=replace(progress, rebuild_pending=pending))
    others = state.steps[settled.index + 1 :] if settled.doubt.lost and answer == NOT_DONE else ()
    known = [state.steps[settled.index], *[step for step in others if step.doubt.lost]]
    return with_steps(
        state, *[replace(step, doubt=replace(step.doubt, to_settle=False, lost="")) for step in known]
    )


SETTLE = ControlKind(
    name="settle",
    label="Settle",
    summary="say whether a step whose outcome nobody knows was done",
    takes=Takes(
        step=StepUse.ASKED, answers=(DONE, NOT_DONE), look_first="Look whether the step was done first"
    ),
    steps=_name_in_question,
    refuse=_refuse,
    scope=_scope,
    effect=_effect,
    fold=_settled,
    is_answer=True,
)
