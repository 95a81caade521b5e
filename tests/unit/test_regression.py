"""More steps fail since something was learned: what follows, and when nothing does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.kernel.breaker import ROLLBACK_S, fold_health, next_mode, regression, standing
from recoup.kernel.memory import TargetMemory, rollback, snapshot_before
from recoup.model.events import (
    MemoryRollback,
    MemorySnapshot,
    Payload,
    WorkflowModeChanged,
    WorkflowStepResult,
)
from recoup.model.instant import Instant
from recoup.model.memory import number_of
from recoup.model.mode import Health, Mode
from recoup.model.policy import FAILURES_MAX, Policy

START = Instant(1_000_000, 1_000_000, "boot")
POLICY = Policy(
    regression_window_steps=10,
    step_fail_streak_to_degraded=100,
    workflow_fail_max_in_window=200,
    workflow_count_min=200,
)
SNAPSHOT = MemorySnapshot(version="v000007", digest="", entries=3)


def after(*payloads: Payload, health: Health | None = None) -> Health:
    folded = health or Health()
    for number, payload in enumerate(payloads, 1):
        folded = fold_health(folded, payload, START, number)
    return folded


def results(told: str) -> list[Payload]:
    return [
        WorkflowStepResult(
            run_id="r", step_id=f"s{n}", attempts=1, result="failed" if one == "x" else "passed"
        )
        for n, one in enumerate(told)
    ]


@pytest.mark.parametrize(
    ("before", "since", "is_worse"),
    [
        ("." * 10, ".....xx.x.x"[-10:], True),
        ("." * 10, "........xx", True),
        ("." * 10, ".........x", False),
        ("xx" + "." * 8, "........xx", False),
        ("xxx" + "." * 7, "........xx", False),
        ("", "........xx", True),
        ("." * 10, "xxxxxxxxx", False),
    ],
    ids=["worse", "at the limit", "below it", "as before", "better", "nothing before", "too few"],
)
def test_what_was_learned_is_taken_back_when_more_fails_with_it(
    before: str, since: str, is_worse: bool
) -> None:
    health = after(*results(before), SNAPSHOT, *results(since))
    assert (regression(health, POLICY) is not None) is is_worse


def test_the_mode_says_so_for_a_moment_and_goes_on_with_care() -> None:
    health = after(*results("." * 10), SNAPSHOT, *results("........xx"))
    change = next_mode(health, POLICY, START)
    assert change is not None and change.mode is Mode.ROLLBACK and change.for_s == ROLLBACK_S
    assert "20% of the last 10" in change.reason and "0% before v000007" in change.reason
    back = after(change, health=health)
    assert back.lesson is not None and back.lesson.due and regression(back, POLICY) is None
    assert standing(back, START).mode is Mode.ROLLBACK
    assert standing(back, START.plus_s(ROLLBACK_S + 1)).mode is Mode.DEGRADED
    done, then = rollback(TargetMemory(), back, POLICY)
    assert (done.to_version, done.failed_ratio, done.failed_ratio_before) == ("v000007", 0.2, 0.0)
    assert then.mode is Mode.DEGRADED and "v000007" in then.reason
    assert after(done, then, health=back).lesson is None


def test_nothing_is_taken_back_where_the_policy_says_so_or_nothing_was_learned() -> None:
    health = after(*results("." * 10), SNAPSHOT, *results("........xx"))
    assert regression(health, Policy(regression_window_steps=10, rollback_on_regression=False)) is None
    assert regression(after(*results("x" * 20)), POLICY) is None


def test_another_mode_takes_nothing_back() -> None:
    change = WorkflowModeChanged(mode=Mode.ROLLBACK, previous=Mode.RUNNING, reason="by nobody")
    assert after(change).lesson is None
    quarantined = WorkflowModeChanged(mode=Mode.QUARANTINED, previous=Mode.RUNNING, reason="much failed")
    lesson = after(SNAPSHOT, quarantined).lesson
    assert lesson is not None and not lesson.due


@settings(deadline=None)
@given(st.text("x.", max_size=300), st.text("x.", max_size=300))
def test_only_the_last_results_count_and_they_are_few(before: str, since: str) -> None:
    health = after(*results(before), SNAPSHOT, *results(since))
    assert health.lesson is not None
    assert health.lesson.before == before[-FAILURES_MAX:] and health.lesson.since == since[-FAILURES_MAX:]
    window = since[-10:]
    worse = len(window) == 10 and window.count("x") >= 2
    worse &= window.count("x") / 10 > (before[-10:].count("x") / len(before[-10:]) if before else 0)
    assert (regression(health, POLICY) is not None) is worse


def test_versions_are_numbered_on_and_say_how_it_went() -> None:
    memory = TargetMemory()
    first = snapshot_before(memory, after(*results("...x")), POLICY)
    assert (first.version, first.success_rate_before) == ("v000001", 0.75)
    memory.add(MemorySnapshot(version="v000041", digest="", entries=0))
    assert memory.snapshot_due(10) is False and memory.version_name == "v000041"
    assert snapshot_before(memory, Health(), POLICY).version == "v000042"
    assert snapshot_before(memory, Health(), POLICY).success_rate_before is None
    memory.add(MemoryRollback(from_version="v000041", to_version="v000002", reason="worse"))
    assert memory.version_name == "v000002"
    assert snapshot_before(memory, Health(), POLICY).version == "v000042", "a number is used once"
    assert number_of("vx") == 0
