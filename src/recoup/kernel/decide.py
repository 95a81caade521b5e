"""What to do about a failed attempt. The engine, the simulator and the tests call the same function."""

from __future__ import annotations

from recoup.kernel.backoff import backoff_ms, cooldown_ms
from recoup.kernel.elapsed import active_seconds
from recoup.kernel.progress import equal_attempts, mark_of, says_something
from recoup.model.decision import Decision, Escalate, GiveUp, HardReset, Retry, SoftReset
from recoup.model.failure import Failure, FailureClass, FailureKind
from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import StepState


def decide(state: StepState, failure: Failure, policy: Policy, now: Instant) -> Decision:
    """One recovery action or an end, from a bounded state; never both retried and ended, always with a reason."""
    if failure.cls.is_deterministic and not _named(failure, policy):
        return GiveUp(
            f"{failure.cls}: trying again cannot help", failure.cls, redeliver=False, exhausted=False
        )
    if not failure.outcome_known and not state.may_repeat:
        return Escalate(
            "the outcome is unknown, the step must not be repeated, and no check can tell whether it was done",
            failure.cls,
        )
    if policy.retry_on and failure.kind is not FailureKind.DRIVER_LOST and not _named(failure, policy):
        return GiveUp(_not_named(failure, policy), failure.cls, redeliver=False, exhausted=False)
    cls = _class_with_progress(state, failure, policy)
    spent = _spent(state, cls, policy)
    if spent:
        return GiveUp(spent, cls, redeliver=cls in policy.redeliver_classes, exhausted=True)
    return _within_time(state, _recovery(state, failure, cls, policy), policy, now)


def _named(failure: Failure, policy: Policy) -> bool:
    return failure.kind in policy.retry_on or failure.cls in policy.retry_on


def _not_named(failure: Failure, policy: Policy) -> str:
    return f"retry.on: names {', '.join(policy.retry_on)}, and this is {failure.kind} ({failure.cls})"


def _class_with_progress(state: StepState, failure: Failure, policy: Policy) -> FailureClass:
    if failure.cls.is_deterministic or not _stuck(state, failure, policy):
        return failure.cls
    return FailureClass.STUCK_NO_PROGRESS


def _stuck(state: StepState, failure: Failure, policy: Policy) -> bool:
    if not says_something(failure.kind, failure.cls):
        return False
    return equal_attempts(mark_of(failure), state.earlier, policy) >= policy.step_no_progress_limit


def _spent(state: StepState, cls: FailureClass, policy: Policy) -> str | None:
    """The first budget that is used up, in words; None when another attempt is allowed."""
    if state.attempts_in_delivery >= policy.step_max_attempts:
        return f"step_max_attempts: {state.attempts_in_delivery} of {policy.step_max_attempts} attempts used"
    if state.retries >= policy.run_retries_max:
        return f"run_retries_max: {state.retries} of {policy.run_retries_max} retries of the run used"
    if state.retry_tokens is not None and state.retry_tokens < policy.retry_tokens / 2:
        return (
            f"retry_tokens: {state.retry_tokens:.1f} of {policy.retry_tokens:.0f} left for this workflow, "
            "and nothing is retried below half"
        )
    if cls is FailureClass.UNKNOWN and state.unknown_failures > policy.unknown_retries_max:
        return f"unknown_retries_max: an unrecognised failure gets {policy.unknown_retries_max} more try"
    return None


def _within_time(state: StepState, decision: Decision, policy: Policy, now: Instant) -> Decision:
    """No wait that ends after the run's own time; another delivery would have no time either."""
    if isinstance(decision, GiveUp | Escalate):
        return decision
    used_s = active_seconds(state.active_s, state.active_since, now, policy.run_timeout_seconds)
    if used_s + decision.delay_ms / 1000 < policy.run_timeout_seconds:
        return decision
    reason = f"run_timeout: {used_s:.0f} s of {policy.run_timeout_seconds:g} s are used, and the next wait is too long"
    return GiveUp(reason, decision.cls, redeliver=False, exhausted=True)


def _recovery(state: StepState, failure: Failure, cls: FailureClass, policy: Policy) -> Decision:
    delay_ms = backoff_ms(state.attempts_in_delivery, policy)
    if failure.kind is FailureKind.WORKSPACE_BROKEN:
        return _after_destruction(state, cls, policy, delay_ms)
    if _stuck(state, failure, policy):
        return _after_no_progress(state, cls, policy, delay_ms)
    if failure.kind is FailureKind.HARD_RESET_REQUESTED:
        return _as_asked(state, cls, policy, delay_ms)
    if cls is FailureClass.COOLDOWN:
        wait_ms = cooldown_ms(failure.facts.retry_after_s, policy)
        return Retry(f"cooldown: wait {wait_ms / 1000:g} s as asked", cls, wait_ms)
    return SoftReset(f"{cls}: fresh process, same workspace", cls, delay_ms)


def _after_no_progress(state: StepState, cls: FailureClass, policy: Policy, delay_ms: int) -> Decision:
    repeated = f"no progress: {policy.step_no_progress_limit} attempts ended alike"
    if state.can_hard_reset and state.resets < policy.job_self_heal_max_resets:
        return HardReset(f"{repeated}: restore the workspace aside", cls, delay_ms)
    if not policy.no_progress_gives_up:
        left = policy.step_max_attempts - state.attempts_in_delivery
        return SoftReset(f"{repeated}, and the plan allows {left} more", cls, delay_ms)
    no_reset = (
        f"; job_self_heal_max_resets: {state.resets} of {policy.job_self_heal_max_resets} used"
        if state.can_hard_reset
        else ", and this step has no workspace to reset"
    )
    again = cls in policy.redeliver_classes
    return GiveUp(f"{repeated}{no_reset}", cls, redeliver=again, exhausted=True)


def _after_destruction(state: StepState, cls: FailureClass, policy: Policy, delay_ms: int) -> Decision:
    """Nothing can be done in what is left: it is restored, or the step has failed."""
    broken = "the workspace is broken"
    if not state.can_hard_reset:
        return GiveUp(f"{broken}, and there is no checkpoint of it", cls, redeliver=False, exhausted=True)
    if state.resets >= policy.job_self_heal_max_resets:
        used = f"job_self_heal_max_resets: {state.resets} of {policy.job_self_heal_max_resets} used"
        return GiveUp(f"{broken}; {used}", cls, redeliver=False, exhausted=True)
    return HardReset(f"{broken}: restore the last checkpoint", cls, delay_ms)


def _as_asked(state: StepState, cls: FailureClass, policy: Policy, delay_ms: int) -> Decision:
    """A step may ask for a hard reset; whether it gets one is not its business."""
    asked = "the step asked for a hard reset"
    if not state.can_hard_reset:
        return SoftReset(f"{asked}, and has no workspace to reset: fresh process", cls, delay_ms)
    if state.resets >= policy.job_self_heal_max_resets:
        used = f"job_self_heal_max_resets: {state.resets} of {policy.job_self_heal_max_resets} used"
        return SoftReset(f"{asked}; {used}: fresh process, same workspace", cls, delay_ms)
    return HardReset(f"{asked}: restore the workspace aside", cls, delay_ms)
