"""What `recoup show` says to do next."""

from __future__ import annotations

from typing import Any

from recoup.cli.look import advice_of
from recoup.documents.plan_file import parse_plan
from recoup.model.instant import Instant
from recoup.model.run import RunState, RunStatus

PLAN = parse_plan("{version: 1, name: nightly, steps: [{id: a, run: 'true'}]}", "plan.yaml", "/")


def standing(**said: Any) -> RunState:
    return RunState("r1", "nightly", PLAN, "sha256:1", False, "sha256:2", Instant(0, 0, "boot"), **said)


def test_who_comes_to_a_gate_is_told_to_answer_and_not_to_resume() -> None:
    said = advice_of(standing(status=RunStatus.WAITING, waiting_for="approval"), driven=False)
    assert said == [
        "recoup control r1 approve --reason '...'",
        "recoup control r1 reject --reason '...'",
    ]


def test_of_a_run_that_no_worker_has_taken_it_says_who_could_and_where_to_look() -> None:
    (said,) = advice_of(standing(queue="special", needs=("gpu",)), driven=False)
    assert "a worker of the queue special that has gpu" in said
    assert "recoup workers, recoup queue, recoup mode nightly" in said and "recoup resume r1" in said


def test_a_run_of_a_queue_that_only_waits_for_a_driver_is_taken_by_a_worker() -> None:
    waits = standing(status=RunStatus.WAITING, waiting_for="driver", queue="special")
    assert "a worker of the queue special takes it" in advice_of(waits, driven=False)[0]


def test_a_run_that_was_paused_is_resumed() -> None:
    assert advice_of(standing(status=RunStatus.WAITING, waiting_for="operator"), driven=False) == [
        "recoup resume r1"
    ]
