"""What a workflow's mode means for its runs, for an operator, and for those who look at it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.altered import altered

from recoup.kernel.breaker import fold_health
from recoup.kernel.fold import submitted
from recoup.kernel.healing import floors, level, needs_proof
from recoup.kernel.memory import may_learn
from recoup.kernel.modes import FORCIBLE, Caution, calls_for_report, caution, forced_change, mode_document
from recoup.model.events import RunSubmitted, TargetHealed, WorkflowModeChanged, WorkflowStepResult
from recoup.model.failure import FailureKind
from recoup.model.instant import Instant
from recoup.model.mode import Health, Mode
from recoup.model.plan import ExitCheck, Plan, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import DriverState, RunStatus
from recoup.model.target import Element

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")


def test_a_running_workflow_is_as_free_as_the_policy_allows() -> None:
    assert caution(Mode.RUNNING, Policy()) == Caution(0.72, 0.0, 2, learning=True)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.RUNNING])
def test_in_every_other_mode_runs_are_strict_and_learn_nothing(mode: Mode) -> None:
    assert caution(mode, Policy()) == Caution(0.82, 0.08, 0, learning=False)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.RUNNING])
def test_a_policy_may_allow_learning_in_degraded_mode_and_in_no_stopped_one(mode: Mode) -> None:
    policy = Policy(disable_learning_in_degraded=False)
    assert caution(mode, policy).learning is (mode is Mode.DEGRADED)


SHARES = st.floats(0.0, 1.0)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """As a policy file may be: the floor in degraded mode is never below the other."""
    normal, degraded = sorted((draw(SHARES), draw(SHARES)))
    return Policy(
        min_confidence_normal=normal,
        min_confidence_degraded=degraded,
        min_margin_top1_top2_degraded=draw(SHARES),
        learn_confidence_min=draw(SHARES),
        heal_level_max=draw(st.integers(0, 2)),
    )


HEALS = st.builds(
    TargetHealed,
    step_id=st.just("step"),
    step_index=st.just(0),
    attempt=st.just(1),
    run_id=st.just("run"),
    target=st.just("it"),
    verified=st.booleans(),
    confidence=SHARES,
    margin=SHARES,
    found_by=st.sampled_from(("model", "memory", "alias", "lesson")),
    after=st.sampled_from(
        (None, Element(tag="button", text="OK"), Element(tag="button", text="Pay", id="pay"))
    ),
)
CAUTIOUS = st.sampled_from([mode for mode in Mode if mode is not Mode.RUNNING])


@settings(deadline=None)
@given(policies(), HEALS, CAUTIOUS, st.integers(0, 9), st.booleans())
def test_a_workflow_that_is_not_well_asks_for_more_and_learns_nothing(
    policy: Policy, heal: TargetHealed, mode: Mode, attempts: int, proves: bool
) -> None:
    """Seed 001, Property 3, degraded mode safety: for any workflow in DEGRADED state, all execution decisions should use
    increased confidence thresholds and learning updates should be disabled."""
    well, cautious = floors(Mode.RUNNING, policy), floors(mode, policy)
    assert cautious.confidence >= well.confidence and cautious.margin >= well.margin
    assert cautious.confidence == policy.min_confidence_degraded
    step = Step(id="step", action=RunAction("true"), expect=(ExitCheck((0,)),) if proves else ())
    plan = Plan(name="w", steps=(step,))
    assert level(step, plan, attempts, mode, policy) == 0 <= level(step, plan, attempts, Mode.RUNNING, policy)
    assert needs_proof(step, mode) is not proves and not needs_proof(step, Mode.RUNNING)
    assert not may_learn(heal, mode, policy, wanted=True)
    shown = mode_document("w", Health(mode=mode), policy, NOW)
    assert (shown.confidence_floor, shown.learning_enabled) == (policy.min_confidence_degraded, False)
    lenient = msgspec.structs.replace(policy, disable_learning_in_degraded=False)
    assert not may_learn(heal, mode, lenient, wanted=True) or mode is Mode.DEGRADED, (
        "only somebody's word allows it"
    )


@pytest.mark.parametrize("mode", FORCIBLE)
@pytest.mark.parametrize("for_s", [None, 60.0])
def test_an_operators_word_lasts_as_told_and_a_quarantine_never_for_ever(
    mode: Mode, for_s: float | None
) -> None:
    change = forced_change(Health(mode=Mode.PAUSED), mode, "why", "ann", for_s, Policy(), "sha256:p")
    quarantine = mode is Mode.QUARANTINED and for_s is None
    assert change == WorkflowModeChanged(
        mode=mode,
        previous=Mode.PAUSED,
        reason="why",
        for_s=1800 if quarantine else for_s,
        forced=not (mode is Mode.RUNNING and for_s is None),
        actor="ann",
        policy_digest="sha256:p",
    )


def test_a_rollback_cannot_be_forced() -> None:
    with pytest.raises(AssertionError, match="rollback cannot be forced"):
        forced_change(Health(), Mode.ROLLBACK, "why", "ann", None, Policy(), "sha256:p")


@pytest.mark.parametrize(
    ("status", "delivery", "mode", "reported"),
    [
        (RunStatus.ESCALATED, 1, Mode.RUNNING, True),
        (RunStatus.DEAD_LETTER, 3, Mode.RUNNING, True),
        (RunStatus.FAILED, 1, Mode.RUNNING, False),
        (RunStatus.FAILED, 1, Mode.DEGRADED, False),
        (RunStatus.FAILED, 1, Mode.PAUSED, False),
        (RunStatus.FAILED, 1, Mode.QUARANTINED, True),
        (RunStatus.BLOCKED, 1, Mode.ROLLBACK, True),
        (RunStatus.BLOCKED, 0, Mode.QUARANTINED, False),
    ],
)
def test_a_report_is_written_for_what_a_person_will_want_to_know(
    status: RunStatus, delivery: int, mode: Mode, reported: bool
) -> None:
    first = RunSubmitted(
        workflow="w",
        plan_digest="d",
        plan=Plan(name="w", steps=()),
        plan_redacted=False,
        inputs={},
        policy_digest="p",
    )
    driver = DriverState(delivery=delivery, started_at=NOW if delivery else None)
    state = altered(submitted("r", first, NOW), status=status, driver=driver)
    assert calls_for_report(state, mode) is reported


def test_a_workflow_of_which_nothing_is_known_is_shown_as_running() -> None:
    shown = msgspec.to_builtins(mode_document("w", Health(), Policy(), NOW))
    counters = shown.pop("counters")
    assert set(counters.values()) == {0}
    assert shown == {
        "workflow": "w",
        "mode": "running",
        "since": None,
        "until": None,
        "reason": "",
        "causes": [],
        "forced": False,
        "halfOpen": False,
        "countersAtChange": None,
        "lastFailure": None,
        "confidenceFloor": 0.72,
        "marginMin": 0.0,
        "toleranceLevelMax": 2,
        "learningEnabled": True,
        "unreadable": None,
    }


def test_a_stopped_workflow_is_shown_with_its_causes_its_end_and_its_last_failure() -> None:
    failed = WorkflowStepResult(
        run_id="r1", step_id="build", result="failed", attempts=3, failure_kind=FailureKind.WALL_TIMEOUT
    )
    health = fold_health(Health(), failed, NOW, 1)
    entered = WorkflowModeChanged(
        mode=Mode.QUARANTINED, previous=Mode.RUNNING, reason="why", causes=(1,), for_s=100, forced=True
    )
    health = fold_health(health, entered, NOW, 2)
    shown = mode_document("w", health, Policy(), NOW.plus_s(40))
    assert shown.mode == "quarantined"
    assert (shown.since, shown.until) == (NOW.iso(), NOW.plus_s(100).iso())
    assert (shown.reason, shown.causes, shown.forced) == ("why", [1], True)
    assert msgspec.to_builtins(shown.last_failure) == {
        "at": NOW.iso(),
        "runId": "r1",
        "stepId": "build",
        "failureKind": "wall_timeout",
    }
    over = mode_document("w", health, Policy(), NOW.plus_s(100))
    assert (over.mode, over.until, over.forced, over.half_open) == ("degraded", None, False, True)
