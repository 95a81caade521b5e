"""What an operator may ask of a run, when, and what it changes. Refusals say what would be possible instead."""

from __future__ import annotations

from collections.abc import Callable

from recoup.kernel.deeds import is_done_for_good
from recoup.kernel.healing import page_can_be_made_again
from recoup.model.events import ControlHandled
from recoup.model.plan import ApproveAction, Repeat
from recoup.model.policy import Policy
from recoup.model.run import Recovery, RunState, RunStatus, StepRecord
from recoup.model.storage import Control

FORCE = "force"
ACTIONS = (
    *("pause", "resume", "takeover", "retry_step", "hard_reset_step", "resume_from_step"),
    *("cancel", "approve", "reject", "settle"),
)
_RECOVERING = frozenset({"takeover", "retry_step", "hard_reset_step", "resume_from_step"})
_PRE_EMPTING = frozenset({"cancel", "takeover", "retry_step", "hard_reset_step", "resume_from_step"})


def pre_empts(control: Control) -> bool:
    """Whether an attempt under way must end for it."""
    return control.action in _PRE_EMPTING


def refusal(state: RunState, control: Control, policy: Policy) -> str | None:
    """Why this cannot be done now, and what can; None when it can."""
    why = why_not(state, control, policy)
    if why is None:
        return None
    instead = possible(state, policy)
    return f"{why}; possible now: {', '.join(instead) or 'nothing'}"


def why_not(state: RunState, control: Control, policy: Policy) -> str | None:
    """Why alone, for whoever shows what can be done anyway."""
    if control.action not in _REFUSALS:
        return _unknown(control)
    return _REFUSALS[control.action](state, control, policy)


def possible(state: RunState, policy: Policy) -> list[str]:
    """The actions that some operator could take now."""
    likely = [_likely_wish(state, action) for action in ACTIONS]
    return [one.action for one in likely if _REFUSALS[one.action](state, one, policy) is None]


def wish(state: RunState, action: str, step_id: str | None = None, argument: str | None = None) -> Control:
    """A control that nobody has sent, to ask what would become of it."""
    return Control(
        id="", run_id=state.run_id, action=action, reason="", actor="", at=state.submitted_at, step_id=step_id,
        argument=argument,
    )  # fmt: skip


def waits_for_a_person(state: RunState) -> bool:
    """Nothing but a control moves it."""
    if state.status is RunStatus.ESCALATED:
        return True
    return state.status is RunStatus.WAITING and state.waiting_for in ("operator", "approval")


def is_over(state: RunState) -> bool:
    """Ended, and no other delivery follows by itself."""
    return state.status.is_terminal and not (state.status is RunStatus.FAILED and state.retryable)


def current_step(state: RunState) -> StepRecord | None:
    """The first step that is not known to be good."""
    return state.steps[state.prefix_length] if state.prefix_length < len(state.steps) else None


def gate(state: RunState) -> StepRecord | None:
    """The gate at which an operator was asked for a yes or no. A pause or a takeover there takes nothing of it back."""
    step = current_step(state)
    if step is None or state.status is not RunStatus.WAITING or state.gate_reached != step.index:
        return None
    return step if _is_gate(state, step) else None


def visit(delivery: int | None, invalidations: int) -> str:
    """What an answer to a gate names, as its argument, to count at no later visit. Nobody can come there again but in
    another delivery, or over steps that were performed anew."""
    return f"visit-{delivery}-{invalidations}"


def unsettled(state: RunState) -> StepRecord | None:
    """The step with an unknown outcome that an escalation is about."""
    if state.status is not RunStatus.ESCALATED or state.escalated_step is None:
        return None
    return state.steps[state.escalated_step]


def heed(state: RunState, handled: ControlHandled) -> None:
    """The fold of an accepted control."""
    if handled.action in _RECOVERING:
        state.recovery = Recovery(handled.action, handled.step_id, handled.at or "")
    match handled.action:
        case "pause":
            state.paused = True
        case "takeover":
            state.paused = state.takeover = True
            _not_given_up(state)
        case "resume":
            state.paused = state.takeover = False
        case "resume_from_step":
            state.paused = state.takeover = False
            _at_once(state, None)
        case "retry_step":
            state.paused = state.takeover = False
            _at_once(state, "soft_reset")
        case "hard_reset_step":
            state.restore_pending = True
            state.resets += handled.argument != FORCE
            _at_once(state, "hard_reset")
        case "settle":
            _settled(state, handled)
        case _:
            pass


