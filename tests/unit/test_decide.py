"""What follows a failed attempt. Seed 002 §§6-9, 12; the design's decisions on attempts, classes and budgets."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.backoff import backoff_ms, cooldown_ms, delivery_backoff_s
from recoup.kernel.decide import decide
from recoup.kernel.progress import equal_attempts, mark_of, remember
from recoup.model.decision import Decision, Escalate, GiveUp, HardReset, Retry, SoftReset
from recoup.model.failure import Facts, Failure, FailureClass, FailureKind
from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import Mark, StepState

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")
STARTED = Instant(NOW.wall_us - 60_000_000, NOW.boot_us - 60_000_000, "boot")
RETRYABLE = [c for c in FailureClass if not c.is_deterministic]


def failure(
    cls: FailureClass = FailureClass.TRANSIENT_RUNTIME, signature: str = "v1:a", **changes: object
) -> Failure:
    facts = Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1, diff_hash=None, output_hash="sha256:o")
    base = Failure(kind=facts.kind, cls=cls, signature=signature, summary="exit code 1", facts=facts)
    return msgspec.structs.replace(base, **changes)


def state(attempt: int = 1, **changes: object) -> StepState:
    base = StepState(
        attempt=attempt,
        attempts_in_delivery=attempt,
        active_since=STARTED,
        can_hard_reset=True,
        retry_tokens=99,
    )
    return msgspec.structs.replace(base, **changes)


marks = st.builds(
    Mark,
    signature=st.sampled_from(["v1:a", "v1:b", "v1:c"]),
    diff_hash=st.sampled_from([None, "sha256:d", "sha256:e"]),
    output_hash=st.sampled_from([None, "sha256:o", "sha256:p"]),
    tolerance_level=st.integers(0, 2),
)
states = st.builds(
    StepState,
    attempt=st.integers(1, 30),
    attempts_in_delivery=st.integers(1, 8),
    earlier=st.lists(marks, max_size=8).map(tuple),
    unknown_failures=st.integers(0, 4),
    resets=st.integers(0, 3),
    retries=st.integers(0, 25),
    active_s=st.floats(0, 100_000),
    active_since=st.sampled_from([None, STARTED, Instant(0, 0, "another boot")]),
    can_hard_reset=st.booleans(),
    may_repeat=st.booleans(),
    retry_tokens=st.one_of(st.none(), st.floats(-10, 100)),
)
failures = st.builds(
    Failure,
    kind=st.sampled_from(list(FailureKind)),
    cls=st.sampled_from(list(FailureClass)),
    signature=st.sampled_from(["v1:a", "v1:b"]),
    summary=st.just("went wrong"),
    facts=st.builds(
        Facts,
        kind=st.just(FailureKind.EXIT_NONZERO),
        diff_hash=st.sampled_from([None, "sha256:d"]),
        output_hash=st.sampled_from([None, "sha256:o"]),
        retry_after_s=st.one_of(st.none(), st.floats(-5, 1e9)),
    ),
    outcome_known=st.booleans(),
)
policies = st.builds(
    Policy,
    step_max_attempts=st.integers(1, 8),
    step_no_progress_limit=st.integers(2, 4),
    job_self_heal_max_resets=st.integers(0, 3),
    run_retries_max=st.integers(0, 25),
    polls=st.booleans(),
)


@given(states, failures, policies)
def test_every_decision_has_a_reason_and_a_class(s: StepState, f: Failure, p: Policy) -> None:
    decision = decide(s, f, p, NOW)
    assert decision.reason
    assert decision.cls in FailureClass


@given(states, failures, policies)
def test_no_decision_exceeds_a_budget(s: StepState, f: Failure, p: Policy) -> None:
    """Seed 002 §8: bounded retries; the design: a run has totals too."""
    decision = decide(s, f, p, NOW)
    if isinstance(decision, Retry | SoftReset | HardReset):
        assert s.attempts_in_delivery < p.step_max_attempts
        assert s.retries < p.run_retries_max
        assert s.retry_tokens is None or s.retry_tokens >= p.retry_tokens / 2
        assert 0 <= decision.delay_ms <= max(p.backoff_cap_ms, 1000 * p.cooldown_max_seconds)
    if isinstance(decision, HardReset):
        assert s.resets < p.job_self_heal_max_resets
        assert s.can_hard_reset


@given(states, failures, policies)
def test_a_deterministic_failure_is_never_tried_again(s: StepState, f: Failure, p: Policy) -> None:
    """Seed 002 §7.2; a deterministic class is never overridden by no-progress."""
    decision = decide(s, f, p, NOW)
    if f.cls.is_deterministic:
        assert isinstance(decision, GiveUp)
        assert decision.cls is f.cls
        assert not decision.redeliver


@given(states, failures, policies)
def test_only_redelivered_classes_are_given_another_delivery(s: StepState, f: Failure, p: Policy) -> None:
    decision = decide(s, f, p, NOW)
    if isinstance(decision, GiveUp) and decision.redeliver:
        assert decision.cls in p.redeliver_classes


@given(states, failures, policies)
def test_an_unknown_outcome_of_a_step_that_must_not_repeat_goes_to_a_person(
    s: StepState, f: Failure, p: Policy
) -> None:
    decision = decide(
        msgspec.structs.replace(s, may_repeat=False), msgspec.structs.replace(f, outcome_known=False), p, NOW
    )
    assert isinstance(decision, Escalate | GiveUp)
    assert isinstance(decision, Escalate) or f.cls.is_deterministic


@given(states, failures, policies)
def test_deciding_again_gives_the_same_decision(s: StepState, f: Failure, p: Policy) -> None:
    assert decide(s, f, p, NOW) == decide(s, f, p, NOW)


@pytest.mark.parametrize("cls", RETRYABLE)
def test_the_first_failure_of_a_retryable_class_is_tried_again_softly(cls: FailureClass) -> None:
    decision = decide(state(), failure(cls), Policy(), NOW)
    assert isinstance(decision, Retry if cls is FailureClass.COOLDOWN else SoftReset)


def test_two_equal_attempts_lead_to_a_hard_reset_and_a_third_attempt() -> None:
    """step_no_progress_limit = 2: attempt 2 equal to attempt 1 trips; the first of equal attempts counts."""
    same = failure(FailureClass.UNKNOWN)
    decision = decide(state(2, earlier=(mark_of(same),), unknown_failures=2), same, Policy(), NOW)
    assert isinstance(decision, HardReset)
    assert decision.cls is FailureClass.STUCK_NO_PROGRESS


@pytest.mark.parametrize(
    "other",
    [
        failure(signature="v1:b"),
        failure(facts=Facts(kind=FailureKind.EXIT_NONZERO, diff_hash="sha256:new", output_hash="sha256:o")),
        failure(facts=Facts(kind=FailureKind.EXIT_NONZERO, diff_hash=None, output_hash="sha256:new")),
        failure(tolerance_level=1),
    ],
    ids=["signature", "diff", "output", "tolerance"],
)
def test_anything_that_differs_is_progress(other: Failure) -> None:
    decision = decide(state(2, earlier=(mark_of(other),)), failure(), Policy(), NOW)
    assert isinstance(decision, SoftReset)


def test_a_cycle_of_two_failures_is_no_progress() -> None:
    a, b = failure(), failure(signature="v1:b")
    policy = Policy(step_max_attempts=9)
    assert isinstance(decide(state(2, earlier=(mark_of(a),)), b, policy, NOW), SoftReset)
    assert isinstance(decide(state(3, earlier=(mark_of(a), mark_of(b))), a, policy, NOW), HardReset)


def test_without_a_workspace_no_progress_ends_the_delivery() -> None:
    same = failure()
    decision = decide(state(2, earlier=(mark_of(same),), can_hard_reset=False), same, Policy(), NOW)
    assert decision == GiveUp(decision.reason, FailureClass.STUCK_NO_PROGRESS, redeliver=True, exhausted=True)
    assert "no workspace" in decision.reason


def test_hard_resets_are_counted_for_the_whole_run() -> None:
    same = failure()
    decision = decide(state(2, earlier=(mark_of(same),), resets=1), same, Policy(), NOW)
    assert isinstance(decision, GiveUp)
    assert "job_self_heal_max_resets" in decision.reason


def test_a_lost_driver_and_a_cooldown_say_nothing_about_progress() -> None:
    lost = failure(kind=FailureKind.DRIVER_LOST)
    assert isinstance(decide(state(2, earlier=(mark_of(lost),)), lost, Policy(), NOW), SoftReset)
    busy = failure(FailureClass.COOLDOWN)
    assert isinstance(decide(state(2, earlier=(mark_of(busy),)), busy, Policy(), NOW), Retry)


@pytest.mark.parametrize("kind", [FailureKind.OUT_OF_MEMORY, FailureKind.TOO_MANY_PROCESSES])
def test_a_step_that_took_too_much_twice_is_neither_reset_further_nor_delivered_again(
    kind: FailureKind,
) -> None:
    """Ending alike is all that it can do: no reset gives it more."""
    again = failure(FailureClass.UNKNOWN, kind=kind)
    assert isinstance(decide(state(1, unknown_failures=1), again, Policy(), NOW), SoftReset)
    decision = decide(state(2, unknown_failures=2, earlier=(mark_of(again),)), again, Policy(), NOW)
    assert isinstance(decision, GiveUp)
    assert (decision.cls, decision.redeliver) == (FailureClass.UNKNOWN, False)
    assert decision.reason.startswith("unknown_retries_max")


def test_a_step_that_polls_may_repeat_itself() -> None:
    same = failure()
    assert isinstance(decide(state(2, earlier=(mark_of(same),)), same, Policy(polls=True), NOW), SoftReset)


def test_an_unrecognised_failure_gets_one_more_try() -> None:
    first = failure(FailureClass.UNKNOWN)
    other = failure(FailureClass.UNKNOWN, "v1:b")
    assert isinstance(decide(state(1, unknown_failures=1), first, Policy(), NOW), SoftReset)
    decision = decide(state(2, unknown_failures=2, earlier=(mark_of(first),)), other, Policy(), NOW)
    assert decision == GiveUp(decision.reason, FailureClass.UNKNOWN, redeliver=False, exhausted=True)


def test_a_cooldown_waits_as_told_up_to_the_cap() -> None:
    told = failure(FailureClass.COOLDOWN, facts=Facts(kind=FailureKind.RATE_LIMITED, retry_after_s=7))
    decision = decide(state(), told, Policy(), NOW)
    assert isinstance(decision, Retry)
    assert decision.delay_ms == 7000
    assert cooldown_ms(1e9, Policy()) == 900_000


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"attempts_in_delivery": 3}, "step_max_attempts"),
        ({"retries": 20}, "run_retries_max"),
        ({"active_since": Instant(0, NOW.boot_us - 86_400_000_000, "boot")}, "run_timeout"),
        ({"retry_tokens": 49.9}, "retry_tokens"),
    ],
)
def test_a_spent_budget_is_named(changes: dict[str, object], name: str) -> None:
    decision = decide(msgspec.structs.replace(state(), **changes), failure(), Policy(), NOW)
    assert isinstance(decision, GiveUp)
    assert decision.exhausted
    assert name in decision.reason


def test_a_reboot_does_not_end_a_run_before_its_time() -> None:
    """The wall difference is clamped to one period, so a clock that jumped ten years cannot stretch it further."""
    before = Instant(NOW.wall_us - 60_000_000, 10_000_000_000, "an earlier boot")
    assert isinstance(decide(state(active_since=before), failure(), Policy(), NOW), SoftReset)


@given(st.integers(1, 200))
def test_backoff_doubles_up_to_its_cap(attempt: int) -> None:
    """Seed 000 property 6: exponential, whatever the healing did."""
    policy = Policy()
    assert backoff_ms(attempt, policy) == min(60_000, 500 * 2 ** (attempt - 1))
    assert delivery_backoff_s(attempt) == min(600, 15 * 2 ** (attempt - 1))


@given(st.lists(marks, max_size=20), marks, st.integers(1, 6))
def test_what_is_remembered_is_bounded_and_ends_with_the_latest(
    earlier: list[Mark], mark: Mark, window: int
) -> None:
    kept = remember(tuple(earlier), mark, window)
    assert len(kept) <= window
    assert kept[-1] == mark


@given(st.lists(marks, max_size=12).map(tuple), marks)
def test_equal_attempts_are_counted_within_the_window_only(earlier: tuple[Mark, ...], mark: Mark) -> None:
    policy = Policy()
    assert equal_attempts(mark, earlier, policy) == 1 + list(earlier[-policy.no_progress_window :]).count(
        mark
    )


def decisions_of(run: list[Failure], policy: Policy) -> list[Decision]:
    """The loop without its effects."""
    made: list[Decision] = []
    earlier: tuple[Mark, ...] = ()
    resets = unknown = 0
    for attempt, one in enumerate(run, 1):
        unknown += one.cls is FailureClass.UNKNOWN
        now = state(attempt, earlier=earlier, resets=resets, retries=attempt - 1, unknown_failures=unknown)
        made.append(decide(now, one, policy, NOW))
        if isinstance(made[-1], GiveUp | Escalate):
            return made
        resets += isinstance(made[-1], HardReset)
        earlier = remember(earlier, mark_of(one), policy.no_progress_window)
    return made


@given(st.lists(failures, min_size=12, max_size=12), policies)
def test_every_sequence_of_failures_ends(run: list[Failure], policy: Policy) -> None:
    """Seed 002 §3: bound retry behaviour to avoid indefinite loops."""
    made = decisions_of(run, policy)
    assert isinstance(made[-1], GiveUp | Escalate)
    assert len(made) <= policy.step_max_attempts
    assert sum(isinstance(one, HardReset) for one in made) <= policy.job_self_heal_max_resets


# Exactly what is decided, and in which words

STUCK = FailureClass.STUCK_NO_PROGRESS
TRANSIENT = FailureClass.TRANSIENT_RUNTIME


def stuck_state(attempt: int = 2, **changes: object) -> StepState:
    return state(attempt, earlier=(mark_of(failure()),), **changes)


def test_a_deterministic_failure_is_given_up_in_one_sentence_before_any_budget_is_looked_at() -> None:
    spent = state(99, retries=99, retry_tokens=0, may_repeat=False)
    cls = FailureClass.DETERMINISTIC_REPO
    for known in (True, False):
        decision = decide(spent, failure(cls, outcome_known=known), Policy(), NOW)
        assert decision == GiveUp(f"{cls}: trying again cannot help", cls, redeliver=False, exhausted=False)


def test_a_person_is_asked_only_when_the_outcome_is_unknown_and_the_step_must_not_repeat() -> None:
    asked = decide(state(may_repeat=False), failure(outcome_known=False), Policy(), NOW)
    assert asked == Escalate(
        "the outcome is unknown, the step must not be repeated, and no check can tell whether it was done",
        TRANSIENT,
    )
    for may_repeat, known in ((True, False), (False, True), (True, True)):
        decision = decide(state(may_repeat=may_repeat), failure(outcome_known=known), Policy(), NOW)
        assert decision == SoftReset("transient_runtime: fresh process, same workspace", TRANSIENT, 500)


def test_each_soft_reset_waits_twice_as_long_as_the_one_before_it_in_its_delivery() -> None:
    policy = Policy(step_max_attempts=9)
    waits = [
        decide(state(20, attempts_in_delivery=attempt), failure(signature=f"v1:{attempt}"), policy, NOW)
        for attempt in (1, 2, 3)
    ]
    assert [one.delay_ms for one in waits if isinstance(one, SoftReset)] == [500, 1000, 2000]


def test_a_cooldown_says_how_long_it_waits() -> None:
    told = failure(FailureClass.COOLDOWN, facts=Facts(kind=FailureKind.RATE_LIMITED, retry_after_s=7.5))
    assert decide(state(), told, Policy(), NOW) == Retry(
        "cooldown: wait 7.5 s as asked", FailureClass.COOLDOWN, 7500
    )


def test_a_hard_reset_says_how_many_attempts_ended_alike() -> None:
    assert decide(stuck_state(), failure(), Policy(), NOW) == HardReset(
        "no progress: 2 attempts ended alike: restore the workspace aside", STUCK, 1000
    )


@pytest.mark.parametrize("classes", [(STUCK,), (TRANSIENT,)])
def test_no_progress_that_no_reset_can_help_is_given_another_delivery_if_the_policy_says_so(
    classes: tuple[FailureClass, ...],
) -> None:
    policy = Policy(redeliver_classes=classes)
    again = classes == (STUCK,)
    assert decide(stuck_state(can_hard_reset=False), failure(), policy, NOW) == GiveUp(
        "no progress: 2 attempts ended alike, and this step has no workspace to reset",
        STUCK,
        redeliver=again,
        exhausted=True,
    )
    assert decide(stuck_state(resets=1), failure(), policy, NOW) == GiveUp(
        "no progress: 2 attempts ended alike; job_self_heal_max_resets: 1 of 1 used",
        STUCK,
        redeliver=again,
        exhausted=True,
    )


def test_attempts_that_end_alike_are_no_progress_from_the_limit_on() -> None:
    policy = Policy(step_no_progress_limit=3, step_max_attempts=9)
    mark = mark_of(failure())
    for equal, kind in ((1, SoftReset), (2, HardReset), (3, HardReset)):
        assert isinstance(decide(state(4, earlier=(mark,) * equal), failure(), policy, NOW), kind)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attempts_in_delivery": 3}, "step_max_attempts: 3 of 3 attempts used"),
        ({"attempts_in_delivery": 5}, "step_max_attempts: 5 of 3 attempts used"),
        ({"retries": 20}, "run_retries_max: 20 of 20 retries of the run used"),
        (
            {"retry_tokens": 49.96},
            "retry_tokens: 50.0 of 100 left for this workflow, and nothing is retried below half",
        ),
        (
            {"retry_tokens": 0},
            "retry_tokens: 0.0 of 100 left for this workflow, and nothing is retried below half",
        ),
    ],
)
@pytest.mark.parametrize("again", [True, False])
def test_a_spent_budget_is_told_with_its_numbers(changes: dict[str, object], words: str, again: bool) -> None:
    policy = Policy(redeliver_classes=(TRANSIENT,) if again else ())
    decision = decide(msgspec.structs.replace(state(), **changes), failure(), policy, NOW)
    assert decision == GiveUp(words, TRANSIENT, redeliver=again, exhausted=True)


@pytest.mark.parametrize(
    "changes", [{"attempts_in_delivery": 2}, {"retries": 19}, {"retry_tokens": 50}, {"retry_tokens": None}]
)
def test_the_last_of_a_budget_may_be_used(changes: dict[str, object]) -> None:
    decision = decide(msgspec.structs.replace(state(), **changes), failure(), Policy(), NOW)
    assert isinstance(decision, SoftReset)


def test_an_unrecognised_failure_too_many_is_told_with_the_limit() -> None:
    unknown = FailureClass.UNKNOWN
    decision = decide(state(2, unknown_failures=2), failure(unknown), Policy(), NOW)
    assert decision == GiveUp(
        "unknown_retries_max: an unrecognised failure gets 1 more try",
        unknown,
        redeliver=False,
        exhausted=True,
    )
    assert isinstance(decide(state(2, unknown_failures=2), failure(), Policy(), NOW), SoftReset), (
        "earlier failures that nobody recognised do not end a step that fails otherwise"
    )


def test_a_wait_must_end_before_the_time_of_the_run_does() -> None:
    policy = Policy(run_timeout_seconds=100.5)
    for used_s, fits in ((39.9, True), (40.0, False)):
        made = decide(state(active_s=used_s), failure(), policy, NOW)
        assert isinstance(made, SoftReset) is fits
    assert decide(state(active_s=40), failure(), policy, NOW) == GiveUp(
        "run_timeout: 100 s of 100.5 s are used, and the next wait is too long",
        TRANSIENT,
        redeliver=False,
        exhausted=True,
    )


def test_time_that_is_not_running_is_not_counted() -> None:
    policy = Policy(run_timeout_seconds=60)
    assert isinstance(decide(state(active_since=None), failure(), policy, NOW), SoftReset)
    assert isinstance(decide(state(), failure(), policy, NOW), GiveUp)


def test_what_is_given_up_anyway_is_not_said_to_have_run_out_of_time() -> None:
    policy = Policy(run_timeout_seconds=1)
    decision = decide(stuck_state(can_hard_reset=False), failure(), policy, NOW)
    assert "no workspace" in decision.reason


def test_over_a_reboot_no_more_than_the_time_of_the_run_is_counted() -> None:
    long_ago = Instant(0, 0, "another boot")
    decision = decide(state(active_since=long_ago), failure(), Policy(run_timeout_seconds=50), NOW)
    assert decision.reason == "run_timeout: 50 s of 50 s are used, and the next wait is too long"


# A step that asks for a reset


def asked(kind: FailureKind) -> Failure:
    return failure(FailureClass.STUCK_NO_PROGRESS, kind=kind)


def test_a_step_that_asks_for_a_reset_gets_a_fresh_process() -> None:
    decision = decide(state(), asked(FailureKind.RESET_REQUESTED), Policy(), NOW)
    assert isinstance(decision, SoftReset)
    assert decision.cls is FailureClass.STUCK_NO_PROGRESS


def test_a_step_that_asks_for_a_hard_reset_gets_one_where_that_is_possible_and_left() -> None:
    wish, stuck = asked(FailureKind.HARD_RESET_REQUESTED), FailureClass.STUCK_NO_PROGRESS
    assert decide(state(), wish, Policy(), NOW) == HardReset(
        "the step asked for a hard reset: restore the workspace aside", stuck, 500
    )
    assert decide(state(can_hard_reset=False), wish, Policy(), NOW) == SoftReset(
        "the step asked for a hard reset, and has no workspace to reset: fresh process", stuck, 500
    )
    assert decide(state(resets=1), wish, Policy(job_self_heal_max_resets=1), NOW) == SoftReset(
        "the step asked for a hard reset; job_self_heal_max_resets: 1 of 1 used: fresh process, same workspace",
        stuck,
        500,
    )


def test_who_asks_again_and_again_comes_to_the_end_of_the_same_budgets() -> None:
    wish = asked(FailureKind.HARD_RESET_REQUESTED)
    spent = decide(state(Policy().step_max_attempts), wish, Policy(), NOW)
    assert isinstance(spent, GiveUp) and spent.redeliver
    never = msgspec.structs.replace(wish, outcome_known=False)
    assert isinstance(decide(state(may_repeat=False), never, Policy(), NOW), Escalate)


def test_a_broken_workspace_gets_one_hard_reset_and_is_then_given_up_for_good() -> None:
    cls = FailureClass.UNKNOWN
    broken = failure(cls, kind=FailureKind.WORKSPACE_BROKEN)
    first = decide(state(), broken, Policy(), NOW)
    reason = "the workspace is broken: restore the last checkpoint"
    assert first == HardReset(reason, cls, backoff_ms(1, Policy()))
    again = decide(state(2, unknown_failures=2, resets=1), broken, Policy(), NOW)
    assert isinstance(again, GiveUp) and not again.redeliver
    without = decide(state(can_hard_reset=False), broken, Policy(), NOW)
    reason = "the workspace is broken, and there is no checkpoint of it"
    assert without == GiveUp(reason, cls, redeliver=False, exhausted=True)
    spent = decide(state(resets=1), broken, Policy(job_self_heal_max_resets=1), NOW)
    reason = "the workspace is broken; job_self_heal_max_resets: 1 of 1 used"
    assert spent == GiveUp(reason, cls, redeliver=False, exhausted=True)
