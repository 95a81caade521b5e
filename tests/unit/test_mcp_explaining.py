"""A failure is explained from what can be read, and nothing is advised where nobody may act."""

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
}


def test_an_event_that_cannot_be_read_tells_nothing() -> None:
    line = {"type": "Escalated", "at": "2026-11-18T15:00:00Z"}
    assert is_telling({**line, "payload": {"reason": "look"}})
    assert not is_telling({**line, "payload": None, "unreadable": "truncated"})


def test_nothing_is_advised_for_a_run_with_an_unreadable_event() -> None:
    unreadable = {"seq": 3, "type": "task.run.started", "reason": "truncated"}
    told = explained({**RUN, "unreadable": unreadable}, {"steps": []}, [])
    assert told["unreadable"] == unreadable
    assert "nobody acts on the run" in told["canBeDone"][0]
    assert "submit_plan" in explained(RUN, {"steps": []}, [])["canBeDone"][0]
