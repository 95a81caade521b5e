"""A decision made again: every way in which it can differ, and what is claimed then."""

from __future__ import annotations

from typing import Any

import pytest

from recoup.kernel.whatif import (
    Replayed,
    decisions,
    differing_keys,
    is_decision,
    recorded,
    replay,
)
from recoup.kernel.whatif_modes import KEPT_MAX, WorkflowReplay, as_it_was, begins, blocked, heard, judge
from recoup.model import events as ev
from recoup.model.answers.whatif import Difference, DifferenceKind
from recoup.model.events import Event
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.mode import Mode
from recoup.model.plan import Plan, Repeat, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.workspace import Baseline

START = Instant(10**15, 10**9, "boot")
OWNER = ProcessIdentity("h", "boot", 1, 1)
BASELINE = Baseline("t", "m")
TRANSIENT = FailureClass.TRANSIENT_RUNTIME


class Story:
    """Events of one run, a second apart unless told."""

    def __init__(self, policy: Policy, *, workspace: bool = False, repeat: Repeat = Repeat.SAFE) -> None:
        self.policy = policy
        plan = Plan(name="w", steps=(Step(id="a", action=RunAction("x"), repeat=repeat),))
        self.at, self.events, self.attempt = START, list[Event](), 0
        self.tell(
            ev.RunSubmitted(
                workflow="w", plan_digest="d", plan=plan, plan_redacted=False, inputs={}, policy_digest="p"
            ),
            ev.RunStarted(
                delivery=1,
                epoch=1,
                owner=OWNER,
                policy_digest="p",
                baseline=BASELINE if workspace else None,
            ),
        )

    def tell(self, *payloads: ev.Payload, after_s: float = 1) -> Story:
        self.at = self.at.plus_s(after_s)
        for payload in payloads:
            self.events.append(Event("run:r", len(self.events) + 1, self.at, payload.TYPE, payload, b""))
        return self

    def starts(self, after_s: float = 1) -> Story:
        self.attempt += 1
        return self.tell(
            ev.AttemptStarted(
                **self.about,
                delivery=1,
                kind="run",
                args_digest="a",
                pre_state=None,
                workspace=None,
                inline=True,
            ),
            after_s=after_s,
        )

    def fails(self, *consequences: ev.Payload, after_s: float = 1, **keys: Any) -> Story:
        fields: dict[str, Any] = {
            "failure_class": TRANSIENT,
            "failure_signature": f"s{self.attempt}",
            "strategy": "none",
            "reason": "why",
            "facts": Facts(kind=FailureKind.CONNECTION_LOST),
            "summary": "gone",
            "outcome_known": True,
            "retry_tokens": 50.0,
        }
        return self.tell(ev.AttemptFailed(**{**self.about, **fields, **keys}), *consequences, after_s=after_s)

    def passes(self, after_s: float = 1, duration_ms: int = 5) -> Story:
        end = ev.AttemptFinished(**self.about, verdict="passed", duration_ms=duration_ms)
        return self.tell(end, ev.RunSucceeded(known_good_prefix_length=1, reason="done"), after_s=after_s)

    def retried(self, delay_ms: int = 500, **keys: Any) -> Story:
        again = ev.SelfHealTriggered(**self.about, strategy="soft_reset", delay_ms=delay_ms)
        return self.fails(again, strategy="soft_reset", **keys)

    @property
    def about(self) -> dict[str, Any]:
        return {"step_id": "a", "step_index": 0, "attempt": self.attempt, "policy_digest": "p"}

    def ended(self, *, retryable: bool = False, **keys: Any) -> ev.RunFailed:
        fields: dict[str, Any] = {
            "reason": "why",
            "failure_class": TRANSIENT,
            "failure_kind": None,
            "delivery": 1,
        }
        return ev.RunFailed(**{**fields, **keys}, retryable=retryable)

    def under(self, **keys: Any) -> Replayed:
        import msgspec

        new = msgspec.structs.replace(self.policy, **keys)
        return replay("r", self.events, {"p": self.policy}.get, new)

    def difference(self, **keys: Any) -> Difference:
        (found,) = self.under(**keys).differences
        return found


