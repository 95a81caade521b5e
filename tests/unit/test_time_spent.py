"""How long a run was worked on, and how long it waited for a person."""

from __future__ import annotations

import pytest

from recoup.kernel.documents import run_document
from recoup.kernel.elapsed import TimeSpent, spent_words, time_spent
from recoup.kernel.fold import advance, submitted
from recoup.model import events as ev
from recoup.model.failure import FailureClass
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import Plan, RunAction, Step
from recoup.model.run import RunState

OWNER = ProcessIdentity("host", "boot", 1, 1)
STARTED = ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="p")
RESUMED = ev.RunResumed(delivery=1, epoch=2, owner=OWNER, reason="approved")
GATE = ev.RunWaiting(reason="asks", waiting_for="approval")
TO_COOL = ev.RunWaiting(reason="cooldown", waiting_for="time")
DONE = ev.RunSucceeded(known_good_prefix_length=1, reason="done")
FAILED = ev.RunFailed(
    delivery=1, reason="exit 1", retryable=True, failure_class=FailureClass.UNKNOWN, failure_kind=None
)
ESCALATED = ev.Escalated(escalation_id="esc-1", reason="unknown", hint="look", step_id="a", step_index=0)


def at(seconds: float) -> Instant:
    return Instant(round(1_800_000_000e6 + seconds * 1e6), round(seconds * 1e6), "boot")


def told(*facts: tuple[float, ev.Payload]) -> RunState:
    plan = Plan(name="w", steps=(Step(id="a", action=RunAction("x")),))
    first = ev.RunSubmitted(
        workflow="w", plan_digest="d", plan=plan, plan_redacted=False, inputs={}, policy_digest="p"
    )
    state = submitted("r", first, at(0))
    for seconds, fact in facts:
        state = advance(state, fact, at(seconds), state.seq + 1)
    return state


@pytest.mark.parametrize(
    "end",
    [
        DONE,
        ev.RunCancelled(reason="enough", actor="ada"),
        FAILED,
        ev.RunBlocked(reason="quarantined", until=None),
        ev.RunInterrupted(reason="Ctrl-C", epoch=1),
        TO_COOL,
    ],
    ids=lambda end: end.TYPE,
)
def test_the_time_of_a_run_ends_with_its_work(end: ev.Payload) -> None:
    state = told((5, STARTED), (14, end))
    assert time_spent(state.clocks, at(100_000)) == TimeSpent(9.0, 0.0)


def test_waiting_for_a_person_is_counted_apart_from_work() -> None:
    state = told((0, STARTED), (4, GATE), (844, RESUMED), (849, DONE))
    assert time_spent(state.clocks, at(100_000)) == TimeSpent(9.0, 840.0)
    assert spent_words(time_spent(state.clocks, at(100_000)), lambda s: f"{s:g} s") == (
        "9 s of work, waited 840 s for a person"
    )


@pytest.mark.parametrize("question", [GATE, ESCALATED], ids=["gate", "escalation"])
def test_whoever_has_not_answered_yet_is_still_waited_for(question: ev.Payload) -> None:
    assert time_spent(told((0, STARTED), (4, question)).clocks, at(10)) == TimeSpent(4.0, 6.0)


def test_nobody_works_for_a_driver_that_was_lost() -> None:
    state = told(
        (0, STARTED), (3, ev.SecretFound(step_id="a", step_index=0, attempt=1, names=(), where="log"))
    )
    assert time_spent(state.clocks, at(60), driven=False) == TimeSpent(3.0, 0.0)
    assert time_spent(state.clocks, at(60)) == TimeSpent(60.0, 0.0)


def test_the_document_says_both_as_far_as_its_last_event() -> None:
    document = run_document(told((0, STARTED), (4, GATE), (844, RESUMED), (849, FAILED)))
    assert (document.worked_s, document.waited_for_person_s) == (9.0, 840.0)
    waiting = told((0, STARTED), (4, GATE))
    assert run_document(waiting).waiting_for_person_since == at(4).iso()
    assert waiting.clocks.waited_s == 0


def test_the_clocks_of_a_run_can_be_kept_without_its_state() -> None:
    kept = told((1, STARTED), (5, GATE)).clocks
    assert (kept.active_s, kept.waiting_since, kept.updated_at) == (4.0, at(5), at(5))
