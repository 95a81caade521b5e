"""What the runs of one workflow share, folded from the workflow's own stream."""

from __future__ import annotations

from collections.abc import Iterable

from recoup.model.events import Payload, WorkflowStepResult
from recoup.model.policy import Policy
from recoup.model.run import WorkflowState

SPENT_MAX = 1_000_000.0
"""The most that any policy's budget may hold."""


def rebuild_workflow(payloads: Iterable[Payload], state: WorkflowState | None = None) -> WorkflowState:
    """The state after these payloads, which follow directly on `state`."""
    state = state or WorkflowState()
    for payload in payloads:
        state = fold_workflow(state, payload)
    return state


def fold_workflow(state: WorkflowState, payload: Payload) -> WorkflowState:
    """One event further, whatever its type: `seq` counts them all."""
    spent = state.tokens_spent
    if isinstance(payload, WorkflowStepResult):
        spent = min(max(0.0, spent + payload.tokens), SPENT_MAX)
    return WorkflowState(tokens_spent=spent, seq=state.seq + 1)


def token_cost(result: str, attempts: int, policy: Policy) -> float:
    """What a result costs the budget: recorded with it, so that every process folds the same state."""
    match result:
        case "attempt_failed":
            return 1.0
        case "recovered":
            return -float(max(0, attempts - 1))
        case "passed":
            return -policy.retry_token_refund
        case _:
            return 0.0
