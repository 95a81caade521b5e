"""When a workflow slows down, hardens, stops and asks."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.breaker import (
    BOOTS_MAX,
    CAUSES_MAX,
    ELSEWHERE_MAX,
    STEPS_MAX,
    Ruling,
    Standing,
    ends_a_step,
    failure_counts,
    fold_health,
    next_global_mode,
    next_mode,
    refused,
    rule,
    standing,
)
from recoup.model.events import (
    Payload,
    UnknownPayload,
    WorkflowBootSeen,
    WorkflowModeChanged,
    WorkflowProbePermitted,
    WorkflowStepResult,
)
from recoup.model.failure import FailureKind
from recoup.model.instant import Instant
from recoup.model.mode import FailedResult, Health, Mode, Moment, Permit, Refusal
from recoup.model.policy import FAILURES_MAX, Policy

HOUR_US = 3_600_000_000


class Workflow:
    """One workflow's stream, as the ledger would keep it."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.health = Health()
        self.now = Instant(1_000 * HOUR_US, 500_000_000, "boot-1")
        self.events: list[tuple[Instant, Payload]] = []

    def append(self, payload: Payload) -> None:
        if isinstance(payload, WorkflowModeChanged):
            payload = msgspec.structs.replace(payload, counters=None)  # of interest to people only
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
        ruling = rule(
            self.health,
            self.policy,
            self.now,
            len(self.events),
            ended=run is None,
            begins=run,
            digest="sha256:p",
        )
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
    workflow.result("passed", run="begun before the quarantine")
    assert not workflow.starts("second")
    workflow.result("passed", run="first")
    assert workflow.starts("second")
    assert workflow.mode() is Mode.DEGRADED
    for _ in range(8):
        workflow.result("passed")
    assert workflow.mode() is Mode.RUNNING


def test_a_step_that_was_begun_before_the_quarantine_fails_no_probe() -> None:
    workflow = quarantined()
    workflow.wait(1800)
    workflow.result("failed", run="begun before the quarantine")
    assert workflow.starts("first")
    workflow.result("failed", run="begun before the quarantine")
    assert workflow.mode() is Mode.DEGRADED
    workflow.result("failed", run="first")
    assert workflow.mode() is Mode.QUARANTINED


def test_what_only_cleans_up_needs_no_permit_and_takes_none_but_stops_with_everything() -> None:
    def cleans_up(workflow: Workflow) -> Ruling:
        told = len(workflow.events)
        return rule(
            workflow.health, workflow.policy, workflow.now, told, ended=False, begins="r", probes=False
        )

    workflow = quarantined()
    refusal = cleans_up(workflow).refusal
    assert refusal == Refusal(Mode.QUARANTINED, workflow.health.reason, 1800)
    workflow.wait(1800)
    assert workflow.starts("first")
    assert cleans_up(workflow) == Ruling()


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
        (Mode.RUNNING, Mode.RUNNING),
        (Mode.PAUSED, Mode.RUNNING),
        (Mode.DEGRADED, Mode.RUNNING),
        (Mode.QUARANTINED, Mode.DEGRADED),
        (Mode.ROLLBACK, Mode.DEGRADED),
    ],
)
def test_every_forced_mode_ends_with_its_time(mode: Mode, then: Mode) -> None:
    workflow = Workflow()
    workflow.force(mode, for_s=60)
    assert workflow.starts() is not mode.stops
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


@pytest.mark.parametrize("jump_us", [-HOUR_US, HOUR_US, 10 * 365 * 24 * HOUR_US])
@pytest.mark.parametrize(("passed_s", "mode"), [(599, Mode.QUARANTINED), (601, Mode.RUNNING)])
def test_a_clock_that_is_set_within_a_boot_neither_lengthens_nor_shortens_the_window(
    jump_us: int, passed_s: int, mode: Mode
) -> None:
    workflow = Workflow(Policy(workflow_count_min=200, workflow_count_window=200))
    for number in range(9):
        workflow.fail(step=f"s{number}")
    workflow.now = msgspec.structs.replace(workflow.now, wall_us=workflow.now.wall_us + jump_us)
    workflow.wait(passed_s)
    workflow.fail(step="t")
    assert workflow.mode() is mode


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


