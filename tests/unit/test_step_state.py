"""What a decision may know of a run."""

from __future__ import annotations

import pytest
from tests.altered import altered

from recoup.kernel.fold import submitted
from recoup.kernel.step_state import step_state, tokens_left
from recoup.model.events import RunSubmitted
from recoup.model.failure import FailureClass
from recoup.model.instant import Instant
from recoup.model.plan import Plan, Repeat, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import Clocks, Mark, OpenAttempt, RecoveryCounts, RunState, SpentAttempts, StepState
from recoup.model.workspace import Baseline

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")


def run_of(repeat: Repeat) -> RunState:
    plan = Plan(name="w", steps=(Step(id="s", action=RunAction("x"), repeat=repeat),))
    first = RunSubmitted(
        workflow="w", plan_digest="d", plan=plan, plan_redacted=False, inputs={}, policy_digest="p"
    )
    return submitted("r", first, NOW)


def test_the_attempt_that_has_just_failed_is_counted_in() -> None:
    marks = tuple(Mark(f"v1:{n}", None, None, 0) for n in range(6))
    run = altered(
        run_of(Repeat.SAFE),
        counts=RecoveryCounts(resets=1, retries=4),
        clocks=Clocks(active_s=7.5, active_since=NOW),
        workspaces__baseline=Baseline("t", "m"),
    )
    record = altered(
        run.steps[0],
        spent=SpentAttempts(attempts=5, attempts_in_delivery=2, unknown_failures=1, marks=marks),
        open=OpenAttempt(6, 1, None, False, NOW),
    )
    assert step_state(run, record, FailureClass.UNKNOWN, Policy(no_progress_window=4), 12.5) == StepState(
        attempt=6,
        attempts_in_delivery=3,
        earlier=marks[2:],
        unknown_failures=2,
        resets=1,
        retries=4,
        active_s=7.5,
        active_since=NOW,
        can_hard_reset=True,
        may_repeat=True,
        retry_tokens=12.5,
    )


def test_an_attempt_that_is_not_open_has_the_next_number() -> None:
    run = run_of(Repeat.NEVER)
    record = altered(run.steps[0], spent__attempts=2)
    state = step_state(run, record, FailureClass.TRANSIENT_RUNTIME, Policy(), None)
    assert state == StepState(attempt=3, attempts_in_delivery=1, may_repeat=False)


@pytest.mark.parametrize(("spent", "left"), [(0, 99), (49.5, 49.5), (99, 0)])
def test_the_failure_that_is_decided_about_has_cost_its_token(spent: float, left: float) -> None:
    assert tokens_left(Policy(retry_tokens=100), spent) == left
