"""What to do next about a run: for each state the commands that help, and the same words everywhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.altered import altered

from recoup.documents.plan_file import parse_plan
from recoup.kernel.advice import Advice, advice, hint_of, retry_advice, settle_advice
from recoup.kernel.documents import run_document
from recoup.kernel.records import with_steps
from recoup.model.failure import FailureKind
from recoup.model.instant import Instant
from recoup.model.run import RunState, RunStatus, StepRecord, Submission, Unreadable
from recoup.model.vector import Vector
from recoup.operations.bulk import _why_not

PLAN = parse_plan(
    """
    version: 1
    name: nightly
    steps: [{id: a, run: 'true'}, {id: sign_in, browser: {goto: "https://shop.example/"}}]
    """,
    "plan.yaml",
    "/",
)
RESUME = "recoup resume r1"


def standing(**facts: Any) -> RunState:
    steps = Vector.of(StepRecord(step.id, index, "run") for index, step in enumerate(PLAN.steps))
    submission = Submission(Instant(0, 0, "boot"), "sha256:1", False, "sha256:2")
    return altered(RunState("r1", "nightly", PLAN, submission, steps=steps), **facts)


def commands(state: RunState, driven: bool | None = False) -> list[str | None]:
    return [one.command for one in advice(state, driven)]


def waiting(what: str, **facts: Any) -> RunState:
    return standing(status=RunStatus.WAITING, hold__waiting_for=what, **facts)


def test_who_comes_to_a_gate_is_told_to_answer_and_not_to_resume() -> None:
    assert commands(waiting("approval")) == [
        "recoup control r1 approve --reason '...'",
        "recoup control r1 reject --reason '...'",
    ]


def test_of_a_run_that_no_worker_has_taken_it_says_who_could_and_where_to_look() -> None:
    run = standing(queueing__queue="special", queueing__needs=("gpu",))
    assert "a worker of the queue special that has gpu takes it" in advice(run)[0].text
    assert commands(run) == [None, "recoup workers", "recoup mode nightly", RESUME]


@pytest.mark.parametrize("what", ["driver", "time"])
def test_a_run_of_a_queue_that_only_waits_for_a_driver_is_taken_by_a_worker(what: str) -> None:
    assert (
        "a worker of the queue special takes it"
        in advice(waiting(what, queueing__queue="special"), False)[0].text
    )


def test_a_run_that_was_paused_is_resumed_where_it_is_driven() -> None:
    assert commands(waiting("operator")) == [RESUME]
    queued = waiting("operator", queueing__queue="default", hold__takeover=True)
    assert commands(queued) == ["recoup control r1 resume --reason '...'"]
    assert "was taken over" in advice(queued)[0].text


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        ({}, "Start it"),
        ({"status": RunStatus.RUNNING, "driver__interrupted": True}, "Resume it where it stopped"),
        (
            {"status": RunStatus.RUNNING, "driver__interrupted": True, "driver__in_trouble": True},
            "fix that first",
        ),
        ({"status": RunStatus.WAITING, "hold__waiting_for": "driver"}, "Resume it"),
        (
            {
                "status": RunStatus.WAITING,
                "hold__waiting_for": "time",
                "hold__waiting_until": "2026-01-01T00:00:00Z",
            },
            "before 2026-01-01T00:00:00Z",
        ),
        ({"status": RunStatus.FAILED, "failure__retryable": True}, "worth another try"),
        ({"status": RunStatus.CANCELLED}, "continue it in a new run"),
        ({"status": RunStatus.FAILED}, "Fix the cause"),
    ],
)
def test_a_run_that_only_people_drive_is_resumed(facts: dict[str, Any], first: str) -> None:
    assert first in advice(standing(**facts), False)[0].text
    assert commands(standing(**facts)) == [RESUME]


def test_a_run_that_is_driven_is_watched_and_where_nobody_knows_both_are_said() -> None:
    running, watch = standing(status=RunStatus.RUNNING), "recoup events r1 --follow"
    assert commands(running, True) == [watch]
    assert commands(running, None) == [watch, RESUME]
    assert commands(running, False) == [RESUME]


def test_a_failed_run_of_a_queue_is_tried_again_by_a_worker_until_it_is_given_up() -> None:
    again = standing(status=RunStatus.FAILED, failure__retryable=True, queueing__queue="default")
    assert advice(again)[0].text.startswith("Nothing to do")
    dead = standing(status=RunStatus.DEAD_LETTER, queueing__queue="default")
    dead = with_steps(dead, altered(dead.steps[0], spent__attempts=3))
    assert commands(dead) == ["recoup logs r1 a", "recoup queue retry r1"]


def test_a_blocked_run_waits_for_its_workflow() -> None:
    blocked = standing(status=RunStatus.BLOCKED)
    assert commands(blocked) == ["recoup mode nightly", RESUME]
    assert commands(altered(blocked, queueing__queue="default")) == ["recoup mode nightly", None]


def test_an_unknown_outcome_is_settled_one_way_or_the_other() -> None:
    asked = standing(status=RunStatus.ESCALATED, escalation__step_index=0)
    assert advice(asked) == settle_advice("r1", "a")
    assert commands(asked) == [
        None,
        "recoup control r1 settle --step a --as done --reason '...'",
        "recoup control r1 settle --step a --as not-done --reason '...'",
    ]
    lost = standing(status=RunStatus.ESCALATED, escalation__step_index=1)
    lost = with_steps(lost, altered(lost.steps[1], failure__kind=FailureKind.BROWSER_CRASHED))
    assert "cookies" in advice(lost)[0].text and "cookies" not in advice(asked)[0].text


def test_a_lost_page_is_restored_by_performing_steps_again_or_not_at_all() -> None:
    asked = standing(status=RunStatus.ESCALATED, escalation__step_index=0, page__question=("a", "sign_in"))
    again, as_it_is = advice(asked)
    assert again.text == "To perform a, sign_in again, with all effects" and "not-done" in str(again)
    assert "as it is" in as_it_is.text and "--as done" in str(as_it_is)


def test_an_escalation_about_no_step_is_looked_at_or_ended() -> None:
    assert commands(standing(status=RunStatus.ESCALATED)) == [
        "recoup events r1",
        "recoup control r1 cancel --reason '...'",
    ]


def test_nothing_is_left_to_do_about_a_run_that_succeeded() -> None:
    assert advice(standing(status=RunStatus.SUCCEEDED)) == ()


def test_nobody_acts_on_a_run_that_cannot_be_read() -> None:
    broken = standing(status=RunStatus.FAILED, unreadable=Unreadable(3, "task.run.started", "cut"))
    assert "nobody acts on the run" in advice(broken)[0].text
    assert not any("resume" in (command or "") for command in commands(broken))


def test_the_same_words_are_in_the_document_the_hint_and_the_refusal() -> None:
    gate = waiting("approval")
    document = msgspec.to_builtins(run_document(gate))["advice"]
    assert document == [{"text": one.text, "command": one.command} for one in advice(gate)]
    assert hint_of(advice(gate)) in _why_not(gate)
    assert hint_of((Advice("Look"), retry_advice("r1", None))).startswith("Look. Fix the cause")
