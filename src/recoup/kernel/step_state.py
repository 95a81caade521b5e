"""What a decision may know of a run, from its folded state. The engine and the simulator ask here, so that a decision
made again from the ledger is made from the same."""

from __future__ import annotations

from recoup.kernel.healing import page_can_be_made_again
from recoup.model.failure import FailureClass
from recoup.model.plan import Repeat
from recoup.model.policy import Policy
from recoup.model.run import RunState, StepRecord, StepState


def step_state(
    run: RunState, record: StepRecord, cls: FailureClass, policy: Policy, retry_tokens: float | None
) -> StepState:
    """`record` has just failed with this class; `policy` is the step's own."""
    return StepState(
        attempt=record.open.attempt if record.open else record.spent.attempts + 1,
        attempts_in_delivery=record.spent.attempts_in_delivery + 1,
        earlier=record.spent.marks[-policy.no_progress_window :],
        unknown_failures=record.spent.unknown_failures + (cls is FailureClass.UNKNOWN),
        resets=run.counts.resets,
        retries=run.counts.retries,
        active_s=run.clocks.active_s,
        active_since=run.clocks.active_since,
        can_hard_reset=run.workspaces.baseline is not None
        or page_can_be_made_again(run.plan.steps, record.index),
        may_repeat=run.plan.steps[record.index].repeat is Repeat.SAFE,
        retry_tokens=retry_tokens,
    )


def tokens_left(policy: Policy, tokens_spent: float) -> float:
    """After the failure that is being decided about."""
    return policy.retry_tokens - tokens_spent - 1
