"""How long to wait before the next try. Arithmetic only; the engine does the waiting."""

from __future__ import annotations

from recoup.kernel.elapsed import elapsed_s
from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus

_DELIVERY_BASE_S = 15
_DELIVERY_CAP_S = 600


def backoff_ms(attempt: int, policy: Policy) -> int:
    """Before attempt `attempt + 1`: growing from `backoff_ms` by `backoff_factor`, healed or not, up to the cap."""
    assert attempt >= 1, "attempts are 1-based"
    growths = min(attempt - 1, 100)  # keeps the number finite
    return round(min(policy.backoff_cap_ms, policy.backoff_ms * policy.backoff_factor**growths))


def cooldown_ms(told_s: float | None, policy: Policy) -> int:
    """As told, or the default; never longer than the policy allows."""
    wanted = policy.cooldown_default_seconds if told_s is None else max(0.0, told_s)
    return round(1000 * min(wanted, policy.cooldown_max_seconds))


def due_in_s(state: RunState, now: Instant) -> float:
    """How long until a worker may take the run up; 0: it may."""
    if state.status is RunStatus.FAILED and state.failure.retryable:
        waits_s = float(delivery_backoff_s(max(1, state.driver.delivery)))
        return max(0.0, waits_s - elapsed_s(state.clocks.updated_at or state.submission.at, now, waits_s))
    if not state.begun and state.queueing.not_before_us:
        return max(0.0, (state.queueing.not_before_us - now.wall_us) / 1e6)
    return 0.0


def delivery_backoff_s(delivery: int) -> int:
    """Before delivery `delivery + 1`."""
    assert delivery >= 1, "deliveries are 1-based"
    return min(_DELIVERY_CAP_S, _DELIVERY_BASE_S << min(delivery - 1, 10))
