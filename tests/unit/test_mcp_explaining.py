"""A failure is explained from what can be read, and what can be done is what the run document advises."""

from __future__ import annotations

from recoup.mcp.explaining import explained, is_telling

RUN = {
    **dict.fromkeys(
        ("workflow", "reason", "failureClass", "failureKind", "waitingFor", "waitingUntil", "liveControl")
    ),
    "runId": "r",
    "status": "failed",
    "retryable": False,
    "knownGoodPrefixLength": 0,
    "frontier": None,
    "advice": [
        {"text": "Fix it, then try again", "command": "recoup resume r"},
        {"text": "Or wait", "command": None},
    ],
}


def test_an_event_that_cannot_be_read_tells_nothing() -> None:
    line = {"type": "Escalated", "at": "2026-11-18T15:00:00Z"}
    assert is_telling({**line, "payload": {"reason": "look"}})
    assert not is_telling({**line, "payload": None, "unreadable": "truncated"})


def test_an_unreadable_event_of_a_run_is_named() -> None:
    unreadable = {"seq": 3, "type": "task.run.started", "reason": "truncated"}
    told = explained({**RUN, "unreadable": unreadable}, {"steps": []}, [])
    assert told["unreadable"] == unreadable


def test_what_can_be_done_is_what_the_run_document_advises() -> None:
    told = explained(RUN, {"steps": []}, [])["canBeDone"]
    assert told == ["Fix it, then try again: recoup resume r", "Or wait."]
    of_an_older_gateway = {key: value for key, value in RUN.items() if key != "advice"}
    assert explained(of_an_older_gateway, {"steps": []}, [])["canBeDone"] == []
