"""How one resource looks since it was last started or acted on: in memory only, a new probe begins anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.probe_health import Sign, Tally, counted, fault_of, health_of
from recoup.model.instant import Instant
from recoup.model.probe import Fault, Health
from recoup.ports import Clock
from recoup.probe.looker import Looker


class Outlook:
    """The signs of all checks, and what the holder itself has reported."""

    def __init__(
        self, clock: Clock, lookers: Sequence[Looker], settle_s: float, wake: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._lookers = lookers
        self._settle_s = settle_s
        self._wake = wake
        self._tallies = [Tally() for _ in lookers]
        self._begun: Instant | None = None
        self._healthy_since: Instant | None = None
        self.reported: Fault | None = None
        """What the holder said is wrong."""
        self.proving = False
        """It was started or acted on, and has yet to show that it is healthy."""
        for number, looker in enumerate(lookers):
            looker.report_to(partial(self._take, number))

    def begin(self) -> None:
        """It is about to be started or acted on: whatever was seen is about what will be no more."""
        self.rest()
        self._tallies = [Tally() for _ in self._lookers]
        self.reported = None

    def watch(self) -> None:
        """It was, and is to prove itself now."""
        self._begun, self.proving = self._clock.now(), True
        for looker in self._lookers:
            looker.watch()

    def rest(self) -> None:
        """There is nothing to look at."""
        for looker in self._lookers:
            looker.rest()
        self.proving = False
        self._healthy_since = None

    def proven(self) -> None:
        self.proving = False
        self._healthy_since = self._clock.now()

    def report(self, fault: Fault) -> None:
        self.reported = fault
        self._healthy_since = None

    def prolong(self) -> None:
        """Its time to prove itself begins again: what it needs is not well."""
        self._begun = self._clock.now()

    @property
    def health(self) -> Health:
        if self.reported is not None:
            return Health.UNHEALTHY
        health = health_of(self._tallies)
        settled = self.settles_in_s(self._clock.now()) is None
        return Health.UNKNOWN if health is Health.HEALTHY and not settled else health

    @property
    def fault(self) -> Fault | None:
        """What is wrong, certain enough to act on it."""
        found = (
            fault_of(tally, looker.check) for looker, tally in zip(self._lookers, self._tallies, strict=True)
        )
        return self.reported or next((fault for fault in found if fault is not None), None)

    def unproven(self, start_period_s: float) -> Fault:
        """It had its time to become healthy: which check is to blame, and in what words."""
        silent = [
            (looker.check, tally.last)
            for looker, tally in zip(self._lookers, self._tallies, strict=True)
            if tally.good is not True
        ]
        check, last = silent[0] if silent else (None, None)
        fault_class = (last and last.fault_class) or (check.FAULT_CLASS if check else "not_started")
        words = last.reason if last and last.reason else "no check has said so"
        reason = f"not healthy within {start_period_s:g} s: {words}"
        return Fault(fault_class=fault_class, reason=reason, error_code="not_healthy")

    def healthy_s(self, period_s: float) -> float:
        """For how long without interruption; more than the period is not counted."""
        now = self._clock.now()
        if self._healthy_since is None and self.fault is None and health_of(self._tallies) is Health.HEALTHY:
            self._healthy_since = now
        return 0 if self._healthy_since is None else elapsed_s(self._healthy_since, now, period_s)

    def settles_in_s(self, now: Instant) -> float | None:
        """None: it has, or nobody waits for it."""
        if not self.proving or self._begun is None:
            return None
        return max(0.0, self._settle_s - elapsed_s(self._begun, now, self._settle_s)) or None

    def proof_due_in_s(self, start_period_s: float, now: Instant) -> float | None:
        """None: nobody waits for it."""
        if not self.proving or self._begun is None:
            return None
        period_s = max(start_period_s, self._settle_s)
        return max(0.0, period_s - elapsed_s(self._begun, now, period_s))

    def _take(self, number: int, sign: Sign) -> None:
        check = self._lookers[number].check
        self._tallies[number] = counted(self._tallies[number], sign, check, starting=self.proving)
        if not sign.good:
            self._healthy_since = None
        self._wake()
