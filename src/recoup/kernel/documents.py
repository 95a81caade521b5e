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
    if state.status is RunStatus.FAILED and state.failure.retryable:
        return EXIT_RETRYABLE
    if state.driver.interrupted and not state.status.is_terminal:
        return EXIT_RETRYABLE if state.driver.in_trouble else EXIT_INTERRUPTED
    return _EXIT_CODES.get(state.status)


def run_document(state: RunState, driven: bool | None = None) -> RunDocument:
    """`recoup show --json`, the last line of `recoup run --json`, the API. `driven`: whether somebody drives the run
    now; None: unknown."""
    edge, spent = frontier(state), time_spent(state.clocks, state.clocks.updated_at or state.submission.at)
    return RunDocument(
        run_id=state.run_id,
        workflow=state.workflow,
        status=state.status.value,
        exit_code=exit_code(state),
        reason=state.reason,
        failure_class=state.failure.cls,
        failure_kind=state.failure.kind,
        retryable=state.failure.retryable,
        delivery=state.driver.delivery,
        known_good_prefix_length=known_good_prefix_length(state),
        frontier=None if edge is None else msgspec.to_builtins(edge),
        step_count=len(state.steps),
        interrupted=state.driver.interrupted,
        machine_trouble=state.driver.in_trouble,
        submitted_at=state.submission.at.iso(),
        updated_at=state.clocks.updated_at.iso() if state.clocks.updated_at else None,
        worked_s=round(spent.worked_s, 3),
        waited_for_person_s=round(spent.waited_s, 3),
        waiting_for_person_since=state.clocks.waiting_since.iso() if state.clocks.waiting_since else None,
        epoch=state.driver.epoch,
        hard_resets=state.counts.resets,
        retries=state.counts.retries,
        takeovers=state.driver.takeovers,
        plan_digest=state.submission.plan_digest,
        plan_source=state.submission.plan_source,
        policy_digest=state.submission.policy_digest,
        parent_run_id=state.lineage.parent_run_id,
        waiting_until=state.hold.waiting_until,
        escalation_id=state.escalation.id,
        inputs=dict(state.submission.inputs),
        waiting_for=state.hold.waiting_for if state.status is RunStatus.WAITING else None,
        live_control=live_control(state),
        unreadable=unreadable_document(state.unreadable),
        advice=[AdviceItem(text=one.text, command=one.command) for one in advice(state, driven)],
    )


def live_control(state: RunState) -> LiveControl:
    """What operators have asked for and what is in force."""
    last = state.recovery
    recovery = last and Recovery(action=last.action, step_id=last.step_id, updated_at=last.updated_at)
    return LiveControl(paused=state.hold.paused, takeover=state.hold.takeover, recovery=recovery or None)
