"""When a workflow slows down, hardens, stops and asks."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.breaker import (
    BOOTS_MAX,
    FAILURES_MAX,
    STEPS_MAX,
    failure_counts,
    fold_health,
    next_global_mode,
    refused,
    rule,
    standing,
)
from recoup.model.events import Payload, UnknownPayload, WorkflowModeChanged, WorkflowStepResult
from recoup.model.instant import Instant
from recoup.model.mode import Health, Mode
from recoup.model.policy import Policy

HOUR_US = 3_600_000_000


class Workflow:
    """One workflow's stream, as the ledger would keep it."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.health = Health()
        self.now = Instant(1_000 * HOUR_US, 500_000_000, "boot-1")
        self.events: list[tuple[Instant, Payload]] = []

    def append(self, payload: Payload) -> None:
        self.events.append((self.now, payload))
        self.health = fold_health(self.health, payload, self.now, len(self.events))

    def result(self, result: str, step: str = "a", run: str = "r", counts: bool = True) -> None:
        self.append(WorkflowStepResult(run_id=run, step_id=step, result=result, attempts=1, counts=counts))
        self.rule(None)

    def fail(self, times: int = 1, step: str = "a", every_s: float = 0) -> None:
        for _ in range(times):
            self.result("failed", step)
            self.wait(every_s)

    def starts(self, run: str = "r") -> bool:
        return self.rule(run) is None

    def rule(self, run: str | None) -> object:
        ruling = rule(self.health, self.policy, self.now, len(self.events), ended=run is None, begins=run)
        for payload in ruling.payloads:
            self.append(payload)
        return ruling.refusal

    def wait(self, seconds: float) -> None:
        self.now = self.now.plus_s(seconds)

    def reboot(self, wall_jump_us: int = 0) -> None:
        self.now = Instant(self.now.wall_us + wall_jump_us, 1_000_000, self.now.boot_id + "+")

    def force(self, mode: Mode, for_s: float | None = None) -> None:
        self.append(
            WorkflowModeChanged(
                mode=mode, previous=self.health.mode, reason="operator", for_s=for_s, forced=True
            )
        )

    def mode(self) -> Mode:
        return standing(self.health, self.now).mode

    @property
    def changes(self) -> list[WorkflowModeChanged]:
        return [payload for _, payload in self.events if isinstance(payload, WorkflowModeChanged)]


# Into a mode


def test_three_failures_in_a_row_of_one_step_degrade_the_workflow() -> None:
    workflow = Workflow()
    workflow.fail(2)
    assert workflow.mode() is Mode.RUNNING
    workflow.fail()
    assert workflow.mode() is Mode.DEGRADED
    (change,) = workflow.changes
    assert change.reason.startswith("step_fail_streak_to_degraded: a failed 3 times")
    assert [workflow.events[seq - 1][1] for seq in change.causes] == [
        payload for _, payload in workflow.events if isinstance(payload, WorkflowStepResult)
    ]


@pytest.mark.parametrize("result", ["passed", "recovered"])
def test_a_step_that_passes_begins_its_streak_anew(result: str) -> None:
    workflow = Workflow()
    workflow.fail(2)
    workflow.result(result)
    workflow.fail(2)
    assert workflow.mode() is Mode.RUNNING


def test_another_step_that_passes_does_not_end_a_streak() -> None:
    workflow = Workflow()
    workflow.fail(2)
    workflow.result("passed", "b")
    workflow.fail()
    assert workflow.mode() is Mode.DEGRADED


def test_ten_failures_in_ten_minutes_are_a_quarantine_with_its_causes() -> None:
    workflow = Workflow()
    for number in range(9):
        workflow.fail(step=f"s{number}", every_s=60)
    assert workflow.mode() is Mode.RUNNING
    workflow.fail(step="s9")
    assert workflow.mode() is Mode.QUARANTINED
    assert len(workflow.changes[-1].causes) == 10
    assert workflow.changes[-1].for_s == 1800


def test_failures_that_left_the_window_count_no_more() -> None:
    workflow = Workflow(Policy(workflow_count_min=200, workflow_count_window=200))
    for number in range(30):
        workflow.fail(step=f"s{number}", every_s=67)
    assert workflow.mode() is Mode.RUNNING


