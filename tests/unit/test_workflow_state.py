"""The retry tokens that the runs of one workflow share."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.breaker import ends_a_step
from recoup.kernel.workflow import SPENT_MAX, fold_workflow, rebuild_workflow, token_cost
from recoup.model.events import Payload, PolicyGeneration, UnknownPayload, WorkflowStepResult
from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import WorkflowState

NOW = Instant(1_700_000_000_000_000, 1_000_000, "boot")
RESULTS = st.builds(
    WorkflowStepResult,
    run_id=st.just("r"),
    step_id=st.just("s"),
    result=st.sampled_from(["attempt_failed", "passed", "recovered", "failed", "of a newer version"]),
    attempts=st.integers(0, 200),
    tokens=st.floats(-300, 2_000_000),
)
PAYLOADS: st.SearchStrategy[list[Payload]] = st.lists(
    RESULTS | st.just(UnknownPayload()) | st.just(PolicyGeneration(policy_digest="d", source="f"))
)


def spent(*results: tuple[str, int]) -> float:
    payloads = [
        WorkflowStepResult(run_id="r", step_id="s", result=r, attempts=n, tokens=token_cost(r, n, Policy()))
        for r, n in results
    ]
    return rebuild_workflow(at_once(payloads)).tokens_spent


def at_once(payloads: Sequence[Payload]) -> list[tuple[Instant, Payload]]:
    return [(NOW, payload) for payload in payloads]


def test_a_failed_attempt_costs_one_token() -> None:
    assert spent(("attempt_failed", 1), ("attempt_failed", 2)) == 2


def test_a_recovery_returns_what_it_cost() -> None:
    assert spent(("attempt_failed", 1), ("attempt_failed", 2), ("recovered", 3)) == 0


def test_a_failed_step_returns_nothing() -> None:
    assert spent(("attempt_failed", 1), ("failed", 1)) == 1


def test_a_clean_step_returns_a_tenth() -> None:
    assert spent(("attempt_failed", 1), ("passed", 1)) == 1 - Policy().retry_token_refund


@given(PAYLOADS)
def test_tokens_stay_between_none_and_all(payloads: list[Payload]) -> None:
    state = WorkflowState()
    for payload in payloads:
        state = fold_workflow(state, payload, NOW)
        assert 0 <= state.tokens_spent <= SPENT_MAX


@given(PAYLOADS)
def test_every_event_counts_in_the_sequence(payloads: list[Payload]) -> None:
    assert rebuild_workflow(at_once(payloads)).seq == len(payloads)


@given(PAYLOADS, PAYLOADS)
def test_a_stored_state_can_be_folded_on(first: list[Payload], second: list[Payload]) -> None:
    half = rebuild_workflow(at_once(first))
    assert rebuild_workflow(at_once(second), half) == rebuild_workflow(at_once(first + second))


def test_a_mode_follows_from_the_ends_of_steps_only() -> None:
    def result(kind: str, *, counts: bool = True) -> WorkflowStepResult:
        return WorkflowStepResult(run_id="r", step_id="s", result=kind, attempts=1, counts=counts)

    assert all(ends_a_step(result(kind)) for kind in ("passed", "recovered", "failed"))
    assert not ends_a_step(result("attempt_failed"))
    assert not ends_a_step(result("of a newer version"))
    assert not ends_a_step(result("failed", counts=False))
