"""Where a run stands: whether it is over, whom it waits for, and at which step."""

from __future__ import annotations

from msgspec.structs import replace

from recoup.model.plan import ApproveAction
from recoup.model.run import RunState, RunStatus, SpentAttempts, StepRecord


def waits_for_a_person(state: RunState) -> bool:
    """Nothing but a control moves it."""
    if state.status is RunStatus.ESCALATED:
        return True
    return state.status is RunStatus.WAITING and state.hold.waiting_for in ("operator", "approval")


def is_over(state: RunState) -> bool:
    """Ended, and no other delivery follows by itself."""
    return state.status.is_terminal and not (state.status is RunStatus.FAILED and state.failure.retryable)


def current_step(state: RunState) -> StepRecord | None:
    """The first step that is not known to be good."""
    return (
        state.steps[state.progress.prefix_length] if state.progress.prefix_length < len(state.steps) else None
    )


def gate(state: RunState) -> StepRecord | None:
    """The gate at which an operator was asked for a yes or no. A pause or a takeover there takes nothing of it back."""
    step = current_step(state)
    if step is None or state.status is not RunStatus.WAITING or state.progress.gate_reached != step.index:
        return None
    return step if is_gate(state, step) else None


def is_gate(state: RunState, record: StepRecord) -> bool:
    return isinstance(state.plan.steps[record.index].action, ApproveAction)


def visit(delivery: int | None, invalidations: int) -> str:
    """What an answer to a gate names, as its argument, to count at no later visit. Nobody can come there again but in
    another delivery, or over steps that were performed anew."""
    return f"visit-{delivery}-{invalidations}"


def unsettled(state: RunState) -> StepRecord | None:
    """The step with an unknown outcome that an escalation is about."""
    if state.status is not RunStatus.ESCALATED or state.escalation.step_index is None:
        return None
    return state.steps[state.escalation.step_index]


def with_fresh_budget(step: StepRecord) -> StepRecord:
    """The step with all its attempts before it."""
    return replace(
        step,
        spent=SpentAttempts(step.spent.attempts),
        recovery=replace(step.recovery, given_up=None, rescue_tried=False),
    )
