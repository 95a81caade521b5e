"""What the console's desk makes of recorded facts, without a browser."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from recoup.documents.plan_file import parse_plan
from recoup.gateway.access import Principal, Role
from recoup.gateway.console.audit_views import Wanted, audit_line, fits, since_us
from recoup.gateway.console.escalation_views import advice_for, why_not_decide, why_not_move
from recoup.gateway.console.heal_views import Boxed, diff_lines, over_picture, picture_size, sketch
from recoup.gateway.console.health_charts import recovery_chart
from recoup.gateway.console.inbox import Approval, Item
from recoup.gateway.console.policy_views import changed_keys, groups, history, spoken_value
from recoup.gateway.console.probe_views import lines_of, orders_of, resources_of, told_by
from recoup.gateway.console.workflow_views import (
    buckets,
    by_care,
    cause_of,
    counters,
    middle_by_bucket,
    recovery_times,
    runs_by_end,
)
from recoup.kernel.breaker import fold_health, rule
from recoup.kernel.modes import mode_document
from recoup.model.events import (
    Event,
    Payload,
    PolicyGeneration,
    PolicyRefused,
    WorkflowStepResult,
    decode_payload,
)
from recoup.model.instant import Instant
from recoup.model.mode import Health, Mode
from recoup.model.policy import Policy
from recoup.model.redacted import restored
from recoup.model.run import RunEscalation, RunState, RunStatus, StepRecord, Submission
from recoup.model.storage import Arrival, RunRow
from recoup.model.target import Box
from recoup.model.vector import Vector

HOUR_US = 3_600_000_000
OPERATOR = Principal("tok-1", "ada", Role.OPERATOR)


def at(seconds: float) -> Instant:
    return Instant(round(seconds * 1e6), 0, "boot-1")


def event(seq: int, seconds: float, payload: Payload) -> Event:
    return Event("s", seq, at(seconds), payload.TYPE, payload, msgspec.json.encode(payload))


def plain(seq: int, kind: str, body: dict[str, Any]) -> Event:
    raw = msgspec.json.encode(body)
    return Event("s", seq, at(seq), kind, decode_payload("nothing of ours", raw), raw)


def result(seq: int, seconds: float, kind: str, step: str = "a") -> Event:
    return event(seq, seconds, WorkflowStepResult(run_id="r", step_id=step, result=kind, attempts=1))


# Heals


def test_the_size_of_a_picture_is_read_from_its_head_and_never_believed_blindly() -> None:
    png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 400)
    jpeg = (
        b"\xff\xd8"
        + b"\xff\xe0\x00\x04ab"
        + b"\xff\xc0\x00\x0b\x08"
        + struct.pack(">HH", 400, 640)
        + b"\0" * 9
    )
    assert picture_size(png) == picture_size(jpeg) == (640, 400)
    huge = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 1 << 30, 1)
    assert [picture_size(one) for one in (huge, b"", b"GIF89a", png[:20], jpeg[:9])] == [None] * 5


def test_boxes_are_drawn_over_a_picture_only_where_all_of_them_can_be_in_it() -> None:
    inside, outside = Boxed(Box(1, 2, 3, 4), "taken", "taken"), Boxed(Box(1, 900, 3, 4), "next", "next")
    assert "rect" in over_picture("/p", (640, 400), [inside], "a page")
    assert "rect" not in over_picture("/p", (640, 400), [inside, outside], "a page")


def test_words_in_drawings_are_escaped() -> None:
    drawn = sketch([Boxed(Box(1, 2, 3, 4), "taken", '"><script>')])
    assert "<script" not in drawn and "&lt;script" in drawn


def test_a_patch_is_told_line_by_line() -> None:
    kinds = [kind for kind, _ in diff_lines("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n")]
    assert kinds == ["file", "file", "hunk", "del", "add", ""]


# Workflows


def test_time_is_cut_into_hours_or_days_and_never_into_many() -> None:
    assert buckets([]).labels == ()
    hours = buckets([0, 3 * HOUR_US])
    assert len(hours.labels) == 4 and hours.place(2 * HOUR_US) == 2
    days = buckets([0, 1000 * 24 * HOUR_US])
    assert len(days.labels) == 48 and days.place(0) is None, "the newest are kept"


def test_runs_are_counted_by_how_they_ended() -> None:
    rows = [
        RunRow(str(n), "w", status, 1, n, n, "", 1)
        for n, status in enumerate(["succeeded", "dead_letter", "running", "succeeded"])
    ]
    assert runs_by_end(rows)[1] == {"succeeded": [2.0], "failed": [1.0], "other": [1.0]}


def test_a_recovery_lasts_from_the_first_failure_of_its_step() -> None:
    events = [
        result(1, 10, "attempt_failed"),
        result(2, 12, "attempt_failed"),
        result(3, 11, "attempt_failed", "b"),
        result(4, 15, "recovered"),
        result(5, 16, "failed", "b"),
        result(6, 17, "passed"),
    ]
    assert [seconds for _, seconds in recovery_times(events)] == [5.0]
    assert middle_by_bucket([(0, 1.0), (1, 9.0), (2, 3.0)])[1] == [3.0]
    assert "Time to recover" in recovery_chart(events) and not recovery_chart([])


def test_a_cause_leads_to_its_run_or_says_that_it_was_forgotten() -> None:
    assert cause_of("w", 3, result(3, 1, "failed")).run_id == "r"
    assert cause_of("w", 3, None).words == "was forgotten"


def test_workflows_that_need_somebody_come_first() -> None:
    now = Instant(10**15, 10**9, "boot")
    modes = [
        mode_document(name, Health(mode=mode), Policy(), now)
        for name, mode in (("a", Mode.RUNNING), ("c", Mode.DEGRADED), ("b", Mode.PAUSED))
    ]
    assert [document.workflow for document in by_care(modes)] == ["b", "c", "a"]


# Escalations


def item(**more: Any) -> Item:
    said: dict[str, Any] = {
        **{"number": 1, "id": "e", "source": "probe", "state": "open", "assignee": None, "reason": "r"},
        **{"run_id": None, "probe_id": "dev", "raised_at_us": None, "event": {"resource_id": "api"}},
    }
    return Item(**{**said, **more})


def test_moves_are_refused_in_words() -> None:
    viewer = Principal("tok-2", "bob", Role.VIEWER)
    assert why_not_move(viewer, "open", "resolve") == "A viewer may only look."
    assert why_not_move(OPERATOR, "assigned", "acknowledge") == "It is assigned already."
    assert not why_not_move(OPERATOR, "assigned", "resolve")


@pytest.mark.parametrize(
    ("state", "token", "approves", "words"),
    [
        ("waiting", "tok-1", True, "You asked for it: somebody else must decide."),
        ("waiting", "tok-9", True, ""),
        ("approved", "tok-9", True, ""),
        ("approved", "tok-9", False, "It is approved."),
        ("expired", "tok-9", True, "It is expired."),
    ],
)
def test_nobody_agrees_to_what_they_asked_for(state: str, token: str, approves: bool, words: str) -> None:
    said: dict[str, Any] = {
        **{"ref": "a", "action": "mode", "target": "w", "request": {}, "asked_by": "x", "token_id": token},
        **{"reason": "r", "asked_at": "", "expires_at": "", "state": state},
    }
    asked = Approval(**said)
    assert why_not_decide(OPERATOR, asked, approves) == words


def test_a_probes_escalation_comes_with_commands_that_can_be_pasted() -> None:
    lines = [one.command for one in advice_for(item(), None)]
    assert "recoup probe reset-budget api --probe dev --reason '...'" in lines
    (gone,) = advice_for(item(probe_id=None, run_id="r"), None)
    assert "forgotten" in gone.text and gone.command is None


def test_a_step_to_be_settled_is_named_in_the_command() -> None:
    plan = parse_plan("{version: 1, name: w, steps: [{id: pay, run: 'true'}]}", "plan.yaml", "/")
    state = RunState(
        "r",
        "w",
        plan,
        Submission(at(0), "sha256:1", False, "sha256:2"),
        status=RunStatus.ESCALATED,
        steps=Vector.of([StepRecord("pay", 0, "run")]),
        escalation=RunEscalation(step_index=0),
    )
    asked = item(probe_id=None, run_id="r", event={"stepId": "pay"})
    lines = [one.command for one in advice_for(asked, state)]
    assert lines[1:3] == [
        "recoup control r settle --step pay --as done --reason '...'",
        "recoup control r settle --step pay --as not-done --reason '...'",
    ]


# Probes


def test_a_probe_stands_where_its_events_left_it() -> None:
    base = {"resource_id": "t"}
    told = told_by([
        plain(1, "PhaseChanged", {**base, "phase": "running", "health": "healthy", "reason": "up"}),
        plain(2, "probe.reported", {"event": {**base, "type": "RecoveryPlanned", "action": "restart"}}),
        plain(3, "RecoveryAttempted", {**base, "fault_class": "exited", "retry_count": 2, "action": "restart"}),
        plain(4, "Escalated", {**base, "fault_class": "exited", "phase": "failed", "reason": "spent"}),
        plain(5, "ChannelDowngraded", {**base, "from": "push", "to": "poll", "reason": "slow"}),
        plain(6, "probe.reported", {"event": "not an event"}),
    ])  # fmt: skip
    (one,) = resources_of(told)
    assert (one.phase, one.retries, one.exhausted, one.mode) == ("failed", {"exited": 2}, ("exited",), "poll")
    assert one.planned == ""
    odd, downgraded, escalated = lines_of(told, 3)
    assert (odd.type, odd.words) == ("probe.reported", "unreadable: it is not an object")
    assert (downgraded.type, escalated.type) == ("ChannelDowngraded", "Escalated")
    assert downgraded.words == "from push to poll: slow"


def test_an_order_is_shown_with_what_became_of_it() -> None:
    ordered = {
        "commandId": "c",
        "command": {"action": "restart", "resource_id": "t"},
        "by": "ada",
        "reason": "now",
    }
    commands = [plain(1, "probe.command.ordered", ordered)]
    told = told_by([plain(2, "CommandHandled", {"command_id": "x", "command": "act", "outcome": "refused"})])
    assert [(one.command_id, one.outcome) for one in orders_of(commands, told, 9)] == [
        ("x", "refused"),
        ("c", "waiting"),
    ]
    commands.append(plain(3, "probe.command.handled", {"commandId": "c", "outcome": "accepted"}))
    assert orders_of(commands, [], 9)[0].outcome == "accepted"
    odd_ids: tuple[Any, ...] = ({}, [], None, 7)
    odd = told_by([plain(4, "CommandHandled", {"command_id": name}) for name in odd_ids])
    assert [one.command_id for one in orders_of(commands, odd, 9)] == ["c"]


# The audit and the policy


def arrival(body: dict[str, Any], kind: str = "task.control", stream: str = "run:r") -> Arrival:
    return Arrival(1, stream, 1, at(1), kind, restored(msgspec.json.encode(body)))


def test_an_event_says_who_did_what_and_why() -> None:
    line = audit_line(
        arrival({"actor": "Ada", "reason": "late", "action": "pause", "plan": {"much": "of it"}})
    )
    assert (line.who, line.why, line.about, line.run_id) == ("Ada", "late", "action: pause", "r")
    assert line.body["plan"] == "…"


def test_the_audit_is_filtered_by_beginnings_and_by_who() -> None:
    one = arrival({"actor": "Ada (operator)"})
    assert fits(one, Wanted(type="task.", stream="run:", who="ada"))
    assert not fits(one, Wanted(who="bob")) and not fits(one, Wanted(type="probe"))


def test_a_time_that_is_not_understood_is_none() -> None:
    assert since_us("2s", 10_000_000) == 8_000_000
    assert since_us("", 1) is None and since_us("yesterday", 1) is None


def test_every_key_of_the_policy_is_shown_once_with_its_meaning() -> None:
    shown = [value for group in groups(Policy(step_max_attempts=7)) for value in group.values]
    assert [value.key for value in shown] == list(Policy.__struct_fields__)
    assert all(value.meaning for value in shown)
    assert [value.key for value in shown if value.changed] == ["step_max_attempts"]
    assert spoken_value([True, 1_000, {}]) == "yes, 1,000, none"


def test_each_generation_says_what_it_changed() -> None:
    one, two = Policy(delivery_max=1), Policy(delivery_max=1, polls=True)
    bodies = {"d1": msgspec.json.encode(one), "d2": msgspec.json.encode(two)}
    told = [
        event(1, 1, PolicyGeneration(policy_digest="d1", source="file")),
        event(2, 2, PolicyRefused(source="file", file_digest="f", reason="line 1")),
        event(3, 3, PolicyGeneration(policy_digest="d2", source="file")),
        event(4, 4, PolicyGeneration(policy_digest="gone", source="file")),
    ]
    found = history(told, bodies)
    assert [one.changes for one in found] == [[], [("polls", "no", "yes")], [], [("delivery_max", "3", "1")]]
    assert [one.known for one in found] == [False, True, True, True] and found[2].refused == "line 1"
    assert changed_keys(one, one) == []


def test_a_stopped_workflow_shows_how_near_the_limits_it_was() -> None:
    now = Instant(10**15, 10**9, "boot")
    health = Health()
    for seq in range(1, 11):
        failed = WorkflowStepResult(run_id=f"r{seq}", step_id="s", result="failed", attempts=1)
        health = fold_health(health, failed, now, seq)
        for payload in rule(health, Policy(), now, seq, ended=True).payloads:
            health = fold_health(health, payload, now, seq)
    document = mode_document("w", health, Policy(), now)
    assert (document.mode, document.counters.failures_in_window) == ("quarantined", 0)
    _, in_window, _ = counters(document, Policy())
    assert (in_window.used, in_window.limit) == (10, 10)
    assert in_window.words.endswith("(when it was quarantined)")
    older = msgspec.structs.replace(document, counters_at_change=None)
    assert counters(older, Policy())[1].used == 0, "a version before did not record it"
