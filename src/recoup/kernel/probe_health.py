"""What single looks at a resource come to: thresholds, start periods, health."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recoup.model.probe import Check, Fault, Health


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """What one look showed."""

    good: bool
    reason: str = ""
    error_code: str | None = None
    fault_class: str | None = None
    """Instead of the check's own."""
    at_once: bool = False
    """Do not wait for more of these: it is certain."""


class Tally(msgspec.Struct, frozen=True):
    """The last signs of one check, counted."""

    good: bool | None = None
    """None: nothing is known since the start."""
    failures: int = 0
    successes: int = 0
    last: Sign | None = None


def counted(tally: Tally, sign: Sign, check: Check, *, starting: bool) -> Tally:
    """With one more sign. While the resource is starting a bad one says only that it is not there yet."""
    if sign.good:
        successes = min(tally.successes + 1, check.successes)
        good = True if tally.good or successes >= check.successes else tally.good
        return Tally(good, 0, successes, sign)
    if starting and tally.good is None and not sign.at_once:
        return Tally(None, 0, 0, sign)
    failures = check.failures if sign.at_once else min(tally.failures + 1, check.failures)
    good = False if failures >= check.failures else tally.good
    return Tally(good, failures, 0, sign)


def fault_of(tally: Tally, check: Check) -> Fault | None:
    """What the tally says is wrong, once it has said it often enough."""
    if tally.good is not False or tally.last is None:
        return None
    last = tally.last
    return Fault(
        fault_class=last.fault_class or check.FAULT_CLASS, reason=last.reason, error_code=last.error_code
    )


def health_of(tallies: Iterable[Tally]) -> Health:
    """Unhealthy if one check says so; degraded if one has failed lately; unknown while one has said nothing."""
    every = list(tallies)
    if any(tally.good is False for tally in every):
        return Health.UNHEALTHY
    if any(tally.good is None for tally in every):
        return Health.UNKNOWN
    return Health.DEGRADED if any(tally.failures for tally in every) else Health.HEALTHY
