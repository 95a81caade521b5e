"""What is said of an event that cannot be decoded, and of a run that waits for a person."""

from __future__ import annotations

import msgspec
import pytest
from tests.altered import altered
from tests.unit.test_fold import NOW

from recoup.kernel.fold import submitted
from recoup.kernel.modes import unreadable_mode_document
from recoup.kernel.position import waits_for_a_person
from recoup.kernel.unreadable import unreadable_document, unreadable_words
from recoup.model import events as ev
from recoup.model.plan import Plan, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, Unreadable

DAMAGED = Unreadable(7, "task.run.started", "invalid UTF-8")


def test_the_words_name_the_event_where_its_place_is_known() -> None:
    assert unreadable_words(DAMAGED) == "unreadable: event 7 (task.run.started) cannot be read: invalid UTF-8"
    assert unreadable_words(Unreadable(0, "x", "y")).startswith("unreadable: an event (x)")
    assert unreadable_document(None) is None
    assert msgspec.to_builtins(unreadable_document(DAMAGED)) == {
        "seq": 7,
        "type": "task.run.started",
        "reason": "invalid UTF-8",
    }


def test_a_workflow_with_an_unreadable_event_has_a_mode_of_its_own() -> None:
    shown = unreadable_mode_document("sync", DAMAGED, Policy(), NOW)
    assert (shown.workflow, shown.mode) == ("sync", "unreadable")
    assert "event 7 of the workflow cannot be read: invalid UTF-8" in shown.reason


@pytest.mark.parametrize("raw", [b"\xff", b"{", b"[" * 5000])
def test_what_is_not_json_stands_in_no_line(raw: bytes) -> None:
    why = ev.why_unreadable(raw)
    assert why
    line = ev.event_line("run:r", 7, NOW, "task.run.started", raw, why)
    assert (line["runId"], line["payload"], line["unreadable"]) == ("r", None, why)


def test_what_is_json_is_shown_as_it_is() -> None:
    raw = b'{"a": [1]}'
    assert ev.why_unreadable(raw) is None
    line = ev.event_line("policy", 1, NOW, "policy.generation", raw)
    assert bytes(line["payload"]) == raw
    assert line["runId"] is None


@pytest.mark.parametrize(
    ("status", "waiting_for", "waits"),
    [
        (RunStatus.ESCALATED, None, True),
        (RunStatus.WAITING, "operator", True),
        (RunStatus.WAITING, "approval", True),
        (RunStatus.WAITING, "time", False),
        (RunStatus.RUNNING, "approval", False),
    ],
)
def test_who_waits_for_a_person(status: RunStatus, waiting_for: str | None, waits: bool) -> None:
    state = altered(new_state(), status=status, hold__waiting_for=waiting_for)
    assert waits_for_a_person(state) is waits


def new_state() -> RunState:
    plan = Plan(name="sync", steps=(Step(id="a", action=RunAction("true")),))
    first = ev.RunSubmitted(
        workflow="sync", plan_digest="d", plan=plan, plan_redacted=False, inputs={}, policy_digest="p"
    )
    return submitted("r", first, NOW)