def test_a_pause_of_all_workflows_names_the_failures_that_caused_it() -> None:
    healths = {**failing("abc", 10, NOW), **failing("d", 25, NOW.plus_s(-30)), **failing("e", 0, NOW)}
    change = next_global_mode(Health(), healths, GLOBAL, NOW)
    assert change is not None
    told = {name: [one.moment.seq for one in health.failures] for name, health in healths.items()}
    assert change.causes_elsewhere == {
        "d": tuple(told["d"][-CAUSES_MAX:]),
        **{name: tuple(told[name]) for name in "abc"},
    }
    assert next(iter(change.causes_elsewhere)) == "d", "the worst first"


def test_of_many_workflows_a_pause_names_the_worst() -> None:
    names = [f"w{number}" for number in range(CAUSES_MAX + 5)]
    healths = {name: next(iter(failing("x", 2 + (name == "w24"), NOW).values())) for name in names}
    change = next_global_mode(Health(), healths, GLOBAL, NOW)
    assert change is not None
    assert len(change.causes_elsewhere) == CAUSES_MAX
    assert "w24" in change.causes_elsewhere


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


def test_failures_that_paused_all_do_not_so_again_when_a_clock_was_set_back_since() -> None:
    """By their dates they have yet to come, so that time cannot tell them from new ones."""
    healths = failing("abc", 10, NOW)
    everywhere = Workflow()
    everywhere.now = NOW
    change = next_global_mode(everywhere.health, healths, GLOBAL, NOW)
    assert change is not None
    everywhere.append(change)
    everywhere.now = Instant(NOW.wall_us - HOUR_US, 1_000_000, "boot-2")
    everywhere.append(WorkflowModeChanged(mode=Mode.RUNNING, previous=Mode.PAUSED, reason="mended"))
    later = everywhere.now.plus_s(60)
    assert next_global_mode(everywhere.health, healths, GLOBAL, later) is None
    fewer = {**healths, **failing("d", 10, NOW), **failing("e", 10, NOW)}
    assert next_global_mode(everywhere.health, fewer, GLOBAL, later) is None
    others = {**fewer, **failing("f", 10, NOW)}
    again = next_global_mode(everywhere.health, others, GLOBAL, later)
    assert again is not None
    assert again.causes_elsewhere.keys() == set("def")


def test_of_each_workflow_it_is_remembered_how_far_its_failures_have_paused_all() -> None:
    def paused(**causes: tuple[int, ...]) -> WorkflowModeChanged:
        return WorkflowModeChanged(
            mode=Mode.PAUSED, previous=Mode.RUNNING, reason="too many", causes_elsewhere=causes
        )

    first = fold_health(Health(), paused(a=(3, 7), b=(2,), c=()), NOW, 1)
    assert list(first.counted_elsewhere.items()) == [("a", 7), ("b", 2)]
    second = fold_health(first, paused(a=(9,)), NOW, 2)
    assert list(second.counted_elsewhere.items()) == [("b", 2), ("a", 9)], "the latest last"
    let_go = WorkflowModeChanged(mode=Mode.RUNNING, previous=Mode.PAUSED, reason="mended")
    assert fold_health(second, let_go, NOW, 3).counted_elsewhere == second.counted_elsewhere
    many = paused(**{f"w{number}": (number,) for number in range(ELSEWHERE_MAX)})
    full = fold_health(second, many, NOW, 4).counted_elsewhere
    assert full == {f"w{number}": number for number in range(ELSEWHERE_MAX)}, "the earliest are forgotten"


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


# Exactly what is said


def test_a_change_to_degraded_says_from_what_why_and_under_which_policy() -> None:
    workflow = Workflow()
    workflow.fail(3, step="build")
    assert workflow.changes == [
        WorkflowModeChanged(
            mode=Mode.DEGRADED,
            previous=Mode.RUNNING,
            reason="step_fail_streak_to_degraded: build failed 3 times in a row",
            causes=(1, 2, 3),
            policy_digest="sha256:p",
        )
    ]


def test_a_change_to_quarantined_names_exactly_the_failures_that_filled_the_window() -> None:
    workflow = Workflow(Policy(workflow_fail_max_in_window=4, workflow_fail_window_s=30.5))
    workflow.fail(step="old")
    workflow.wait(40)
    for step in "abcd":
        workflow.fail(step=step)
    assert workflow.changes == [
        WorkflowModeChanged(
            mode=Mode.QUARANTINED,
            previous=Mode.RUNNING,
            reason="workflow_fail_max_in_window: 4 failed steps within 30.5 s",
            causes=(2, 3, 4, 5),
            for_s=1800,
            policy_digest="sha256:p",
        )
    ]