def test_half_of_the_last_twenty_results_are_a_quarantine_however_long_they_took() -> None:
    workflow = Workflow()
    for number in range(5):
        workflow.fail(step=f"s{number}", every_s=7_200)
        workflow.result("passed", f"p{number}")
    assert workflow.mode() is Mode.RUNNING, "the tenth result did not fail"
    workflow.fail(step="t")
    assert workflow.mode() is Mode.QUARANTINED
    assert workflow.changes[-1].reason == "workflow_fail_ratio: 6 of the last 11 steps failed"
    assert len(workflow.changes[-1].causes) == 6


def test_fewer_than_ten_results_say_nothing_about_a_share() -> None:
    workflow = Workflow()
    for number in range(9):
        workflow.fail(step=f"s{number}", every_s=7_200)
    assert workflow.mode() is Mode.RUNNING


@pytest.mark.parametrize("result", ["attempt_failed", "cancelled", "blocked"])
def test_attempts_and_steps_that_were_stopped_do_not_count(result: str) -> None:
    workflow = Workflow()
    for _ in range(50):
        workflow.result(result)
    assert workflow.mode() is Mode.RUNNING
    assert not workflow.changes


def test_a_failure_that_only_caution_caused_does_not_count() -> None:
    workflow = Workflow()
    for _ in range(50):
        workflow.result("failed", counts=False)
    assert not workflow.changes


# Out of a mode


def test_ten_clean_results_end_degraded_mode() -> None:
    workflow = Workflow()
    workflow.fail(3)
    for _ in range(9):
        workflow.result("passed", "b")
    assert workflow.mode() is Mode.DEGRADED
    workflow.result("passed", "b")
    assert workflow.mode() is Mode.RUNNING


def test_a_failure_between_makes_the_clean_results_begin_anew() -> None:
    workflow = Workflow()
    workflow.fail(3)
    for _ in range(3):
        for _ in range(9):
            workflow.result("passed", "b")
        workflow.fail(step="c")
    assert workflow.mode() is Mode.DEGRADED


def quarantined(policy: Policy | None = None) -> Workflow:
    workflow = Workflow(policy)
    workflow.fail(10)
    assert workflow.mode() is Mode.QUARANTINED
    return workflow


def test_nothing_begins_in_quarantine_and_the_refusal_says_how_long() -> None:
    workflow = quarantined()
    workflow.wait(300)
    refusal = refused(workflow.health, workflow.policy, "r", workflow.now)
    assert refusal is not None
    assert refusal.left_s == 1500
    assert not workflow.starts()


def test_a_quarantine_ends_degraded_and_one_run_may_probe() -> None:
    workflow = quarantined()
    workflow.wait(1800)
    assert workflow.mode() is Mode.DEGRADED
    assert workflow.starts("first")
    assert workflow.starts("first"), "its next step too"
    assert not workflow.starts("second")
    assert workflow.changes[-1].previous is Mode.QUARANTINED
    refusal = refused(workflow.health, workflow.policy, "second", workflow.now)
    assert refusal is not None and "first" in refusal.reason and refusal.left_s == 900


def test_a_permit_expires_so_that_a_lost_probe_stops_nobody() -> None:
    workflow = quarantined()
    workflow.wait(1800)
    assert workflow.starts("first")
    workflow.wait(899)
    assert not workflow.starts("second")
    workflow.wait(1)
    assert workflow.starts("second")
    assert not workflow.starts("first")


def test_a_probe_that_fails_is_a_quarantine_again() -> None:
    workflow = quarantined()
    workflow.wait(1800)
    assert workflow.starts()
    workflow.fail()
    assert workflow.mode() is Mode.QUARANTINED
    assert workflow.changes[-1].reason == "a probe failed after the quarantine"


def test_a_probe_that_passes_lets_everybody_in_and_ten_lead_back() -> None:
    workflow = quarantined()
    workflow.wait(1800)
    assert workflow.starts("first")
    workflow.result("passed")
    assert workflow.starts("second")
    assert workflow.mode() is Mode.DEGRADED
    for _ in range(9):
        workflow.result("passed")
    assert workflow.mode() is Mode.RUNNING


