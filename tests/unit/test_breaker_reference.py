"""The breaker against a reference that keeps everything and thinks slowly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from recoup.kernel.breaker import fold_health, refused, standing
from recoup.kernel.breaker import rule as ruling_of
from recoup.model.events import Payload, WorkflowModeChanged, WorkflowProbePermitted, WorkflowStepResult
from recoup.model.instant import Instant
from recoup.model.mode import Health, Mode
from recoup.model.policy import Policy


class Told(NamedTuple):
    at_s: float
    payload: Payload


class Reference:
    """All events, and plain words of the rules. True time, so no boots."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.told: list[Told] = []

    def mode(self, now_s: float) -> tuple[Mode, bool]:
        """And whether only probes may run."""
        entered = self._entered()
        if entered is None:
            return Mode.RUNNING, False
        index, at_s, change = entered
        if change.for_s is not None and now_s - at_s >= change.for_s:
            if change.mode is Mode.QUARANTINED:
                return Mode.DEGRADED, True
            return (Mode.DEGRADED if change.mode is Mode.ROLLBACK else Mode.RUNNING), False
        probing = self._permitted_since(index)
        passed = any(
            payload.result != "failed" and payload.run_id in probing(place)
            for place, payload in self._step_results(index)
        )
        return change.mode, change.half_open and not passed

    def wants(self, now_s: float) -> Mode | None:
        """The mode that must follow on the last event, if another one must."""
        if not self.told or not isinstance(self.told[-1].payload, WorkflowStepResult):
            return None
        mode, half_open = self.mode(now_s)
        entered = self._entered()
        since = entered[0] if entered else -1
        forced = bool(entered and entered[2].forced and not self._is_over(now_s))
        if mode.stops or (forced and mode is Mode.RUNNING):
            return None
        results = self._results(self._spent())
        clean = 0
        for result, *_ in reversed(self._results(since)):
            if result == "failed":
                break
            clean += 1
        if self.told[-1].payload.result != "failed":
            ends = mode is Mode.DEGRADED and not forced and clean >= self.policy.degraded_clean_steps
            return Mode.RUNNING if ends and not self._is_over(now_s) else None
        probed = self.told[-1].payload.run_id in self._permitted_since(since)(len(self.told))
        if (half_open and probed) or self._too_many(results, now_s):
            return Mode.QUARANTINED
        return Mode.DEGRADED if mode is Mode.RUNNING and self._streak() else None

    def may_start(self, run_id: str, now_s: float) -> bool:
        mode, half_open = self.mode(now_s)
        if mode.stops:
            return False
        permitted = self._permitted(now_s)
        return not half_open or run_id in permitted or len(permitted) < self.policy.half_open_probes

    def _too_many(self, results: list[tuple[str, str, float]], now_s: float) -> bool:
        failed_at = [at_s for result, _, at_s in results if result == "failed"]
        within = sum(now_s - at_s < self.policy.workflow_fail_window_s for at_s in failed_at)
        last = results[-self.policy.workflow_count_window :]
        failed = sum(result == "failed" for result, *_ in last)
        enough = len(last) >= self.policy.workflow_count_min
        return within >= self.policy.workflow_fail_max_in_window or (
            enough and failed / len(last) >= self.policy.workflow_fail_ratio
        )

    def _streak(self) -> bool:
        results = self._results(self._spent())
        _, step, _ = results[-1]
        mine = [result for result, other, _ in results if other == step]
        wanted = self.policy.step_fail_streak_to_degraded
        return len(mine) >= wanted and set(mine[-wanted:]) == {"failed"}

    def _results(self, after: int) -> list[tuple[str, str, float]]:
        return [
            (one.payload.result, one.payload.step_id, one.at_s)
            for one in self.told[after + 1 :]
            if isinstance(one.payload, WorkflowStepResult)
        ]

    def _step_results(self, after: int) -> list[tuple[int, WorkflowStepResult]]:
        numbered = enumerate(self.told[after + 1 :], after + 1)
        return [
            (place, one.payload) for place, one in numbered if isinstance(one.payload, WorkflowStepResult)
        ]

    def _permitted_since(self, after: int) -> Callable[[int], set[str]]:
        """The runs that were ever permitted to probe in this mode, before a place."""
        return lambda before: {
            one.payload.run_id
            for one in self.told[after + 1 : before]
            if isinstance(one.payload, WorkflowProbePermitted)
        }

    def _entered(self) -> tuple[int, float, WorkflowModeChanged] | None:
        for index in range(len(self.told) - 1, -1, -1):
            payload = self.told[index].payload
            if isinstance(payload, WorkflowModeChanged):
                return index, self.told[index].at_s, payload
        return None

    def _spent(self) -> int:
        """Behind the last change that made everything before it count no more."""
        changes = (
            index
            for index, one in enumerate(self.told)
            if isinstance(one.payload, WorkflowModeChanged)
            and one.payload.mode in (Mode.QUARANTINED, Mode.RUNNING)
        )
        return max(changes, default=-1)

    def _is_over(self, now_s: float) -> bool:
        entered = self._entered()
        return bool(entered and entered[2].for_s is not None and now_s - entered[1] >= entered[2].for_s)

    def _permitted(self, now_s: float) -> set[str]:
        entered = self._entered()
        return {
            one.payload.run_id
            for one in self.told[entered[0] + 1 if entered else 0 :]
            if isinstance(one.payload, WorkflowProbePermitted)
            and now_s - one.at_s < self.policy.half_open_permit_s
        }