def test_a_quarantine_for_a_share_names_the_failures_among_the_last_results() -> None:
    workflow = Workflow(Policy(workflow_count_min=4, workflow_count_window=4, workflow_fail_ratio=0.5))
    for result, step in [("failed", "a"), ("passed", "b"), ("passed", "c"), ("passed", "d"), ("failed", "e")]:
        workflow.result(result, step)
    assert not workflow.changes, "one of the last four"
    workflow.result("failed", "f")
    (change,) = workflow.changes
    assert change.reason == "workflow_fail_ratio: 2 of the last 4 steps failed"
    assert change.causes == (5, 6)


def test_the_way_back_to_running_says_how_many_did_not_fail() -> None:
    workflow = Workflow(Policy(degraded_clean_steps=2))
    workflow.fail(3)
    workflow.result("passed")
    workflow.result("recovered")
    assert workflow.changes[-1] == WorkflowModeChanged(
        mode=Mode.RUNNING,
        previous=Mode.DEGRADED,
        reason="degraded_clean_steps: 2 step results in a row that did not fail",
        causes=(6,),
        policy_digest="sha256:p",
    )


def test_the_end_of_a_quarantine_is_told_once_with_the_first_probe() -> None:
    workflow = quarantined()
    quarantine = len(workflow.events)
    workflow.wait(1800)
    assert workflow.starts("first")
    assert [payload for _, payload in workflow.events[quarantine:]] == [
        WorkflowModeChanged(
            mode=Mode.DEGRADED,
            previous=Mode.QUARANTINED,
            reason="quarantined is over after 1800 s",
            causes=(quarantine,),
            half_open=True,
            policy_digest="sha256:p",
        ),
        WorkflowProbePermitted(run_id="first"),
    ]
    before = len(workflow.events)
    assert workflow.starts("first")
    assert not workflow.starts("second")
    assert len(workflow.events) == before, "neither a second step nor a refusal adds a word"


def test_the_end_of_a_pause_needs_no_probe() -> None:
    workflow = Workflow()
    workflow.force(Mode.PAUSED, for_s=0.5)
    workflow.wait(0.5)
    assert workflow.starts()
    assert workflow.changes[1:] == [
        WorkflowModeChanged(
            mode=Mode.RUNNING,
            previous=Mode.PAUSED,
            reason="paused is over after 0.5 s",
            causes=(1,),
            policy_digest="sha256:p",
        )
    ]
    assert not any(isinstance(payload, WorkflowProbePermitted) for _, payload in workflow.events)


def test_a_failed_probe_is_the_only_cause_of_the_quarantine_that_follows() -> None:
    workflow = quarantined()
    workflow.wait(1800)
    assert workflow.starts()
    workflow.fail(step="probe")
    change = workflow.changes[-1]
    assert (change.previous, change.for_s) == (Mode.DEGRADED, 1800)
    (cause,) = change.causes
    assert workflow.events[cause - 1][1] == WorkflowStepResult(
        run_id="r", step_id="probe", result="failed", attempts=1
    )


def test_a_refusal_in_quarantine_repeats_its_reason() -> None:
    workflow = quarantined()
    workflow.wait(300)
    assert workflow.rule("r") == Refusal(Mode.QUARANTINED, workflow.changes[-1].reason, 1500)


def test_a_refusal_names_all_who_may_probe_and_waits_for_the_permit_that_ends_first() -> None:
    workflow = quarantined(Policy(half_open_probes=2))
    workflow.wait(1800)
    assert workflow.starts("first")
    workflow.wait(100)
    assert workflow.starts("second")
    workflow.wait(50)
    assert workflow.rule("third") == Refusal(
        Mode.QUARANTINED,
        "half_open_probes: the quarantine is over and may be probed by first, second only",
        750,
    )


def test_nobody_in_particular_may_not_probe_beside_those_who_do() -> None:
    workflow = quarantined()
    workflow.wait(1800)
    assert refused(workflow.health, workflow.policy, None, workflow.now) is None, "somebody may"
    assert workflow.starts("first")
    assert refused(workflow.health, workflow.policy, None, workflow.now) is not None


