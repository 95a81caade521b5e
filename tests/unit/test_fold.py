"""From facts to the state of a run: prefix, frontier, budgets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.altered import altered

from recoup.kernel.documents import exit_code, run_document
from recoup.kernel.fold import advance, submitted
from recoup.kernel.policies import policy_digest, step_policy, with_limits
from recoup.kernel.prefix import frontier, known_good_prefix_length, ledger_document
from recoup.kernel.records import with_steps
from recoup.model import events as ev
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import Limits, Plan, RunAction, Step
from recoup.model.policy import IdleBy, Policy
from recoup.model.run import RunState, RunStatus, Verdict

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")
OWNER = ProcessIdentity("host", "boot", 1, 1)


def fresh(steps: int = 3) -> RunState:
    plan = Plan(name="w", steps=tuple(Step(id=f"s{n}", action=RunAction("x")) for n in range(steps)))
    first = ev.RunSubmitted(
        workflow="w", plan_digest="d", plan=plan, plan_redacted=False, inputs={}, policy_digest="p"
    )
    state = submitted("r", first, NOW)
    return tell(state, ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="p"))


def tell(state: RunState, *facts: ev.Payload) -> RunState:
    for fact in facts:
        state = advance(state, fact, NOW, state.seq + 1)
    return state


def about(index: int, attempt: int | None = 1) -> dict[str, Any]:
    return {"step_id": f"s{index}", "step_index": index, "attempt": attempt}


def start(index: int, attempt: int = 1, **more: Any) -> ev.AttemptStarted:
    return ev.AttemptStarted(
        **about(index, attempt), delivery=1, kind="run", args_digest="a", pre_state=None, workspace=None,
        inline=False, **more,
    )  # fmt: skip


def finish(index: int, attempt: int = 1, verdict: str = "passed") -> ev.AttemptFinished:
    return ev.AttemptFinished(**about(index, attempt), verdict=verdict, duration_ms=5)


def fail(
    index: int, attempt: int = 1, cls: FailureClass = FailureClass.TRANSIENT_RUNTIME
) -> ev.AttemptFailed:
    return ev.AttemptFailed(
        **about(index, attempt), failure_class=cls, failure_signature="v1:x", summary="exit code 1",
        facts=Facts(kind=FailureKind.EXIT_NONZERO), outcome_known=True,
    )  # fmt: skip


def test_when_every_step_passed_there_is_no_frontier() -> None:
    state = tell(fresh(), *[fact for n in range(3) for fact in (start(n), finish(n))])
    assert known_good_prefix_length(state) == 3
    assert frontier(state) is None
    state = tell(state, ev.RunSucceeded(known_good_prefix_length=3, reason="done"))
    assert ledger_document(state).status == "succeeded"


def test_a_failure_in_the_middle_is_the_frontier_and_all_after_it_say_why() -> None:
    """Seed 003: step N fails, 1..N-1 stay known-good."""
    document = ledger_document(tell(fresh(), start(0), finish(0), start(1), fail(1)))
    assert document.known_good_prefix_length == 1
    assert document.frontier == {"stepId": "s1", "stepIndex": 1, "reason": "failed: exit code 1"}
    assert [bool(step.invalidation_reason) for step in document.steps] == [False, True, True]


def test_an_invalidated_step_ends_the_prefix_although_later_ones_passed() -> None:
    state = tell(fresh(), start(0), finish(0), start(1), finish(1))
    state = tell(state, ev.StepInvalidated(**about(0, None), reason="its checkpoint is broken"))
    assert known_good_prefix_length(state) == 0
    edge = frontier(state)
    assert edge is not None
    assert edge.reason == "its checkpoint is broken"
    state = tell(state, start(0, 2), finish(0, 2))
    assert known_good_prefix_length(state) == 2


def test_an_unverified_step_counts_toward_the_prefix() -> None:
    assert known_good_prefix_length(tell(fresh(), start(0), finish(0, verdict="unverified"))) == 1


def test_an_attempt_that_never_began_is_not_spent() -> None:
    lost = ev.AttemptFailed(
        **about(0), failure_class=None, facts=Facts(kind=FailureKind.DRIVER_LOST), summary="", outcome_known=True,
        not_begun=True,
    )  # fmt: skip
    state = tell(fresh(), start(0), lost)
    assert (state.steps[0].spent.attempts, state.steps[0].open) == (0, None)
    state = tell(state, start(0, 1))


def test_a_new_delivery_has_fresh_attempts_but_numbers_go_on() -> None:
    state = tell(fresh(), start(0), fail(0), start(0, 2), fail(0, 2))
    assert (state.steps[0].spent.attempts, state.steps[0].spent.attempts_in_delivery) == (2, 2)
    state = tell(state, ev.RunResumed(delivery=2, epoch=2, owner=OWNER, reason="next delivery"))
    assert (
        state.steps[0].spent.attempts,
        state.steps[0].spent.attempts_in_delivery,
        state.steps[0].spent.marks,
    ) == (2, 0, ())


def test_resets_and_retries_are_counted_for_the_run() -> None:
    state = tell(fresh(), start(0), fail(0))
    state = tell(state, ev.SelfHealTriggered(**about(0), strategy="soft_reset", delay_ms=500))
    state = tell(state, start(0, 2), fail(0, 2))
    state = tell(state, ev.SelfHealEscalated(**about(0, 2), strategy="hard_reset", delay_ms=500))
    assert (state.counts.retries, state.counts.resets, state.workspaces.restore_pending) == (2, 1, True)
    state = tell(state, ev.CheckpointRestored(step_index=None, tree="t", workspace=2, reason="hard reset"))
    assert (state.workspaces.restore_pending, state.workspaces.trial) == (False, 2)


def test_a_gap_in_the_sequence_is_a_bug() -> None:
    state = fresh()
    with pytest.raises(AssertionError, match="follows"):
        state = advance(state, start(0), NOW, state.seq + 2)


def test_two_attempts_at_once_are_a_bug() -> None:
    state = tell(fresh(), start(0))
    with pytest.raises(AssertionError):
        state = tell(state, finish(0, 2))


@pytest.mark.parametrize(
    ("fact", "status", "code"),
    [
        (ev.RunSucceeded(known_good_prefix_length=0, reason=""), RunStatus.SUCCEEDED, 0),
        (
            ev.RunFailed(reason="", failure_class=None, failure_kind=None, retryable=False, delivery=1),
            RunStatus.FAILED,
            1,
        ),
        (
            ev.RunFailed(reason="", failure_class=None, failure_kind=None, retryable=True, delivery=1),
            RunStatus.FAILED,
            75,
        ),
        (
            ev.RunDeadLettered(reason="", failure_class=None, failure_kind=None, delivery=1),
            RunStatus.DEAD_LETTER,
            1,
        ),
        (ev.RunCancelled(reason="", actor=""), RunStatus.CANCELLED, 6),
        (ev.RunBlocked(reason=""), RunStatus.BLOCKED, 4),
        (ev.RunWaiting(reason=""), RunStatus.WAITING, 5),
        (ev.Escalated(escalation_id="e", reason="", hint=""), RunStatus.ESCALATED, 5),
        (ev.RunInterrupted(reason="", epoch=1), RunStatus.RUNNING, 130),
    ],
)
def test_every_end_has_its_status_and_exit_code(fact: ev.Payload, status: RunStatus, code: int) -> None:
    state = tell(fresh(), fact)
    assert (state.status, exit_code(state)) == (status, code)
    assert run_document(state).exit_code == code


def test_the_run_document_has_the_public_names() -> None:
    wanted = {
        "runId", "workflow", "status", "exitCode", "reason", "failureClass", "failureKind", "retryable", "delivery",
        "knownGoodPrefixLength", "liveControl",
    }  # fmt: skip
    document = msgspec.to_builtins(run_document(fresh()))
    assert wanted <= document.keys()
    assert document["liveControl"] == {"paused": False, "takeover": False, "recovery": None}


def test_the_ledger_document_has_the_public_names() -> None:
    document = msgspec.to_builtins(ledger_document(fresh()))
    assert set(document) == {"runId", "status", "knownGoodPrefixLength", "frontier", "steps"}
    assert set(document["steps"][0]) == {
        "stepId", "stepIndex", "kind", "phase", "argsDigest", "preState", "verdict", "evidence", "outputs", "attempts",
        "checkpoint", "invalidationReason",
    }  # fmt: skip


verdicts = st.lists(st.sampled_from(["pass", "fail", "none", "invalid"]), min_size=1, max_size=8)


@given(verdicts)
def test_the_prefix_ends_before_the_first_step_that_is_not_good(wanted: list[str]) -> None:
    state = fresh(len(wanted))
    for index, verdict in enumerate(wanted):
        if verdict != "none":
            state = tell(state, start(index))
        if verdict in ("pass", "invalid"):
            state = tell(state, finish(index))
        if verdict == "fail":
            state = tell(state, fail(index))
        if verdict == "invalid":
            state = tell(state, ev.StepInvalidated(**about(index, None), reason="because"))
    length = next((i for i, verdict in enumerate(wanted) if verdict != "pass"), len(wanted))
    document = ledger_document(state)
    assert document.known_good_prefix_length == length
    assert (document.frontier is None) == (length == len(wanted))
    assert all(step.invalidation_reason for step in document.steps[length:])
    assert all(Verdict(step.verdict) in Verdict for step in document.steps)


def test_a_step_beats_its_plan_which_beats_the_policy() -> None:
    step = Step(id="a", action=RunAction("x"), limits=Limits(max_attempts=7, idle=IdleBy.ACTIVITY))
    plan = Plan(name="w", steps=(step,), defaults=Limits(max_attempts=5, timeout_s=60))
    policy = step_policy(Policy(step_max_attempts=2, step_idle_timeout_seconds=9), plan, step)
    assert (policy.step_max_attempts, policy.step_timeout_seconds, policy.step_idle_timeout_seconds, policy.idle_by) == (
        7, 60, 9, IdleBy.ACTIVITY,
    )  # fmt: skip


def test_what_a_step_may_take_is_said_by_it_its_plan_or_the_policy() -> None:
    step = Step(id="a", action=RunAction("x"), limits=Limits(max_processes=7))
    plan = Plan(name="w", steps=(step,), defaults=Limits(max_processes=5, max_memory_bytes=9))
    policy = step_policy(Policy(step_processes_max=3, step_memory_max_bytes=1), plan, step)
    assert (policy.step_processes_max, policy.step_memory_max_bytes) == (7, 9)


def test_a_policy_digest_names_its_content() -> None:
    assert policy_digest(Policy()) == policy_digest(Policy())
    assert policy_digest(Policy()) != policy_digest(with_limits(Policy(), Limits(max_attempts=4)))
    assert with_limits(Policy(), Limits()) is not None


def test_an_agents_session_ends_with_the_workspace_it_knows() -> None:
    told = ev.AgentReport(cli="claude", session_id="0b0e5a3e-8f3f-4a39-9d4b-0d6f5a1c2b3d")
    state = tell(fresh(), start(0), structs.replace(fail(0), agent=told))
    assert state.steps[0].agent.session_id == told.session_id
    state = tell(state, ev.CheckpointRestored(step_index=None, tree="t", workspace=2, reason="gone back"))
    assert state.steps[0].agent.session_id is None


SESSION = "5f0e5a3e-8f3f-4a39-9d4b-0d6f5a1c2b3d"


def session_known(session_id: str = SESSION) -> ev.AgentSessionKnown:
    return ev.AgentSessionKnown(**about(0, 1), session_id=session_id)


def test_the_session_of_an_agent_whose_driver_was_lost_is_known() -> None:
    state = tell(fresh(), start(0), session_known("6" + SESSION[1:]), session_known(), fail(0))
    assert state.steps[0].agent.session_id == SESSION


def test_what_an_agent_reports_at_its_end_beats_the_session_that_it_named_before() -> None:
    told = ev.AgentReport(cli="claude")
    state = tell(fresh(), start(0), session_known(), structs.replace(fail(0), agent=told))
    assert state.steps[0].agent.session_id is None


def test_the_session_of_an_attempt_that_passed_is_not_resumed() -> None:
    assert tell(fresh(), start(0), session_known(), finish(0)).steps[0].agent.session_id is None


def test_the_session_of_an_open_attempt_ends_with_the_workspace_it_knows() -> None:
    restored = ev.CheckpointRestored(step_index=None, tree="t", workspace=2, reason="gone back")
    assert tell(fresh(), start(0), session_known(), restored, fail(0)).steps[0].agent.session_id is None


def test_no_session_is_named_without_an_attempt() -> None:
    with pytest.raises(AssertionError, match="without a start"):
        tell(fresh(), session_known())


def test_steps_that_get_a_lost_page_back_stay_good_and_are_performed_again() -> None:
    state = tell(fresh(), start(0), finish(0), start(1), finish(1))
    state = with_steps(state, *[altered(record, kind="browser") for record in state.steps[:2]])
    state = altered(state, progress__rebuild_pending=(1,))
    lost = ev.PageLost(**about(2, None), reason="its page is gone", steps=("s0", "s1"))
    state = tell(state, lost)
    assert (state.progress.rebuild_pending, known_good_prefix_length(state)) == ((0, 1), 2)
    state = tell(state, start(0, 2, phase="rebuild"), finish(0, 2))
    assert (state.progress.rebuild_pending, known_good_prefix_length(state)) == ((1,), 2)
    state = tell(state, ev.StepInvalidated(**about(1, None), reason="the page says something else"))
    assert (state.progress.rebuild_pending, known_good_prefix_length(state)) == ((), 1)


@pytest.mark.parametrize("index", [-1, 3, 9999])
def test_a_step_that_the_plan_does_not_have_cannot_be_told_of(index: int) -> None:
    with pytest.raises(AssertionError, match="the plan has no step"):
        tell(fresh(), ev.StepSkipped(step_id="s0", step_index=index, attempt=None, reason="no"))
    with pytest.raises(AssertionError, match="step 1 is s1"):
        tell(fresh(), ev.StepSkipped(step_id="s0", step_index=1, attempt=None, reason="no"))


def test_a_run_can_be_resumed_in_another_workspace() -> None:
    resumed = ev.RunResumed(delivery=1, epoch=2, owner=OWNER, reason="by another driver", workspace=4)
    state = tell(fresh(), resumed)
    assert state.begun and (state.workspaces.current, state.workspaces.in_use) == (4, 4)
    again = ev.RunResumed(delivery=1, epoch=3, owner=OWNER, reason="by another driver")
    assert tell(state, again).workspaces.current == 4


def test_a_step_that_passes_ends_the_trouble_with_its_machine() -> None:
    trouble = ev.RunInterrupted(reason="the disk is full", epoch=1, machine_trouble=True)
    state = tell(fresh(), trouble, trouble)
    assert (state.driver.in_trouble, state.driver.troubles) == (True, 2)
    assert tell(state, start(0), finish(0)).driver.troubles == 0