def dead(reason: str = "why", delivery: int = 1) -> ev.RunDeadLettered:
    return ev.RunDeadLettered(reason=reason, failure_class=TRANSIENT, failure_kind=None, delivery=delivery)


def test_a_hard_reset_in_place_of_a_soft_one_is_unknown_from_there() -> None:
    story = Story(Policy(step_max_attempts=9), workspace=True)
    story.starts().retried(failure_signature="s").starts().fails(
        ev.SelfHealTriggered(**story.about, strategy="soft_reset", delay_ms=1_000),
        strategy="soft_reset",
        failure_signature="s",
    )
    story.policy = Policy(step_max_attempts=9, step_no_progress_limit=3)
    story.starts().passes()
    found = story.under(step_no_progress_limit=2)
    assert [one.kind for one in found.differences] == [DifferenceKind.OTHER_RESET]
    assert (found.verdict, found.decisions) == ("unknown", 2)


def test_an_end_of_another_kind_is_unknown() -> None:
    story = Story(Policy(), repeat=Repeat.NEVER).starts()
    escalated = ev.Escalated(escalation_id="e", reason="why", hint="", step_id="a", step_index=0)
    story.fails(escalated, facts=Facts(kind=FailureKind.EXIT_NONZERO, exit_code=9), outcome_known=False)
    assert story.difference(exit_codes={9: FailureClass.DETERMINISTIC_REPO}).kind is DifferenceKind.OTHER_END
    assert story.under().verdict == "same"


def test_classes_that_are_delivered_again() -> None:
    story = Story(Policy(step_max_attempts=1, redeliver_classes=()))
    story.starts().fails(story.ended())
    more = story.difference(redeliver_classes=(TRANSIENT,))
    assert (more.kind, more.more_attempts_max) == (DifferenceKind.GOES_ON, 2)
    last = story.difference(redeliver_classes=(TRANSIENT,), delivery_max=1)
    assert (last.kind, last.instead) == (DifferenceKind.OTHER_END, "dead letter: every delivery was used")
    story = Story(Policy(step_max_attempts=1)).starts()
    story.fails(story.ended(retryable=True), redeliver=True)
    story.tell(ev.RunResumed(delivery=2, epoch=2, owner=OWNER, reason="next delivery"), after_s=60)
    story.starts().passes(after_s=9)
    fewer = story.difference(redeliver_classes=())
    assert (fewer.kind, fewer.attempts_saved, fewer.seconds_saved, fewer.recovery_lost) == (
        DifferenceKind.STOPS_EARLIER,
        1,
        9,
        True,
    )


def test_drivers_that_were_lost_too_often() -> None:
    lost = ev.RunTakenOver(epoch=2, previous_epoch=1, previous_owner=OWNER, reason="lost")
    story = Story(Policy()).tell(lost).starts().passes()
    assert story.difference(takeovers_max=0).kind is DifferenceKind.STOPS_EARLIER
    assert story.under(takeovers_max=1).verdict == "same"
    story = Story(Policy(takeovers_max=0)).tell(lost)
    story.tell(ev.Escalated(escalation_id="e", reason="x", hint=""), dead("takeovers_max: lost 1 times"))
    assert story.difference(takeovers_max=1).kind is DifferenceKind.GOES_ON
    assert story.under().verdict == "same"
    over = Story(Policy()).starts().passes().tell(lost)
    assert over.under(takeovers_max=0).verdict == "same", "a run that has ended cannot end once more"