@pytest.mark.parametrize("begins", [None, "r"])
def test_a_boot_that_was_not_seen_is_told_first_and_once(begins: str | None) -> None:
    now = Instant(1, 1, "new")
    ruling = rule(Health(), Policy(), now, 0, ended=False, begins=begins)
    assert ruling == Ruling((WorkflowBootSeen(boot_id="new"),))
    health = fold_health(Health(), ruling.payloads[0], now, 1)
    assert rule(health, Policy(), now, 1, ended=False, begins=begins) == Ruling()


def test_without_a_result_that_came_in_nothing_is_judged_again() -> None:
    workflow = Workflow()
    workflow.fail(2)
    workflow.append(WorkflowStepResult(run_id="r", step_id="a", result="failed", attempts=1))
    assert not rule(workflow.health, workflow.policy, workflow.now, 3, ended=False).payloads
    assert rule(workflow.health, workflow.policy, workflow.now, 3, ended=True).payloads


def test_a_step_may_begin_by_the_same_word_that_ends_another() -> None:
    workflow = Workflow()
    workflow.fail(9, step="a")
    workflow.append(WorkflowStepResult(run_id="r", step_id="a", result="failed", attempts=1))
    ruling = rule(
        workflow.health, workflow.policy, workflow.now, len(workflow.events), ended=True, begins="r"
    )
    (change,) = ruling.payloads
    assert isinstance(change, WorkflowModeChanged)
    assert ruling.refusal == Refusal(Mode.QUARANTINED, change.reason, 1800)


def test_the_end_of_a_mode_that_has_only_just_begun_names_the_event_that_began_it() -> None:
    policy = Policy(workflow_fail_max_in_window=1, quarantine_duration_s=0)
    told = WorkflowStepResult(run_id="r", step_id="a", result="failed", attempts=1)
    health = fold_health(Health(), told, NOW, 1)
    entered, ended, permit = rule(health, policy, NOW, 1, ended=True, begins="r").payloads
    assert isinstance(entered, WorkflowModeChanged) and entered.causes == (1,)
    assert isinstance(ended, WorkflowModeChanged) and ended.causes == (2,)
    assert permit == WorkflowProbePermitted(run_id="r")


@pytest.mark.parametrize(
    ("result", "counts", "ends"),
    [
        ("passed", True, True),
        ("recovered", True, True),
        ("passed", False, True),
        ("recovered", False, True),
        ("failed", True, True),
        ("failed", False, False),
        ("attempt_failed", True, False),
        ("cancelled", True, False),
        ("blocked", True, False),
    ],
)
def test_only_what_says_something_about_a_step_ends_it(result: str, counts: bool, ends: bool) -> None:
    told = WorkflowStepResult(run_id="r", step_id="a", result=result, attempts=1, counts=counts)
    assert ends_a_step(told) is ends


# Exactly what is remembered


def test_a_failure_is_remembered_with_its_place_its_step_its_run_and_its_kind() -> None:
    at = Instant(5, 6, "boot")
    told = WorkflowStepResult(
        run_id="run-1", step_id="build", result="failed", attempts=2, failure_kind=FailureKind.WALL_TIMEOUT
    )
    assert fold_health(Health(clean=4, recent="."), told, at, 7) == Health(
        streaks={"build": (7,)},
        failures=(FailedResult(Moment(7, at), "build", "run-1", FailureKind.WALL_TIMEOUT),),
        recent=".x",
        boots={"boot": Moment(7, at)},
    )


def test_a_result_that_did_not_fail_ends_its_own_streak_and_the_probing() -> None:
    at = Instant(5, 6, "boot")
    before = Health(
        mode=Mode.DEGRADED,
        half_open=True,
        streaks={"a": (1,), "b": (2,)},
        recent="xx",
        clean=2,
        permits=(Permit("r", Moment(2, at)),),
        boots={"boot": Moment(1, at)},
    )
    passed = WorkflowStepResult(run_id="r", step_id="a", result="passed", attempts=1)
    assert fold_health(before, passed, at, 3) == msgspec.structs.replace(
        before, half_open=False, streaks={"b": (2,)}, recent="xx.", clean=3
    )
    another = msgspec.structs.replace(passed, run_id="begun before")
    assert fold_health(before, another, at, 3).half_open