def test_what_led_to_a_quarantine_does_not_lead_to_the_next() -> None:
    workflow = quarantined(Policy(quarantine_duration_s=10))
    workflow.wait(10)
    assert workflow.starts()
    workflow.result("passed")
    workflow.fail(step="z")
    assert workflow.mode() is Mode.DEGRADED


def test_a_result_that_comes_in_during_a_quarantine_neither_ends_nor_prolongs_it() -> None:
    workflow = quarantined()
    workflow.result("passed")
    workflow.fail(20)
    assert workflow.mode() is Mode.QUARANTINED
    assert len(workflow.changes) == 2  # degraded, quarantined
    workflow.wait(1800)
    assert workflow.starts()
    assert workflow.mode() is Mode.DEGRADED


# An operator's word


def test_a_forced_running_holds_against_failures_until_its_time_is_over() -> None:
    workflow = Workflow()
    workflow.force(Mode.RUNNING, for_s=3_600)
    workflow.fail(30)
    assert workflow.mode() is Mode.RUNNING
    workflow.wait(3_600)
    workflow.fail()
    assert workflow.mode() is Mode.QUARANTINED


def test_a_forced_degraded_does_not_end_by_clean_results_but_may_get_worse() -> None:
    workflow = Workflow()
    workflow.force(Mode.DEGRADED)
    for _ in range(50):
        workflow.result("passed")
    assert workflow.mode() is Mode.DEGRADED
    workflow.fail(10)
    assert workflow.mode() is Mode.QUARANTINED


@pytest.mark.parametrize(
    ("mode", "then"),
    [
        (Mode.PAUSED, Mode.RUNNING),
        (Mode.DEGRADED, Mode.RUNNING),
        (Mode.QUARANTINED, Mode.DEGRADED),
        (Mode.ROLLBACK, Mode.DEGRADED),
    ],
)
def test_every_forced_mode_ends_with_its_time(mode: Mode, then: Mode) -> None:
    workflow = Workflow()
    workflow.force(mode, for_s=60)
    assert workflow.starts() is (mode is Mode.DEGRADED)
    workflow.wait(60)
    assert workflow.starts()
    assert workflow.mode() is then
    assert workflow.changes[-1].causes == (1,)


def test_a_pause_without_a_time_lasts_until_somebody_ends_it() -> None:
    workflow = Workflow()
    workflow.force(Mode.PAUSED)
    workflow.wait(10 * 365 * 86_400)
    assert not workflow.starts()
    workflow.force(Mode.RUNNING)
    assert workflow.starts()


# Time


@pytest.mark.parametrize("jump_us", [-HOUR_US, 10 * 365 * 24 * HOUR_US])
def test_a_clock_that_is_set_within_a_boot_changes_nothing(jump_us: int) -> None:
    workflow = quarantined()
    workflow.now = msgspec.structs.replace(workflow.now, wall_us=workflow.now.wall_us + jump_us)
    workflow.wait(1799)
    assert not workflow.starts()
    workflow.wait(1)
    assert workflow.starts()


def test_over_a_reboot_with_the_clock_set_back_a_quarantine_lasts_at_most_one_period_more() -> None:
    workflow = quarantined()
    workflow.wait(900)
    workflow.reboot(-HOUR_US)
    assert not workflow.starts(), "seen for the first time in this boot"
    workflow.wait(1799)
    assert not workflow.starts()
    workflow.wait(1)
    assert workflow.starts()


def test_over_a_reboot_with_the_clock_set_forward_a_quarantine_is_over() -> None:
    workflow = quarantined()
    workflow.reboot(10 * 365 * 24 * HOUR_US)
    assert workflow.starts()


def test_over_a_reboot_failures_leave_the_window_by_the_time_of_the_new_boot() -> None:
    workflow = Workflow(Policy(workflow_count_min=200, workflow_count_window=200))
    for number in range(9):
        workflow.fail(step=f"s{number}")
    workflow.reboot(-HOUR_US)
    assert workflow.starts()
    workflow.wait(600)
    workflow.fail(step="t")
    assert workflow.mode() is Mode.RUNNING


def test_boots_are_remembered_in_a_limited_number() -> None:
    workflow = Workflow()
    for number in range(BOOTS_MAX * 3):
        workflow.now = Instant(workflow.now.wall_us, 0, f"b{number}")
        workflow.starts()
    assert len(workflow.health.boots) == BOOTS_MAX
    assert f"b{BOOTS_MAX * 3 - 1}" in workflow.health.boots


