"""What a run looks like from outside: the run document and its exit code."""

from __future__ import annotations

from typing import Any

import msgspec

from recoup.kernel.advice import advice
from recoup.kernel.elapsed import time_spent
from recoup.kernel.prefix import frontier, known_good_prefix_length
from recoup.kernel.unreadable import unreadable_document
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


def run_document(state: RunState, driven: bool | None = None) -> dict[str, Any]:
    """`recoup show --json`, the last line of `recoup run --json`, the API. `driven`: whether somebody drives the run
    now; None: unknown."""
    edge, spent = frontier(state), time_spent(state, state.updated_at or state.submitted_at)
    return {
        "runId": state.run_id,
        "workflow": state.workflow,
        "status": state.status.value,
        "exitCode": exit_code(state),
        "reason": state.reason,
        "failureClass": state.failure_class,
        "failureKind": state.failure_kind,
        "retryable": state.retryable,
        "delivery": state.delivery,
        "knownGoodPrefixLength": known_good_prefix_length(state),
        "frontier": None if edge is None else msgspec.to_builtins(edge),
        "stepCount": len(state.steps),
        "interrupted": state.interrupted,
        "machineTrouble": state.in_trouble,
        "submittedAt": state.submitted_at.iso(),
        "updatedAt": state.updated_at.iso() if state.updated_at else None,
        "workedS": round(spent.worked_s, 3),
        "waitedForPersonS": round(spent.waited_s, 3),
        "waitingForPersonSince": state.waiting_since.iso() if state.waiting_since else None,
        "epoch": state.epoch,
        "hardResets": state.resets,
        "retries": state.retries,
        "takeovers": state.takeovers,
        "planDigest": state.plan_digest,
        "planSource": state.plan_source,
        "policyDigest": state.policy_digest,
        "parentRunId": state.parent_run_id,
        "waitingUntil": state.waiting_until,
        "escalationId": state.escalation_id,
        "inputs": state.inputs,
        "waitingFor": state.waiting_for if state.status is RunStatus.WAITING else None,
        "liveControl": live_control(state),
        "unreadable": unreadable_document(state.unreadable),
        "advice": [msgspec.to_builtins(one) for one in advice(state, driven)],
    }


def live_control(state: RunState) -> dict[str, Any]:
    """What operators have asked for and what is in force."""
    last = state.recovery
    recovery = last and {"action": last.action, "stepId": last.step_id, "updatedAt": last.updated_at}
    return {"paused": state.paused, "takeover": state.takeover, "recovery": recovery}