FULL = Health(
    mode=Mode.DEGRADED,
    since=Moment(2, NOW),
    streaks={"a": (3,)},
    failures=(FailedResult(Moment(3, NOW), "a", "r"),),
    counted_from=1,
    recent="x",
    clean=5,
    permits=(Permit("r", Moment(4, NOW)),),
    boots={"boot-1": Moment(1, NOW)},
)


@pytest.mark.parametrize("mode", list(Mode))
def test_entering_a_mode_takes_over_all_that_the_event_says(mode: Mode) -> None:
    told = WorkflowModeChanged(
        mode=mode,
        previous=Mode.DEGRADED,
        reason="why",
        causes=(3,),
        for_s=60,
        forced=True,
        half_open=True,
    )
    spent = mode in (Mode.QUARANTINED, Mode.RUNNING)
    assert fold_health(FULL, told, NOW, 9) == Health(
        mode=mode,
        since=Moment(9, NOW),
        for_s=60,
        forced=True,
        half_open=True,
        reason="why",
        causes=(3,),
        streaks={} if spent else FULL.streaks,
        failures=FULL.failures,
        counted_from=9 if spent else 1,
        recent="" if spent else "x",
        boots=FULL.boots,
    )


def test_a_second_permit_of_a_run_replaces_its_first() -> None:
    later = NOW.plus_s(1)
    health = fold_health(Health(boots=FULL.boots), WorkflowProbePermitted(run_id="r1"), NOW, 2)
    health = fold_health(health, WorkflowProbePermitted(run_id="r2"), NOW, 3)
    health = fold_health(health, WorkflowProbePermitted(run_id="r1"), later, 4)
    assert health.permits == (Permit("r2", Moment(3, NOW)), Permit("r1", Moment(4, later)))


def test_permits_are_remembered_in_a_limited_number_the_latest_ones() -> None:
    health = Health()
    for number in range(STEPS_MAX + 2):
        health = fold_health(health, WorkflowProbePermitted(run_id=f"r{number}"), NOW, number + 1)
    assert [permit.run_id for permit in health.permits] == [f"r{n}" for n in range(2, STEPS_MAX + 2)]


def test_a_boot_is_remembered_by_its_first_event_and_the_oldest_is_forgotten() -> None:
    health = Health()
    for number in range(BOOTS_MAX + 1):
        for again in range(2):
            at = Instant(number, again, f"b{number}")
            health = fold_health(health, UnknownPayload(), at, 2 * number + again + 1)
    assert health.boots == {
        f"b{n}": Moment(2 * n + 1, Instant(n, 0, f"b{n}")) for n in range(1, BOOTS_MAX + 1)
    }


def test_of_too_many_failures_the_latest_are_remembered() -> None:
    health = Health()
    for seq in range(1, FAILURES_MAX + 3):
        told = WorkflowStepResult(run_id="r", step_id="a", result="failed", attempts=1)
        health = fold_health(health, told, NOW, seq)
    latest = tuple(range(3, FAILURES_MAX + 3))
    assert health.streaks == {"a": latest}
    assert tuple(one.moment.seq for one in health.failures) == latest
    health = fold_health(
        health, WorkflowStepResult(run_id="r", step_id="b", result="passed", attempts=1), NOW, 999
    )
    assert health.recent == "x" * (FAILURES_MAX - 1) + "."


def test_of_too_many_steps_the_one_that_failed_longest_ago_is_forgotten() -> None:
    health = Health()
    steps = [f"s{number}" for number in range(STEPS_MAX)]
    for seq, step in enumerate([*steps, "s0", "new"], 1):
        told = WorkflowStepResult(run_id="r", step_id=step, result="failed", attempts=1)
        health = fold_health(health, told, NOW, seq)
    assert [*health.streaks] == [*steps[2:], "s0", "new"]
    assert health.streaks["s0"] == (1, STEPS_MAX + 1)


def test_a_workflow_of_which_nothing_is_known_has_counted_nothing() -> None:
    assert set(failure_counts(Health(), Policy(), NOW).values()) == {0}


def test_counts_look_no_further_back_than_the_thresholds_do() -> None:
    workflow = Workflow(Policy(workflow_count_min=3, workflow_count_window=3, workflow_fail_ratio=1))
    workflow.fail(step="a")
    workflow.wait(600)
    workflow.fail(step="b")
    workflow.result("passed", "c")
    workflow.fail(step="d")
    counts = failure_counts(workflow.health, workflow.policy, workflow.now)
    assert counts == {
        "stepStreak": 1,
        "failuresInWindow": 2,
        "failuresInCount": 2,
        "resultsCounted": 3,
        "cleanResults": 0,
        "probes": 0,
    }


