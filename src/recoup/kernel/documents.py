"""What a run looks like from outside: the run document and its exit code."""

from __future__ import annotations

import msgspec

from recoup.kernel.advice import advice
from recoup.kernel.elapsed import time_spent
from recoup.kernel.prefix import frontier, known_good_prefix_length
from recoup.kernel.unreadable import unreadable_document
from recoup.model.answers.runs import AdviceItem, LiveControl, Recovery, RunDocument
from recoup.model.run import RunState, RunStatus

_EXIT_CODES = {
    RunStatus.SUCCEEDED: 0,
    RunStatus.FAILED: 1,
    RunStatus.DEAD_LETTER: 1,
    RunStatus.BLOCKED: 4,
    RunStatus.WAITING: 5,
    RunStatus.ESCALATED: 5,
    RunStatus.CANCELLED: 6,
}
EXIT_RETRYABLE = 75
EXIT_INTERRUPTED = 130


def exit_code(state: RunState) -> int | None:
    """None: the run goes on."""
    if state.status is RunStatus.FAILED and state.retryable:
        return EXIT_RETRYABLE
    if state.interrupted and not state.status.is_terminal:
        return EXIT_RETRYABLE if state.in_trouble else EXIT_INTERRUPTED
    return _EXIT_CODES.get(state.status)


def run_document(state: RunState, driven: bool | None = None) -> RunDocument:
    """`recoup show --json`, the last line of `recoup run --json`, the API. `driven`: whether somebody drives the run
    now; None: unknown."""
    edge, spent = frontier(state), time_spent(state, state.updated_at or state.submitted_at)
    return RunDocument(
        run_id=state.run_id,
        workflow=state.workflow,
        status=state.status.value,
        exit_code=exit_code(state),
        reason=state.reason,
        failure_class=state.failure_class,
        failure_kind=state.failure_kind,
        retryable=state.retryable,
        delivery=state.delivery,
        known_good_prefix_length=known_good_prefix_length(state),
        frontier=None if edge is None else msgspec.to_builtins(edge),
        step_count=len(state.steps),
        interrupted=state.interrupted,
        machine_trouble=state.in_trouble,
        submitted_at=state.submitted_at.iso(),
        updated_at=state.updated_at.iso() if state.updated_at else None,
        worked_s=round(spent.worked_s, 3),
        waited_for_person_s=round(spent.waited_s, 3),
        waiting_for_person_since=state.waiting_since.iso() if state.waiting_since else None,
        epoch=state.epoch,
        hard_resets=state.resets,
        retries=state.retries,
        takeovers=state.takeovers,
        plan_digest=state.plan_digest,
        plan_source=state.plan_source,
        policy_digest=state.policy_digest,
        parent_run_id=state.parent_run_id,
        waiting_until=state.waiting_until,
        escalation_id=state.escalation_id,
        inputs=state.inputs,
        waiting_for=state.waiting_for if state.status is RunStatus.WAITING else None,
        live_control=live_control(state),
        unreadable=unreadable_document(state.unreadable),
        advice=[AdviceItem(text=one.text, command=one.command) for one in advice(state, driven)],
    )


def live_control(state: RunState) -> LiveControl:
    """What operators have asked for and what is in force."""
    last = state.recovery
    recovery = last and Recovery(action=last.action, step_id=last.step_id, updated_at=last.updated_at)
    return LiveControl(paused=state.paused, takeover=state.takeover, recovery=recovery or None)
