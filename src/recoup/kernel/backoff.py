"""How long to wait before the next try. Arithmetic only; the engine does the waiting."""

from __future__ import annotations

from recoup.model.policy import Policy

_DELIVERY_BASE_S = 15
_DELIVERY_CAP_S = 600


def backoff_ms(attempt: int, policy: Policy) -> int:
    """Before attempt `attempt + 1`: doubling from `backoff_ms`, healed or not, up to the cap."""
    assert attempt >= 1, "attempts are 1-based"
    doublings = min(attempt - 1, 40)  # beyond any cap; keeps the integer small
    return min(policy.backoff_cap_ms, policy.backoff_ms << doublings)


def cooldown_ms(told_s: float | None, policy: Policy) -> int:
    """As told, or the default; never longer than the policy allows."""
    wanted = policy.cooldown_default_seconds if told_s is None else max(0.0, told_s)
    return round(1000 * min(wanted, policy.cooldown_max_seconds))


def delivery_backoff_s(delivery: int) -> int:
    """Before delivery `delivery + 1`."""
    assert delivery >= 1, "deliveries are 1-based"
    return min(_DELIVERY_CAP_S, _DELIVERY_BASE_S << min(delivery - 1, 10))