def test_those_who_may_probe_are_counted_until_their_permits_end() -> None:
    workflow = quarantined(Policy(half_open_probes=2))
    workflow.wait(1800)
    assert workflow.starts("first")
    workflow.wait(10)
    assert workflow.starts("second")
    workflow.wait(889)
    assert failure_counts(workflow.health, workflow.policy, workflow.now)["probes"] == 2
    workflow.wait(1)
    assert failure_counts(workflow.health, workflow.policy, workflow.now)["probes"] == 1


# At the very edge


def test_a_mode_stands_with_what_is_left_of_it_and_then_as_what_it_ends_in() -> None:
    workflow = Workflow()
    workflow.force(Mode.QUARANTINED, for_s=60)
    workflow.wait(59.5)
    assert standing(workflow.health, workflow.now) == Standing(Mode.QUARANTINED, left_s=0.5)
    workflow.wait(0.5)
    assert standing(workflow.health, workflow.now) == Standing(Mode.DEGRADED, half_open=True, over=True)
    workflow.force(Mode.ROLLBACK, for_s=60)
    workflow.wait(60)
    assert standing(workflow.health, workflow.now) == Standing(Mode.DEGRADED, over=True)
    workflow.force(Mode.DEGRADED, for_s=60)
    workflow.wait(60)
    assert standing(workflow.health, workflow.now) == Standing(Mode.RUNNING, over=True)


def test_probing_that_has_a_time_is_probing_until_that_time() -> None:
    """No program of ours writes such an event; one that does is believed."""
    told = WorkflowModeChanged(
        mode=Mode.DEGRADED, previous=Mode.QUARANTINED, reason="", for_s=10, half_open=True
    )
    health = fold_health(Health(), told, NOW, 1)
    assert standing(health, NOW.plus_s(9)) == Standing(Mode.DEGRADED, half_open=True, left_s=1)


def test_a_forced_degraded_whose_time_is_over_is_left_to_the_next_start_not_to_clean_results() -> None:
    workflow = Workflow(Policy(degraded_clean_steps=1))
    workflow.force(Mode.DEGRADED, for_s=60)
    workflow.wait(60)
    workflow.result("passed")
    assert len(workflow.changes) == 1
    assert workflow.starts()
    assert workflow.changes[-1].reason == "degraded is over after 60 s"


def test_clean_results_of_a_running_workflow_change_nothing() -> None:
    workflow = Workflow(Policy(degraded_clean_steps=1))
    for _ in range(3):
        workflow.result("passed")
    assert not workflow.changes


def test_a_workflow_without_results_has_no_next_mode() -> None:
    assert next_mode(Health(), Policy(), NOW) is None


def test_a_streak_in_a_degraded_workflow_does_not_degrade_it_again() -> None:
    workflow = Workflow()
    workflow.fail(9)
    assert [change.mode for change in workflow.changes] == [Mode.DEGRADED]


def test_a_failure_exactly_as_old_as_the_window_counts_no_more() -> None:
    policy = Policy(workflow_fail_max_in_window=2, workflow_fail_window_s=60)
    for apart_s, mode in ((59.9, Mode.QUARANTINED), (60, Mode.RUNNING)):
        workflow = Workflow(policy)
        workflow.fail(step="a", every_s=apart_s)
        workflow.fail(step="b")
        assert workflow.mode() is mode


def test_the_failure_that_led_to_a_mode_counts_no_more_but_the_next_one_does() -> None:
    workflow = Workflow(Policy(workflow_fail_max_in_window=2))
    workflow.fail(2)
    assert workflow.mode() is Mode.QUARANTINED
    workflow.force(Mode.DEGRADED)
    workflow.fail()
    assert len(workflow.changes) == 2, "the two before are spent"
    workflow.fail()
    assert workflow.mode() is Mode.QUARANTINED


# Across boots


def test_a_permit_of_an_earlier_boot_ends_by_the_time_of_this_one() -> None:
    workflow = quarantined()
    workflow.wait(1800)
    assert workflow.starts("first")
    workflow.reboot(-HOUR_US)
    refusal = workflow.rule("second")
    assert isinstance(refusal, Refusal) and refusal.left_s == 900
    workflow.wait(899)
    assert not workflow.starts("second")
    workflow.wait(1)
    assert workflow.starts("second")


