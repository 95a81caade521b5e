"""Reasons for a refusal that several controls share."""

from __future__ import annotations

from recoup.kernel.position import current_step, is_gate, is_over, unsettled
from recoup.model.plan import Repeat
from recoup.model.run import RunState, RunStatus, StepRecord
from recoup.model.storage import Control


def is_active(state: RunState) -> bool:
    """Somebody drives it, or may at any time. A failed run that may be delivered again has to be resumed first."""
    return not state.status.is_terminal and state.status is not RunStatus.ESCALATED


def not_now(state: RunState, control: Control) -> str | None:
    """Of what is done to the step at which the run stands."""
    step = current_step(state)
    if is_over(state) or step is None:
        return ended_words(state)
    nobody_knows = not_settled(state)
    if nobody_knows:
        return nobody_knows
    if is_gate(state, step):
        return f"{step.step_id} is a gate: approve or reject it"
    if control.step_id not in (None, step.step_id):
        return f"the run stands at {step.step_id}, not at {control.step_id}: pause, then resume_from_step goes back"
    return None


def ended_words(state: RunState) -> str:
    return f"the run is {state.status}: a new run can reuse what is proven (recoup run PLAN --reuse {state.run_id})"


def not_settled(state: RunState) -> str | None:
    """Whatever makes the run go on would perform that step again."""
    record = unsettled(state)
    return f"nobody knows whether {record.step_id} was done: settle it first" if record else None


def in_flight(state: RunState) -> str | None:
    """An attempt that must not be repeated must not be cut off either."""
    for record in state.steps:
        if _is_launched(record) and state.plan.steps[record.index].repeat is Repeat.NEVER:
            return f"{record.step_id} is under way and must not be repeated: let it end (pause), or cancel the run"
    return None


def current_step_name(state: RunState) -> tuple[str, ...]:
    """The step at which the run stands, as what a control may be about."""
    step = current_step(state)
    return () if step is None else (step.step_id,)


def _is_launched(record: StepRecord) -> bool:
    return record.open is not None and record.open.launched