def begin_anew(step: StepRecord) -> None:
    """A fresh budget of attempts."""
    step.attempts_in_delivery, step.unknown_failures, step.marks = 0, 0, ()
    step.given_up, step.rescue_tried = None, False


def _settled(state: RunState, handled: ControlHandled) -> None:
    """Either way: as done it need not begin, as not done it may. Where events were lost, a step that was not done says
    that none after it was. About a lost page: the steps that were asked about are performed again, or not."""
    if state.page_question:
        state.page_as_is = handled.argument == "done"
        state.page_repeats = () if state.page_as_is else state.page_question
        state.page_question = ()
        return
    for step in state.steps:
        step.to_settle = step.to_settle and step.step_id not in state.also_settled
    named = next((step for step in state.steps if step.step_id == handled.step_id), None)
    settled = named or unsettled(state)
    if settled is None:
        return
    if handled.argument == "done":
        state.rebuild_pending = [index for index in state.rebuild_pending if index != settled.index]
    was_lost = bool(settled.lost)
    settled.to_settle, settled.lost = False, ""
    if was_lost and handled.argument == "not-done":
        for later in state.steps[settled.index + 1 :]:
            if later.lost:
                later.to_settle, later.lost = False, ""


def _not_given_up(state: RunState) -> None:
    """A person mends it: it is tried once more before the run ends."""
    step = current_step(state)
    if step is not None:
        step.given_up, step.rescue_tried = None, False


def _at_once(state: RunState, strategy: str | None) -> None:
    step = current_step(state)
    if step is not None:
        begin_anew(step)
        step.strategy, step.healing_since, step.delay_ms = strategy, None, 0


# Refusals, by action


def _cancel(state: RunState, _control: Control, _policy: Policy) -> str | None:
    return f"the run is {state.status} already" if is_over(state) else None


def _pause(state: RunState, _control: Control, _policy: Policy) -> str | None:
    if not _is_active(state):
        return f"the run is {state.status}"
    return "the run is paused already" if state.paused else None


def _resume(state: RunState, _control: Control, _policy: Policy) -> str | None:
    if is_over(state):
        return f"the run is {state.status}"
    return _nobody_knows(state) or (None if state.paused else "the run is not paused")


def _takeover(state: RunState, _control: Control, _policy: Policy) -> str | None:
    if not _is_active(state):
        return f"the run is {state.status}"
    if state.takeover:
        return "the run is taken over already"
    if state.status is RunStatus.QUEUED:
        return "the run has not begun: there is nothing to take over yet"
    return _in_flight(state)


def _retry_step(state: RunState, control: Control, _policy: Policy) -> str | None:
    return _not_now(state, control) or _in_flight(state)


def _hard_reset_step(state: RunState, control: Control, policy: Policy) -> str | None:
    wrong = _not_now(state, control) or _in_flight(state)
    if wrong:
        return wrong
    if state.baseline is None and not page_can_be_made_again(state.plan.steps, state.prefix_length):
        return "the plan has no workspace that could be restored"
    if control.argument != FORCE and state.resets >= policy.job_self_heal_max_resets:
        used = f"{state.resets} of {policy.job_self_heal_max_resets} used"
        return f"job_self_heal_max_resets: {used} (--force does it all the same)"
    return None


def _resume_from_step(state: RunState, control: Control, _policy: Policy) -> str | None:
    if is_over(state):
        return f"the run is {state.status}: a new run can reuse what is proven (recoup run PLAN --reuse {state.run_id})"
    nobody_knows = _nobody_knows(state)
    if nobody_knows:
        return nobody_knows
    if not state.paused:
        return "only a paused run, or one that was taken over, can go back to a step"
    record = _named(state, control)
    if record is None:
        return f"the run has no step {control.step_id}"
    if record.index > state.prefix_length:
        frontier = state.steps[state.prefix_length].step_id
        return f"{record.step_id} comes after {frontier}, which is not done"
    return _never(state, record.index) or _in_flight(state)


