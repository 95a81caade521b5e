"""Time since an event, when wall clocks jump and machines reboot."""

from __future__ import annotations

from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import RunState


def elapsed_s(since: Instant, now: Instant, period_s: float) -> float:
    """By the boot clock within one boot; across boots by the wall clock, kept within [0, `period_s`]."""
    if since.boot_id == now.boot_id:
        return max(0.0, (now.boot_us - since.boot_us) / 1e6)
    return min(max(0.0, (now.wall_us - since.wall_us) / 1e6), period_s)


def active_seconds(before_s: float, since: Instant | None, now: Instant, period_s: float) -> float:
    """How long a run has been worked on: what was counted, and the stretch that is not over."""
    return before_s + (elapsed_s(since, now, period_s) if since is not None else 0.0)


def run_seconds_left(run: RunState, policy: Policy, now: Instant) -> float:
    """Of the run's own time; less than nothing: it was exceeded."""
    limit_s = policy.run_timeout_seconds
    return limit_s - active_seconds(run.active_s, run.active_since, now, limit_s)
