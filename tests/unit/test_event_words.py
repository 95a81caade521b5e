"""Every fact of a run has words of its own, and the same ones wherever it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.kernel.description import Tone, Topic, describe
from recoup.kernel.wording import duration, one_line
from recoup.model import events as ev
from recoup.model.failure import Facts, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.mode import Mode
from recoup.model.plan import Plan, RunAction, Step
from recoup.model.workspace import Baseline, Missing, Snapshot

ABOUT: dict[str, Any] = {"step_id": "ask", "step_index": 0, "attempt": 1}
OWNER = ProcessIdentity("here", "boot", 42, 1)
UNTIL = "2026-01-02T03:04:05.000000Z"
PLAN = Plan(name="w", steps=(Step(id="ask", action=RunAction("x")),))
SUBMITTED = ev.RunSubmitted(
    workflow="w", plan_digest="p", plan=PLAN, plan_redacted=False, inputs={}, policy_digest="q"
)
LAUNCHED = ev.AttemptLaunched(**ABOUT, keeper=OWNER)
ENDED: dict[str, Any] = {"reason": "why", "failure_class": None, "failure_kind": None, "delivery": 2}


def started(**more: Any) -> ev.AttemptStarted:
    return ev.AttemptStarted(
        **ABOUT, delivery=1, kind="run", args_digest="d", pre_state=None, workspace=None, inline=False, **more
    )


def finished(verdict: str = "passed", **more: Any) -> ev.AttemptFinished:
    return ev.AttemptFinished(**ABOUT, verdict=verdict, duration_ms=1500, **more)


def told_by_operator(verdict: str, actor: str | None) -> ev.AttemptFinished:
    return finished(verdict, settled_by="operator", actor=actor)


def failed(**more: Any) -> ev.AttemptFailed:
    facts = Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1)
    return ev.AttemptFailed(**ABOUT, summary="exit code 1", outcome_known=True, facts=facts, **more)


def reused(**more: Any) -> ev.StepReused:
    return ev.StepReused(
        **ABOUT, from_run_id="r0", verdict="passed", kind="run", args_digest=None, pre_state=None, **more
    )


def healed(verified: bool) -> ev.TargetHealed:
    return ev.TargetHealed(
        **ABOUT, run_id="r", target="Pay", verified=verified, confidence=0.9, margin=0.2, found_by="text"
    )


def adapted(verified: bool) -> ev.TargetAdapted:
    return ev.TargetAdapted(
        **ABOUT, run_id="r", target="Pay", strategy="timing", verified=verified, took_ms=4000
    )


def handled(outcome: str, detail: str = "") -> ev.ControlHandled:
    return ev.ControlHandled(
        command_id="c",
        action="retry_step",
        outcome=outcome,
        reason="try",
        actor="ada",
        epoch=1,
        detail=detail,
    )


def changed(count: int, kept: bool) -> ev.WorkspaceChanged:
    files = tuple(f"file-{number}" for number in range(count))
    return ev.WorkspaceChanged(
        workspace=1, before="t", snapshot=Snapshot("t", "m"), changed_files=files, changed_files_count=count, kept=kept
    )  # fmt: skip


def lacking(*missing: Missing) -> ev.CheckpointIncomplete:
    return ev.CheckpointIncomplete(**ABOUT, missing=missing, missing_count=len(missing) or 7)


def because(**more: Any) -> dict[str, Any]:
    return {**ABOUT, "reason": "because", **more}


LINES: list[tuple[ev.Payload, str]] = [
    (SUBMITTED, "submitted: w, 1 step"),
    (LAUNCHED, "ask: process 42 performs it"),
    (started(), "ask: attempt 1"),
    (started(strategy="retry", phase="rescue"), "ask: attempt 1 (retry): rescue"),
    (finished(), "ask: passed in 1.5 s"),
    (finished(phase="always"), "ask: always done"),
    (finished(phase="always", reason="exit code 1"), "ask: always done, exit code 1"),
    (finished(settled_by="already_done"), "ask: was done already, its checks say in 1.5 s"),
    (told_by_operator("passed", "ada"), "ask: approved by ada"),
    (told_by_operator("passed", None), "ask: approved"),
    (told_by_operator("unverified", "ada"), "ask: settled as done by ada"),
    (failed(), "ask: attempt 1 failed: exit code 1"),
    (failed(gives_up=True, reason="enough"), "ask: attempt 1 failed: exit code 1"),
    (
        ev.SelfHealTriggered(**because(strategy="soft_reset"), delay_ms=500),
        "ask: soft reset: because, next attempt in 500 ms",
    ),
    (ev.SelfHealEscalated(**because(), delay_ms=0), "ask: recovery: because"),
    (ev.SelfHealExhausted(**because(), retryable=False), "ask: recovery exhausted: because"),
    (reused(), "ask: reused, passed in run r0"),
    (reused(skipped=True), "ask: reused, skipped in run r0"),
    (ev.StepInvalidated(**because()), "ask: no longer known to be good: because"),
    (ev.StepSkipped(**because()), "ask: skipped, because"),
    (ev.ResumeFromStep(**because()), "going on from ask: because"),
    (healed(True), "ask: took another element for Pay: verified, 90% sure, 20% ahead"),
    (adapted(False), "ask: Pay came after 4.0 s: unverified"),
    (
        ev.TargetRejected(**because(), run_id="r", target="Pay"),
        "ask: nothing was taken for Pay: because",
    ),
    (ev.BrowserReset(**because()), "ask: a new browser"),
    (
        ev.PageLost(**because(), steps=("a", "b")),
        "ask: because; performed again to get the page back: a, b",
    ),
    (lacking(Missing("x", "a socket")), "ask: the checkpoint lacks 1 path, such as x (a socket)"),
    (lacking(), "ask: the checkpoint lacks 7 paths"),
    (
        ev.SecretFound(**because(), names=("TOKEN",), where="the log"),
        "ask: the secret TOKEN lies in the log",
    ),
    (ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="q"), "started"),
    (
        ev.RunStarted(
            delivery=1,
            epoch=1,
            owner=OWNER,
            policy_digest="q",
            baseline=Baseline("t", "m", "0123456789abcdef"),
        ),
        "started at 0123456789ab",
    ),
    (ev.RunTakenOver(epoch=2, previous_epoch=1, previous_owner=None, reason="lost"), "taken over: lost"),
    (ev.RunResumed(delivery=2, epoch=2, owner=OWNER, reason="again"), "resumed: again"),
    (ev.RunInterrupted(reason="Ctrl-C", epoch=1), "interrupted: Ctrl-C"),
    (
        ev.CheckpointRestored(step_index=None, tree="t", workspace=1, reason="reset"),
        "workspace restored from the beginning: reset",
    ),
    (
        ev.CheckpointRestored(step_index=0, step_id="ask", tree="t", workspace=1, reason="reset"),
        "workspace restored from the end of ask: reset",
    ),
    (ev.RunWaiting(reason="cooldown", until=UNTIL), f"waiting: cooldown until {UNTIL}"),
    (ev.RunBlocked(reason="paused"), "blocked: paused"),
    (ev.Escalated(escalation_id="e", reason="it is lost", hint="Look"), "handed over: it is lost"),
    (ev.RunSucceeded(known_good_prefix_length=1, reason="done"), "succeeded: done"),
    (ev.RunFailed(**ENDED, retryable=True), "failed: why"),
    (ev.RunFailed(**ENDED, retryable=False), "failed: why"),
    (ev.RunDeadLettered(**ENDED), "dead letter: why"),
    (ev.RunCancelled(reason="wrong", actor="ada"), "cancelled: wrong"),
    (
        ev.WorkflowModeChanged(mode=Mode.PAUSED, previous=Mode.RUNNING, reason="upgrade"),
        "the workflow is paused now: upgrade",
    ),
    (
        ev.WorkflowModeChanged(mode=Mode.RUNNING, previous=Mode.PAUSED, reason="done"),
        "the workflow is running now: done",
    ),
    (handled("accepted"), "retry_step accepted: try"),
    (handled("refused", "no"), "retry_step refused: no"),
    (ev.WorkspaceHandedOver(actor="ada"), "the workspace was handed over to ada"),
    (changed(1, kept=True), "an operator changed 1 file"),
    (changed(12, kept=False), "an operator changed 12 files, not kept"),
]


@pytest.mark.parametrize(("payload", "words"), LINES)
def test_a_fact_has_words(payload: ev.Payload, words: str) -> None:
    description = describe(payload)
    assert description is not None and one_line(description.text) == words
    assert description.label and description.tone in Tone


@pytest.mark.parametrize("tell", [ev.UnknownPayload(), ev.StepPayload(**ABOUT)], ids=["unknown", "a step's"])
def test_what_no_version_of_ours_has_written_has_no_words(tell: ev.Payload) -> None:
    assert describe(tell) is None


def test_what_nobody_wants_to_watch_has_no_line() -> None:
    assert [one for one in (SUBMITTED, LAUNCHED) if (told := describe(one)) is None or told.live] == []


def test_a_report_tells_the_same_fact_in_columns() -> None:
    told = [
        describe(one) for one in (failed(gives_up=True, reason="enough"), handled("refused", "no"), failed())
    ]
    columns = [(one.topic, one.label, one.about, one.detail) for one in told if one is not None]
    assert columns == [
        (Topic.DECISION, "given up", "ask", "enough"),
        (Topic.CONTROL, "retry step refused", "ada", "try (no)"),
        (Topic.NONE, "failed", "ask", "exit code 1"),
    ]


def test_a_heal_that_proved_nothing_is_no_good_news() -> None:
    tones = [one.tone for fact in (healed(True), healed(False), adapted(True)) if (one := describe(fact))]
    assert tones == [Tone.GOOD, Tone.WARN, Tone.GOOD]


def test_an_escalation_says_what_to_do_on_a_line_of_its_own() -> None:
    told = describe(ev.Escalated(escalation_id="e", reason="it is lost", hint="Look", step_id="ask"))
    assert told is not None and (told.hint, told.about) == ("Look", "ask")
    assert msgspec.structs.asdict(told)["topic"] is Topic.DECISION


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.5, "500 ms"), (59.0, "59.0 s"), (61.0, "1 min 01 s"), (7_260.0, "2 h 01 min")]
)
def test_lengths_of_time_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_words_about_targets_are_made_in_one_place() -> None:
    source = Path(__file__).parents[2] / "src" / "recoup"
    makers = {
        str(path.relative_to(source)) for path in source.rglob("*.py") if "healed_words" in path.read_text()
    }
    assert makers == {"kernel/description.py", "kernel/healing.py"}
