"""Time since an event, when wall clocks jump and machines reboot."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import Clocks, RunState

_LONGEST_S = 366 * 86_400.0


def elapsed_s(since: Instant, now: Instant, period_s: float) -> float:
    """By the boot clock within one boot; across boots by the wall clock, kept within [0, `period_s`]."""
    if since.boot_id == now.boot_id:
        return max(0.0, (now.boot_us - since.boot_us) / 1e6)
    return min(max(0.0, (now.wall_us - since.wall_us) / 1e6), period_s)


def active_seconds(before_s: float, since: Instant | None, now: Instant, period_s: float) -> float:
    """How long a run has been worked on: what was counted, and the stretch that is not over."""
    return before_s + (elapsed_s(since, now, period_s) if since is not None else 0.0)


class TimeSpent(msgspec.Struct, frozen=True):
    """Where the time of a run went."""

    worked_s: float
    """Drivers worked on it, retries and the waits between them included."""
    waited_s: float
    """It waited for a person."""


def time_spent(clocks: Clocks, now: Instant, *, driven: bool = True) -> TimeSpent:
    """Up to now. Not driven: nobody has worked on it since its last event."""
    until = now if driven else clocks.updated_at or now
    return TimeSpent(
        active_seconds(clocks.active_s, clocks.active_since, until, _LONGEST_S),
        active_seconds(clocks.waited_s, clocks.waiting_since, now, _LONGEST_S),
    )


def spent_words(spent: TimeSpent, words: Callable[[float], str]) -> str:
    """`9.0 s`, or `9.0 s of work, waited 14 min 02 s for a person`."""
    worked = words(spent.worked_s)
    return f"{worked} of work, waited {words(spent.waited_s)} for a person" if spent.waited_s else worked


def run_seconds_left(run: RunState, policy: Policy, now: Instant) -> float:
    """Of the run's own time; less than nothing: it was exceeded."""
    limit_s = policy.run_timeout_seconds
    return limit_s - active_seconds(run.clocks.active_s, run.clocks.active_since, now, limit_s)
