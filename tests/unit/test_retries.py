"""What a plan says about retries beats what the classes of failures say; budgets and safety beat the plan."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.cli.check import attempts_words
from recoup.documents.plan_file import parse_plan
from recoup.errors import InvalidPlan
from recoup.kernel.backoff import backoff_ms
from recoup.kernel.decide import decide
from recoup.kernel.policies import step_policy
from recoup.kernel.progress import mark_of, remember
from recoup.model.decision import Decision, Escalate, GiveUp, HardReset, Retry, SoftReset
from recoup.model.failure import Facts, Failure, FailureClass, FailureKind
from recoup.model.instant import Instant
from recoup.model.policy import ATTEMPTS_MAX, Policy
from recoup.model.run import Mark, StepState

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")
UNKNOWN = FailureClass.UNKNOWN


def policy_of(step: str, defaults: str = "{}", policy: Policy | None = None) -> Policy:
    plan = parse_plan(f"{{version: 1, name: w, defaults: {defaults}, steps: [{{run: x, {step}}}]}}")
    return step_policy(policy or Policy(), plan, plan.steps[0])


def failure(
    kind: FailureKind = FailureKind.EXIT_NONZERO, cls: FailureClass = UNKNOWN, **keys: object
) -> Failure:
    facts = Facts(kind=kind, output_hash="sha256:o")
    base = Failure(kind=kind, cls=cls, signature="v1:a", summary="exit code 1", facts=facts)
    return msgspec.structs.replace(base, **keys)


def decisions(policy: Policy, *failures: Failure, **keys: object) -> list[Decision]:
    """The loop without its effects, until it ends."""
    made: list[Decision] = []
    earlier: tuple[Mark, ...] = ()
    resets = unknown = 0
    for attempt, one in enumerate(failures, 1):
        unknown += one.cls is UNKNOWN
        state = StepState(
            attempt=attempt,
            attempts_in_delivery=attempt,
            earlier=earlier,
            unknown_failures=unknown,
            resets=resets,
            retries=attempt - 1,
        )
        made.append(decide(msgspec.structs.replace(state, **keys), one, policy, NOW))
        if isinstance(made[-1], GiveUp | Escalate):
            break
        resets += isinstance(made[-1], HardReset)
        earlier = remember(earlier, mark_of(one), policy.no_progress_window)
    return made


def attempts(policy: Policy, one: Failure, **keys: object) -> int:
    made = decisions(policy, *[one] * (ATTEMPTS_MAX + 1), **keys)
    assert isinstance(made[-1], GiveUp | Escalate)
    return len(made)


@pytest.mark.parametrize("cls", [cls for cls in FailureClass if not cls.is_deterministic])
@pytest.mark.parametrize("key", ["max_attempts: 5", "retry: {attempts: 5}"])
def test_a_number_of_attempts_means_that_many_of_every_failure_that_may_pass(
    cls: FailureClass, key: str
) -> None:
    assert attempts(policy_of(key), failure(cls=cls)) == 5
    assert attempts(policy_of("title: t", defaults=f"{{{key}}}"), failure(cls=cls)) == 5


def test_a_hard_reset_still_happens_within_the_attempts_where_it_helps() -> None:
    made = decisions(policy_of("max_attempts: 5"), *[failure()] * 6, can_hard_reset=True)
    assert [type(one) for one in made] == [SoftReset, HardReset, SoftReset, SoftReset, GiveUp]


def test_without_a_word_of_the_plan_the_classes_decide() -> None:
    assert attempts(policy_of("title: t"), failure()) == 2
    assert attempts(policy_of("title: t", policy=Policy(step_max_attempts=5)), failure()) == 2


def test_a_plan_that_says_when_a_step_counts_as_stuck_is_believed() -> None:
    assert attempts(policy_of("max_attempts: 5, no_progress_limit: 3"), failure()) == 3
    assert attempts(policy_of("no_progress_limit: 3", defaults="{max_attempts: 5}"), failure()) == 3
    assert attempts(policy_of("max_attempts: 5", defaults="{no_progress_limit: 3}"), failure()) == 5


@pytest.mark.parametrize("key", ["max_attempts: 5", "retry: {attempts: 5, on: any}"])
def test_a_deterministic_failure_is_retried_only_where_the_plan_names_it(key: str) -> None:
    broken = failure(FailureKind.OUTPUT_INVALID, FailureClass.DETERMINISTIC_CONTRACT)
    assert attempts(policy_of(key), broken) == 1
    assert attempts(policy_of("retry: {attempts: 5, on: [deterministic_contract]}"), broken) == 5
    assert attempts(policy_of("retry: {attempts: 5, on: [output_invalid]}"), broken) == 5
    (*_, last) = decisions(policy_of("retry: {attempts: 2, on: [output_invalid]}"), broken, broken)
    assert isinstance(last, GiveUp) and last.cls is broken.cls and not last.redeliver


def test_what_on_does_not_name_is_not_retried_in_any_way() -> None:
    policy = policy_of("retry: {attempts: 5, on: [connection_lost, cooldown]}")
    assert attempts(policy, failure(FailureKind.CONNECTION_LOST, FailureClass.TRANSIENT_RUNTIME)) == 5
    assert attempts(policy, failure(FailureKind.RATE_LIMITED, FailureClass.COOLDOWN)) == 5
    (only,) = decisions(policy, failure(FailureKind.WALL_TIMEOUT, FailureClass.TRANSIENT_RUNTIME))
    reason = "retry.on: names connection_lost, cooldown, and this is wall_timeout (transient_runtime)"
    assert only == GiveUp(reason, FailureClass.TRANSIENT_RUNTIME, redeliver=False, exhausted=False)


def test_a_step_without_progress_says_how_many_attempts_are_left() -> None:
    (*_, third) = decisions(policy_of("max_attempts: 5"), *[failure()] * 3, can_hard_reset=False)
    assert third.reason == "no progress: 2 attempts ended alike, and the plan allows 2 more"
    assert isinstance(third, SoftReset) and third.cls is FailureClass.STUCK_NO_PROGRESS


def test_a_lost_driver_is_not_a_failure_of_the_step() -> None:
    lost = failure(FailureKind.DRIVER_LOST, FailureClass.TRANSIENT_RUNTIME)
    assert attempts(policy_of("retry: {attempts: 5, on: [unknown]}"), lost) == 5


@pytest.mark.parametrize("on", ["any", "[unknown, deterministic_contract, exit_nonzero]", "[cooldown]"])
def test_nothing_repeats_a_step_that_must_not_be_repeated_with_an_unknown_outcome(on: str) -> None:
    policy = policy_of(f"repeat: never, retry: {{attempts: 9, on: {on}}}")
    (only,) = decisions(policy, failure(outcome_known=False), may_repeat=False)
    assert isinstance(only, Escalate)


def test_the_totals_of_the_run_and_of_the_workflow_still_hold() -> None:
    assert attempts(policy_of("max_attempts: 50", policy=Policy(run_retries_max=7)), failure()) == 8
    assert attempts(policy_of("max_attempts: 50"), failure(), retry_tokens=49) == 1


def test_waits_are_as_the_plan_says() -> None:
    def waits(policy: Policy) -> list[int]:
        return [backoff_ms(attempt, policy) for attempt in range(1, 5)]

    assert waits(policy_of("retry: {attempts: 5, delay: 30s}")) == [30_000] * 4
    assert waits(policy_of("retry: {delay: 30s, backoff: 2}")) == [30_000, 60_000, 120_000, 240_000]
    assert waits(policy_of("retry: {delay: 10m, backoff: 1.5}")) == [600_000, 900_000, 1_350_000, 2_025_000]
    assert waits(policy_of("retry: {backoff: 1}")) == [500] * 4
    assert waits(policy_of("max_attempts: 5")) == [500, 1_000, 2_000, 4_000]
    assert waits(policy_of("retry: {attempts: 2}", "{retry: {delay: 3s}}")) == [3_000] * 4


@given(st.integers(1, 100), st.floats(1, 10), st.integers(0, 86_400_000))
def test_a_wait_never_gets_shorter_nor_longer_than_a_day(attempt: int, factor: float, delay_ms: int) -> None:
    policy = Policy(backoff_ms=delay_ms, backoff_factor=factor, backoff_cap_ms=86_400_000)
    assert delay_ms <= backoff_ms(attempt, policy) <= backoff_ms(attempt + 1, policy) <= 86_400_000


def test_a_cooldown_waits_as_told_and_not_as_the_plan_says() -> None:
    limited = failure(FailureKind.RATE_LIMITED, FailureClass.COOLDOWN)
    limited = msgspec.structs.replace(limited, facts=msgspec.structs.replace(limited.facts, retry_after_s=90))
    (first, *_) = decisions(policy_of("retry: {attempts: 3, delay: 1s}"), limited)
    assert isinstance(first, Retry) and first.delay_ms == 90_000


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("max_attempts: 3, retry: {attempts: 5}", "say the number of attempts once"),
        ("retry: {}", "must say `attempts`, `delay`, `backoff` or `on`"),
        ("retry: {attempts: 0}", "at least 1"),
        ("retry: {attempts: 101}", "at most 100"),
        ("retry: {delay: soon}", "must be a duration such as"),
        ("retry: {delay: 2d}", "at most 1 days"),
        ("retry: {backoff: 0.5}", "at least 1"),
        ("retry: {on: []}", "at least one"),
        ("retry: {on: [unknwon]}", "unknown"),
        ("retry: {on: sometimes}", "any"),
        ("retry: {on: [cancelled]}", "is not a kind or class of failure"),
        ("retry: {retries: 3}", "attempts"),
    ],
)
def test_what_cannot_be_meant_is_refused(step: str, words: str) -> None:
    with pytest.raises(InvalidPlan) as refused:
        policy_of(step)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("title: t", "up to 3 attempts (2 if the failure is not recognised)"),
        ("max_attempts: 5", "up to 5 attempts"),
        ("max_attempts: 1", "1 attempt"),
        ("max_attempts: 50", "up to 21 attempts (run_retries_max)"),
        ("max_attempts: 5, no_progress_limit: 2", "up to 5 attempts (fewer if 2 end alike)"),
        ("retry: {attempts: 3, delay: 30s}", "up to 3 attempts, 30 s apart"),
        ("retry: {attempts: 4, delay: 30s, backoff: 2}", "up to 4 attempts, 30 s to 2 min apart"),
        ("retry: {attempts: 3, on: [unknown]}", "up to 3 attempts (only of unknown)"),
    ],
)
def test_a_check_tells_how_many_attempts_there_will_be(step: str, words: str) -> None:
    plan = parse_plan(f"{{version: 1, name: w, steps: [{{run: x, {step}}}]}}")
    assert attempts_words(step_policy(Policy(), plan, plan.steps[0])) == words