class BreakerMachine(RuleBasedStateMachine):
    """Steps fail and pass, runs begin, operators intervene, time goes by."""

    @initialize(
        window=st.integers(2, 6),
        streak=st.integers(1, 4),
        count=st.integers(2, 8),
        ratio=st.sampled_from([0.3, 0.5, 1.0]),
        clean=st.integers(1, 4),
        probes=st.integers(1, 2),
    )
    def begin(self, window: int, streak: int, count: int, ratio: float, clean: int, probes: int) -> None:
        self.policy = Policy(
            step_fail_streak_to_degraded=streak,
            workflow_fail_max_in_window=window,
            workflow_fail_window_s=60,
            workflow_count_window=count + 3,
            workflow_count_min=count,
            workflow_fail_ratio=ratio,
            degraded_clean_steps=clean,
            quarantine_duration_s=100,
            half_open_probes=probes,
            half_open_permit_s=40,
        )
        self.reference = Reference(self.policy)
        self.health = Health()
        self.now = Instant(10**15, 10**9, "boot")

    @property
    def now_s(self) -> float:
        return self.now.boot_us / 1e6

    def append(self, payload: Payload) -> None:
        self.reference.told.append(Told(self.now_s, payload))
        self.health = fold_health(self.health, payload, self.now, len(self.reference.told))

    @rule(
        result=st.sampled_from(["failed", "failed", "passed", "recovered"]),
        step=st.sampled_from("ab"),
        run_id=st.sampled_from(["r1", "r2", "r3"]),
    )
    def step_ends(self, result: str, step: str, run_id: str) -> None:
        self.append(WorkflowStepResult(run_id=run_id, step_id=step, result=result, attempts=1))
        wanted = self.reference.wants(self.now_s)
        ruling = ruling_of(self.health, self.policy, self.now, len(self.reference.told), ended=True)
        changes = [payload.mode for payload in ruling.payloads if isinstance(payload, WorkflowModeChanged)]
        assert changes == ([] if wanted is None else [wanted])
        for payload in ruling.payloads:
            self.append(payload)

    @rule(run_id=st.sampled_from(["r1", "r2", "r3"]))
    def run_begins(self, run_id: str) -> None:
        expected = self.reference.may_start(run_id, self.now_s)
        ruling = ruling_of(
            self.health, self.policy, self.now, len(self.reference.told), ended=False, begins=run_id
        )
        assert (ruling.refusal is None) == expected
        assert expected or not any(isinstance(one, WorkflowProbePermitted) for one in ruling.payloads)
        for payload in ruling.payloads:
            self.append(payload)
        assert (refused(self.health, self.policy, run_id, self.now) is None) == expected, (
            "asking changes nothing"
        )

    @rule(
        mode=st.sampled_from([Mode.RUNNING, Mode.DEGRADED, Mode.QUARANTINED, Mode.PAUSED, Mode.ROLLBACK]),
        for_s=st.sampled_from([None, 30.0]),
    )
    def operator_speaks(self, mode: Mode, for_s: float | None) -> None:
        forced = WorkflowModeChanged(
            mode=mode, previous=self.health.mode, reason="", for_s=for_s, forced=True
        )
        self.append(forced)

    @rule(seconds=st.sampled_from([1, 10, 30, 61, 100]))
    def time_goes_by(self, seconds: int) -> None:
        self.now = self.now.plus_s(seconds)

    @invariant()
    def both_say_the_same(self) -> None:
        if hasattr(self, "reference"):
            at = standing(self.health, self.now)
            assert (at.mode, at.half_open) == self.reference.mode(self.now_s)


TestTheBreakerIsWhatTheReferenceIs = BreakerMachine.TestCase
TestTheBreakerIsWhatTheReferenceIs.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None
)


@pytest.mark.soak
def test_the_breaker_is_what_the_reference_is_in_many_more_stories() -> None:
    many = settings(max_examples=5_000, stateful_step_count=80, deadline=None)
    run_state_machine_as_test(BreakerMachine, settings=many)