def test_the_time_of_the_run() -> None:
    story = Story(Policy(run_timeout_seconds=100)).starts()
    story.tell(story.ended(reason="run_timeout: the run has used its 100 s"), after_s=100)
    assert story.difference(run_timeout_seconds=500).kind is DifferenceKind.GOES_ON
    assert story.under().verdict == "same"
    late = Story(Policy(run_timeout_seconds=100)).starts().retried().starts(after_s=50).passes()
    never_begun = late.difference(run_timeout_seconds=20)
    assert (never_begun.kind, never_begun.attempts_saved) == (DifferenceKind.STOPS_EARLIER, 1)
    assert never_begun.instead == "run_timeout: 52 s of 20 s are used"
    story = Story(Policy(run_timeout_seconds=100)).starts().passes(after_s=50)
    cut = story.difference(run_timeout_seconds=20)
    assert (cut.kind, cut.recorded) == (DifferenceKind.CUT_OFF, "ended 51.0 s into the run")
    assert story.under(run_timeout_seconds=60).verdict == "same"


def test_a_timeout_that_was_the_runs_and_not_the_steps() -> None:
    stopped = Facts(kind=FailureKind.WALL_TIMEOUT, duration_ms=50_000)
    story = Story(Policy(run_timeout_seconds=50, step_max_attempts=1)).starts()
    story.fails(story.ended(retryable=True), facts=stopped, redeliver=True, after_s=49)
    assert story.under(step_timeout_seconds=2_000).verdict == "same"
    assert story.difference(run_timeout_seconds=500).kind is DifferenceKind.NOT_CUT_OFF


def test_the_wait_that_was_spent_more_is_missing_later() -> None:
    story = Story(Policy(run_timeout_seconds=100))
    story.starts().retried(500, after_s=10).starts(after_s=2).retried(1_000, after_s=10)
    story.starts(after_s=2).passes()
    found = story.under(backoff_ms=40_000)
    assert [one.kind for one in found.differences] == [
        DifferenceKind.OTHER_WAIT,
        DifferenceKind.STOPS_EARLIER,
    ]
    assert "run_timeout" in found.differences[-1].instead


def test_where_a_step_ended_that_would_have_stopped_earlier() -> None:
    story = Story(Policy())
    story.starts().retried().starts().fails(story.ended(), facts=Facts(kind=FailureKind.CONNECTION_LOST))
    given_up = story.difference(step_max_attempts=1)
    assert (given_up.attempts_saved, given_up.recovery_lost) == (1, False)
    cancelled = Story(Policy()).starts().retried().tell(ev.RunCancelled(reason="", actor="op"))
    assert cancelled.difference(step_max_attempts=1).attempts_saved == 0
    going = Story(Policy()).starts().retried().starts()
    assert going.difference(step_max_attempts=1).attempts_saved == 1


def test_tokens_shift_with_the_budget() -> None:
    story = Story(Policy(retry_tokens=100)).starts().retried(retry_tokens=60.0).starts().passes()
    assert story.under(retry_tokens=110).verdict == "same"
    assert "retry_tokens" in story.difference(retry_tokens=70).instead
    old = Story(Policy()).starts().retried(retry_tokens=None)
    assert old.under(retry_tokens=2).verdict == "same", "ledgers from before tokens were recorded"


def test_a_dead_letter_says_that_the_class_may_be_delivered_again() -> None:
    story = Story(Policy(delivery_max=1)).starts()
    story.fails(
        ev.SelfHealExhausted(**story.about, retryable=False),
        ev.Escalated(escalation_id="e", reason="x", hint=""),
        dead(),
    )
    failed = next(event.payload for event in story.events if isinstance(event.payload, ev.AttemptFailed))
    assert recorded(failed, [dead()]).redeliver


@pytest.mark.parametrize(
    "keys",
    [
        {"failure_class": None},
        {"policy_digest": None},
        {"phase": "rescue"},
        {"not_begun": True},
    ],
)
def test_what_nobody_was_asked_about_is_no_decision(keys: dict[str, Any]) -> None:
    story = Story(Policy()).starts().fails(**keys)
    assert not is_decision(story.events[-1].payload)
    assert is_decision(Story(Policy()).starts().fails().events[-1].payload)


