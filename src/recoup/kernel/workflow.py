"""What the runs of one workflow share, folded from the workflow's own stream."""

from __future__ import annotations

from collections.abc import Iterable

from recoup.kernel.breaker import fold_health
from recoup.model.events import Payload, WorkflowStepResult
from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import WorkflowState

SPENT_MAX = 1_000_000.0
"""The most that any policy's budget may hold."""


def rebuild_workflow(
    facts: Iterable[tuple[Instant, Payload]], state: WorkflowState | None = None
) -> WorkflowState:
    """The state after these facts, which follow directly on `state`."""
    state = state or WorkflowState()
    for at, payload in facts:
        state = fold_workflow(state, payload, at)
    return state


def fold_workflow(state: WorkflowState, payload: Payload, at: Instant) -> WorkflowState:
    """One event further, whatever its type: `seq` counts them all."""
    spent, seq = state.tokens_spent, state.seq + 1
    if isinstance(payload, WorkflowStepResult):
        spent = min(max(0.0, spent + payload.tokens), SPENT_MAX)
    return WorkflowState(spent, seq, fold_health(state.health, payload, at, seq))


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