def test_of_two_clocks_the_one_that_saw_more_time_go_by_is_believed() -> None:
    """The machine was off for 20 minutes of the quarantine, and has been on for five."""
    workflow = quarantined()
    workflow.reboot(20 * 60 * 1_000_000)
    assert not workflow.starts()
    workflow.wait(300)
    assert standing(workflow.health, workflow.now).left_s == 300


def test_what_was_seen_first_in_this_boot_says_nothing_of_what_came_later() -> None:
    """A stream that two machines write to: boots alternate."""
    here, there = NOW, Instant(NOW.wall_us, 7_000_000, "boot-2")
    health = fold_health(Health(), UnknownPayload(), here, 1)
    paused = WorkflowModeChanged(mode=Mode.PAUSED, previous=Mode.RUNNING, reason="", for_s=600)
    health = fold_health(health, paused, there, 2)
    assert standing(health, Instant(here.wall_us, here.boot_us + 500_000_000, "boot-1")).left_s == 600


# All workflows, exactly


def test_the_pause_of_all_names_the_five_that_failed_most_and_the_policy() -> None:
    healths = {
        name: failing(name, times, NOW)[name] for name, times in zip("abcdef", range(4, 10), strict=True)
    }
    change = next_global_mode(Health(mode=Mode.DEGRADED), healths, GLOBAL, NOW, "sha256:p")
    assert change == WorkflowModeChanged(
        mode=Mode.PAUSED,
        previous=Mode.DEGRADED,
        reason="global_fail_max_in_window: 39 failed steps in 6 workflows within 600 s (f, e, d, c, b)",
        causes_elsewhere={name: tuple(one.moment.seq for one in healths[name].failures) for name in "fedcba"},
        policy_digest="sha256:p",
    )


def test_workflows_in_which_nothing_failed_lately_are_not_counted_among_those_that_did() -> None:
    healths = failing("ab", 15, NOW) | {"quiet": Health()}
    assert next_global_mode(Health(), healths, GLOBAL, NOW) is None


def test_a_failure_at_the_very_moment_all_were_let_go_does_not_count_and_a_later_one_does() -> None:
    for later_s, paused in ((0, False), (1, True)):
        everywhere = Workflow()
        everywhere.append(WorkflowModeChanged(mode=Mode.RUNNING, previous=Mode.PAUSED, reason="mended"))
        healths = failing("abc", 10, everywhere.now.plus_s(later_s))
        change = next_global_mode(everywhere.health, healths, GLOBAL, everywhere.now.plus_s(2))
        assert (change is not None) is paused


@pytest.mark.parametrize("mode", [Mode.PAUSED, Mode.RUNNING])
def test_when_the_time_of_an_operators_word_is_over_all_may_be_paused_again(mode: Mode) -> None:
    everywhere = Workflow()
    everywhere.now = NOW.plus_s(-60)
    everywhere.force(mode, for_s=60)
    assert next_global_mode(everywhere.health, failing("abc", 10, NOW), GLOBAL, NOW.plus_s(-1)) is None
    assert next_global_mode(everywhere.health, failing("abc", 10, NOW), GLOBAL, NOW) is not None


def test_failures_in_all_workflows_leave_the_window_across_boots_too() -> None:
    healths = failing("abc", 10, NOW)
    rebooted = Instant(NOW.wall_us + 599_000_000, 1_000_000, "boot-2")
    assert next_global_mode(Health(), healths, GLOBAL, rebooted) is not None
    assert next_global_mode(Health(), healths, GLOBAL, rebooted.plus_s(1)) is None


def test_that_all_were_let_go_in_an_earlier_boot_still_tells_old_failures_from_new_ones() -> None:
    everywhere = Workflow()
    everywhere.now = NOW.plus_s(60)
    everywhere.append(WorkflowModeChanged(mode=Mode.RUNNING, previous=Mode.PAUSED, reason="mended"))
    rebooted = Instant(NOW.wall_us + 120_000_000, 1_000_000, "boot-2")
    assert next_global_mode(everywhere.health, failing("abc", 10, NOW), GLOBAL, rebooted) is None
    new = failing("abc", 10, NOW.plus_s(90))
    assert next_global_mode(everywhere.health, new, GLOBAL, rebooted) is not None