def test_a_decision_whose_policy_is_gone_cannot_be_made_again() -> None:
    story = Story(Policy()).starts().retried()
    ((_, then, again),) = decisions("r", story.events, lambda _digest: None)
    assert (then.strategy, again) == ("soft_reset", None)


def test_keys_that_differ() -> None:
    assert differing_keys(Policy(check_s=1, backoff_ms=7), Policy()) == {"check_s", "backoff_ms"}


# Modes


def failed(run_id: str = "r") -> ev.WorkflowStepResult:
    return ev.WorkflowStepResult(run_id=run_id, step_id="a", result="failed", attempts=1)


def start(kind: str = "run") -> ev.AttemptStarted:
    return ev.AttemptStarted(
        step_id="a",
        step_index=0,
        attempt=1,
        delivery=1,
        kind=kind,
        args_digest="a",
        pre_state=None,
        workspace=None,
        inline=True,
    )


STRICT = Policy(workflow_fail_max_in_window=1, quarantine_duration_s=60)


def quarantined() -> WorkflowReplay:
    one = WorkflowReplay(workflow="w")
    heard(one, failed(), START, STRICT)
    judge(one, STRICT)
    assert one.health.mode is Mode.QUARANTINED
    return one


def test_what_was_before_the_time_that_is_looked_at_is_as_it_was() -> None:
    one = WorkflowReplay(workflow="w")
    as_it_was(one, failed(), START)
    judge(one, STRICT)
    assert (one.health.mode, one.results, one.health) == (Mode.RUNNING, 0, one.then)


def test_a_run_that_would_have_been_blocked_counts_no_more() -> None:
    one = quarantined()
    begins(one, "r2", start(), START, STRICT)
    begins(one, "r2", start(), START, STRICT)
    heard(one, failed("r2"), START, STRICT)
    blocked(one, "r2", START, STRICT, STRICT)
    assert (one.withheld_count, one.results, one.let_go_count) == (1, 1, 0)


def test_gates_are_an_operators_and_begin_in_any_mode() -> None:
    one = quarantined()
    begins(one, "r2", start("approve"), START, STRICT)
    assert one.withheld_count == 0


def test_a_mode_whose_time_is_over_ends_when_somebody_asks() -> None:
    one = quarantined()
    later = START.plus_s(60)
    over = ev.WorkflowModeChanged(
        mode=Mode.DEGRADED, previous=Mode.QUARANTINED, reason="over", half_open=True
    )
    heard(one, over, later, STRICT)
    assert (one.health.mode, one.health.half_open, one.health.permits) == (Mode.DEGRADED, True, ())
    heard(one, ev.WorkflowProbePermitted(run_id="x"), later, STRICT)
    heard(
        one, ev.WorkflowModeChanged(mode=Mode.QUARANTINED, previous=Mode.DEGRADED, reason="x"), later, STRICT
    )
    assert one.health.mode is Mode.DEGRADED, "what the rules said then is not heard"


def test_lists_are_bounded_and_counts_are_not() -> None:
    one = quarantined()
    for number in range(KEPT_MAX + 5):
        begins(one, f"r{number}", start(), START, STRICT)
        heard(
            one,
            ev.WorkflowModeChanged(mode=Mode.QUARANTINED, previous=Mode.RUNNING, reason="x"),
            START,
            STRICT,
        )
    assert (len(one.withheld), one.withheld_count, len(one.recorded)) == (KEPT_MAX, KEPT_MAX + 5, KEPT_MAX)
    free = WorkflowReplay(workflow="w")
    shut = ev.WorkflowModeChanged(mode=Mode.PAUSED, previous=Mode.RUNNING, reason="x")
    heard(free, shut, START, STRICT)
    for number in range(KEPT_MAX + 5):
        blocked(free, f"r{number}", START, STRICT, STRICT)
    assert (len(free.let_go), free.let_go_count) == (KEPT_MAX, KEPT_MAX + 5)


def test_nothing_to_judge_is_not_judged() -> None:
    one = WorkflowReplay(workflow="w")
    judge(one, STRICT)
    assert one.seq == 0