def _approval(state: RunState, control: Control, _policy: Policy) -> str | None:
    step = gate(state)
    if step is None:
        return _no_gate(state)
    if control.step_id not in (None, step.step_id):
        return f"the run waits at {step.step_id}, not at {control.step_id}"
    if control.argument not in (None, visit(state.delivery, state.invalidations)):
        return f"the run came to {step.step_id} again since this was asked for: ask for it again"
    return None


def _no_gate(state: RunState) -> str:
    step = current_step(state)
    if is_over(state) or step is None or not _is_gate(state, step):
        return "the run does not wait for an approval"
    first = f"resume it (recoup resume {state.run_id}), and answer when it waits there"
    return f"the run has not asked yet, although {step.step_id} is next: {first}"


def _settle(state: RunState, control: Control, _policy: Policy) -> str | None:
    record = unsettled(state)
    if record is None:
        return f"the run is {state.status}: only an escalated step with an unknown outcome can be settled"
    if control.step_id not in (None, record.step_id):
        return f"{control.step_id} is not the step in question: {record.step_id} is"
    return None if control.argument in ("done", "not-done") else "say whether it was done or not-done"


_REFUSALS: dict[str, Callable[[RunState, Control, Policy], str | None]] = {
    "pause": _pause,
    "resume": _resume,
    "takeover": _takeover,
    "retry_step": _retry_step,
    "hard_reset_step": _hard_reset_step,
    "resume_from_step": _resume_from_step,
    "cancel": _cancel,
    "approve": _approval,
    "reject": _approval,
    "settle": _settle,
}


def _unknown(control: Control) -> str:
    return f"{control.action} is not a control"


def _likely_wish(state: RunState, action: str) -> Control:
    """The action at the step where it makes most sense."""
    step = state.steps[0].step_id if action == "resume_from_step" and state.steps else None
    return wish(state, action, step, "done" if action == "settle" else None)


def _is_active(state: RunState) -> bool:
    """Somebody drives it, or may at any time. A failed run that may be delivered again has to be resumed first."""
    return not state.status.is_terminal and state.status is not RunStatus.ESCALATED


def _not_now(state: RunState, control: Control) -> str | None:
    """Of what is done to the step at which the run stands."""
    step = current_step(state)
    if is_over(state) or step is None:
        return f"the run is {state.status}: a new run can reuse what is proven (recoup run PLAN --reuse {state.run_id})"
    nobody_knows = _nobody_knows(state)
    if nobody_knows:
        return nobody_knows
    if _is_gate(state, step):
        return f"{step.step_id} is a gate: approve or reject it"
    if control.step_id not in (None, step.step_id):
        return f"the run stands at {step.step_id}, not at {control.step_id}: pause, then resume_from_step goes back"
    return None


def _nobody_knows(state: RunState) -> str | None:
    """Whatever makes the run go on would perform that step again."""
    record = unsettled(state)
    return f"nobody knows whether {record.step_id} was done: settle it first" if record else None


def _in_flight(state: RunState) -> str | None:
    """An attempt that must not be repeated must not be cut off either."""
    for record in state.steps:
        if (
            record.open is not None
            and record.open.launched
            and state.plan.steps[record.index].repeat is Repeat.NEVER
        ):
            return f"{record.step_id} is under way and must not be repeated: let it end (pause), or cancel the run"
    return None


def _never(state: RunState, index: int) -> str | None:
    for record in state.steps[index : state.prefix_length]:
        if is_done_for_good(state.plan.steps[record.index], record):
            return f"{record.step_id} is done and must not be repeated"
    return None


def _named(state: RunState, control: Control) -> StepRecord | None:
    return next((record for record in state.steps if record.step_id == control.step_id), None)


def _is_gate(state: RunState, record: StepRecord) -> bool:
    return isinstance(state.plan.steps[record.index].action, ApproveAction)