# All workflows


def failing(names: str, times: int, now: Instant) -> dict[str, Health]:
    healths = {}
    for name in names:
        workflow = Workflow()
        workflow.now = now
        workflow.fail(times)
        healths[name] = workflow.health
    return healths


NOW = Instant(1_000 * HOUR_US, 500_000_000, "boot-1")
GLOBAL = Policy(global_pause=True)


def test_thirty_failures_in_three_workflows_pause_all_of_them() -> None:
    change = next_global_mode(Health(), failing("abc", 10, NOW), GLOBAL, NOW)
    assert change is not None
    assert change.mode is Mode.PAUSED
    assert "30 failed steps in 3 workflows" in change.reason


@pytest.mark.parametrize(
    ("names", "times", "later_s", "policy"),
    [("abc", 9, 0, GLOBAL), ("ab", 20, 0, GLOBAL), ("abc", 10, 600, GLOBAL), ("abc", 10, 0, Policy())],
)
def test_fewer_failures_or_workflows_or_older_ones_do_not(
    names: str, times: int, later_s: float, policy: Policy
) -> None:
    healths = failing(names, times, NOW)
    assert next_global_mode(Health(), healths, policy, NOW.plus_s(later_s)) is None


def test_failures_from_before_an_operator_let_all_go_do_not_pause_them_again() -> None:
    healths = failing("abc", 10, NOW)
    everywhere = Workflow()
    everywhere.now = NOW.plus_s(60)
    everywhere.append(WorkflowModeChanged(mode=Mode.RUNNING, previous=Mode.PAUSED, reason="mended"))
    assert next_global_mode(everywhere.health, healths, GLOBAL, NOW.plus_s(61)) is None


def test_what_is_paused_already_or_held_by_an_operator_is_not_paused() -> None:
    for mode in (Mode.PAUSED, Mode.RUNNING):
        everywhere = Workflow()
        everywhere.now = NOW.plus_s(-60)
        everywhere.force(mode)
        assert next_global_mode(everywhere.health, failing("abc", 10, NOW), GLOBAL, NOW) is None


# Bounds


def test_the_memory_of_a_workflow_is_bounded_whatever_happens() -> None:
    workflow = Workflow(
        Policy(workflow_fail_max_in_window=200, workflow_fail_ratio=1, degraded_clean_steps=1)
    )
    for number in range(3 * FAILURES_MAX):
        workflow.append(
            WorkflowStepResult(run_id="r" * 60, step_id=f"step-{number}", result="failed", attempts=1)
        )
        if number % 3 == 0:
            workflow.starts(f"run-{number}")
    assert len(workflow.health.failures) == FAILURES_MAX
    assert len(workflow.health.streaks) == STEPS_MAX
    assert len(workflow.health.recent) == FAILURES_MAX
    assert len(msgspec.json.encode(workflow.health)) < 80_000


def test_counts_are_told_as_the_thresholds_see_them() -> None:
    workflow = Workflow()
    workflow.fail(2)
    workflow.result("passed", "b")
    assert failure_counts(workflow.health, workflow.policy, workflow.now) == {
        "stepStreak": 2,
        "failuresInWindow": 2,
        "failuresInCount": 2,
        "resultsCounted": 3,
        "cleanResults": 1,
        "probes": 0,
    }


def test_an_event_of_a_newer_version_changes_nothing() -> None:
    workflow = quarantined()
    before = workflow.health
    workflow.append(UnknownPayload())
    assert workflow.health == before


@given(st.lists(st.sampled_from(["failed", "passed", "start", "wait", "reboot"]), max_size=80))
def test_a_mode_survives_being_stored_and_read_back(story: list[str]) -> None:
    workflow = Workflow(Policy(workflow_fail_max_in_window=4, quarantine_duration_s=100))
    for word in story:
        match word:
            case "start":
                workflow.starts()
            case "wait":
                workflow.wait(50)
            case "reboot":
                workflow.reboot(-HOUR_US)
            case _:
                workflow.result(word)
        raw = msgspec.json.encode(workflow.health)
        assert msgspec.json.decode(raw, type=Health) == workflow.health
