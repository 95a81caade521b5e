"""From events to cached rows."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.fold import fold
from recoup.kernel.position import is_over
from recoup.kernel.projection import (
    PROJECTED,
    SHAPES,
    RowChange,
    Shape,
    attempt_changes,
    changes,
    rebuild,
    with_attempts,
)
from recoup.model import events as ev
from recoup.model.events import PAYLOADS, Event, Payload
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import Plan
from recoup.model.storage import BUCKETS_MAX, AttemptRow, CheckpointRow, HealRow, RunRow, Span, Wanting
from recoup.model.workspace import Snapshot

START = Instant(1_000_000, 1_000_000, "boot")
CLASS = FailureClass.UNKNOWN
OWNER = ProcessIdentity("here", "boot", 1, 2)
ROWS = {"runs": RunRow, "attempts": AttemptRow, "checkpoints": CheckpointRow, "heals": HealRow}
KEYS = {
    "runs": {"run_id"},
    "attempts": {"run_id", "step_index", "attempt"},
    "checkpoints": {"run_id", "step_index"},
    "heals": {"run_id", "step_index", "attempt"},
}

SUBMITTED = ev.RunSubmitted(
    workflow="w",
    plan_digest="p",
    plan=Plan(name="w", steps=()),
    plan_redacted=False,
    inputs={},
    policy_digest="q",
)
RUN_PAYLOADS: dict[str, Payload] = {
    "running": ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="q"),
    "waiting": ev.RunWaiting(reason="gate"),
    "blocked": ev.RunBlocked(reason="quarantined"),
    "succeeded": ev.RunSucceeded(known_good_prefix_length=0, reason="done"),
    "failed": ev.RunFailed(reason="no", failure_class=CLASS, failure_kind=None, retryable=True, delivery=1),
    "cancelled": ev.RunCancelled(reason="stop", actor="op"),
    "dead_letter": ev.RunDeadLettered(reason="no", failure_class=None, failure_kind=None, delivery=3),
    "escalated": ev.Escalated(escalation_id="e", reason="decide", hint="", failure_class=CLASS),
}
OTHERS: list[Payload] = [
    ev.RunResumed(delivery=2, epoch=2, owner=OWNER, reason="again"),
    ev.RunFailed(reason="no", failure_class=None, failure_kind=None, retryable=False, delivery=1),
    ev.RunInterrupted(reason="Ctrl-C", epoch=1),
    ev.RunTakenOver(epoch=2, previous_epoch=1, previous_owner=None, reason="dead"),
]


def events(payloads: Sequence[Payload], stream: str = "run:r") -> list[Event]:
    """One a second."""
    return [
        Event(stream, number, START.plus_s(number), payload.TYPE, payload, b"")
        for number, payload in enumerate(payloads, 1)
    ]


def run_row(*payloads: Payload) -> RunRow:
    (row,) = rebuild(events([SUBMITTED, *payloads])).runs
    return row


def started(attempt: int = 1, strategy: str | None = None) -> ev.AttemptStarted:
    return ev.AttemptStarted(
        step_id="s",
        step_index=0,
        attempt=attempt,
        strategy=strategy,
        delivery=1,
        kind="run",
        args_digest="a",
        pre_state=None,
        workspace=None,
        inline=False,
    )


def failed(attempt: int = 1) -> ev.AttemptFailed:
    return ev.AttemptFailed(
        step_id="s",
        step_index=0,
        attempt=attempt,
        failure_class=FailureClass.UNKNOWN,
        failure_kind=FailureKind.EXIT_NONZERO,
        failure_signature="sig",
        diff_hash="d",
        facts=Facts(kind=FailureKind.EXIT_NONZERO, exit_code=2),
        summary="",
        outcome_known=True,
    )


def stored(attempt: int) -> ev.CheckpointStored:
    snapshot = Snapshot(tree=f"tree-{attempt}", manifest="m")
    return ev.CheckpointStored(step_id="s", step_index=0, attempt=attempt, snapshot=snapshot, workspace=1)


def test_a_submitted_run_is_queued() -> None:
    second = START.wall_us + 1_000_000
    assert run_row() == RunRow("r", "w", "queued", 0, second, second, "", 1)


@pytest.mark.parametrize(("status", "payload"), RUN_PAYLOADS.items())
def test_the_last_event_of_a_run_gives_its_status(status: str, payload: Payload) -> None:
    row = run_row(payload)
    assert (row.status, row.seq) == (status, 2)
    assert row.reason == getattr(payload, "reason", "")


def test_an_interrupted_run_stays_running_with_a_reason() -> None:
    row = run_row(RUN_PAYLOADS["running"], ev.RunInterrupted(reason="Ctrl-C", epoch=1))
    assert (row.status, row.reason) == ("running", "Ctrl-C")


@given(st.lists(st.sampled_from([*RUN_PAYLOADS.values(), *OTHERS])))
def test_a_run_row_says_what_the_fold_says(payloads: list[Payload]) -> None:
    state = fold("r", events([SUBMITTED, *payloads]))
    row = run_row(*payloads)
    assert (row.status, row.reason, row.delivery) == (state.status.value, state.reason, state.driver.delivery)
    assert (row.seq, row.workflow) == (state.seq, state.workflow)
    assert row.failure_class == state.failure.cls
    assert (row.ended_at_us is not None) is is_over(state)
    assert state.clocks.updated_at
    assert row.updated_at_us == state.clocks.updated_at.wall_us


def test_an_attempt_is_followed_to_its_end() -> None:
    launched = ev.AttemptLaunched(step_id="s", step_index=0, attempt=1, keeper=OWNER)
    done = ev.AttemptFinished(step_id="s", step_index=0, attempt=1, verdict="passed", duration_ms=1)
    history = [SUBMITTED, started(strategy="soft_reset"), launched, done]
    states = [rebuild(events(history[:end])).attempts[0] for end in (2, 3, 4)]
    assert [(row.state, row.verdict) for row in states] == [
        ("started", None),
        ("launched", None),
        ("finished", "passed"),
    ]
    assert states[2].strategy == "soft_reset"
    assert (states[2].started_at_us, states[2].ended_at_us) == (3_000_000, 5_000_000)


def test_a_failed_attempt_says_why() -> None:
    (row,) = rebuild(events([SUBMITTED, started(), failed()])).attempts
    assert (row.state, row.verdict, row.failure_kind) == ("failed", "failed", "exit_nonzero")
    assert (row.failure_class, row.failure_signature, row.diff_hash) == ("unknown", "sig", "d")


def test_an_attempt_that_never_began_gives_its_number_to_the_next() -> None:
    (row,) = rebuild(events([SUBMITTED, started(), failed(), started()])).attempts
    assert (row.state, row.verdict, row.failure_kind, row.ended_at_us) == ("started", None, None, None)


def test_an_invalidated_step_has_no_valid_checkpoint_until_the_next() -> None:
    invalid = ev.StepInvalidated(step_id="s", step_index=0, attempt=None, reason="moved")
    history = [SUBMITTED, stored(1), invalid, stored(2)]
    rows = [rebuild(events(history[:end])).checkpoints[0] for end in (2, 3, 4)]
    assert [(row.tree, row.attempt, row.valid) for row in rows] == [
        ("tree-1", 1, True),
        ("tree-1", 1, False),
        ("tree-2", 2, True),
    ]


def test_an_end_without_a_beginning_makes_no_row() -> None:
    rows = rebuild(events([failed(), RUN_PAYLOADS["failed"]]))
    assert (rows.runs, rows.attempts, rows.checkpoints) == ((), (), ())


def test_streams_that_are_not_runs_have_no_rows() -> None:
    assert changes("probe:api", START, SUBMITTED) == ()
    assert changes("run:r", START, ev.UnknownPayload()) == ()


def test_a_run_that_goes_on_or_is_ended_by_somebody_ends_its_escalations() -> None:
    going_on = [ev.RunWaiting(reason="settled"), ev.RunCancelled(reason="x", actor="ada")]
    for payload in going_on:
        *_, last = changes("run:r", START, payload)
        assert (last.shape.table, last.shape.fixed, last.values) == (
            "escalations",
            {"gone_on": True},
            ("run:r",),
        )
    assert len(changes("run:r", START, RUN_PAYLOADS["dead_letter"])) == 1, "that is for a person to say"


def test_what_people_do_about_an_escalation_changes_its_row_alone() -> None:
    about: dict[str, str] = {"escalation_id": "e", "by": "ada", "reason": "mine"}
    told: list[tuple[Payload, str, tuple[str, ...]]] = [
        (ev.EscalationAcknowledged(**about), "acknowledged", ("e",)),
        (ev.EscalationAssigned(**about, assignee="bob"), "assigned", ("bob", "e")),
        (ev.EscalationResolved(**about), "resolved", ("e",)),
    ]
    for payload, said, values in told:
        (change,) = changes("escalation:e", START, payload)
        assert (change.shape.key, change.shape.fixed, change.values) == (("id",), {"said": said}, values)
    assert changes("escalation:e", START, ev.UnknownPayload()) == ()
    assert changes("run:e", START, told[0][0]) == ()


def test_what_is_projected_is_a_known_event() -> None:
    assert set(PAYLOADS) >= PROJECTED


@pytest.mark.parametrize(
    "shape", [one for one in SHAPES if one.table != "escalations"], ids=lambda shape: shape.name
)
def test_a_shape_writes_columns_of_its_row(shape: Shape) -> None:
    fields = set(ROWS[shape.table].__struct_fields__)
    if shape.table == "runs":
        fields |= {*Wanting.__struct_fields__, "wants_driver"}
    written = [*shape.columns, *shape.fixed, *shape.key]
    assert len(written) == len(set(written))
    assert set(shape.key) == KEYS[shape.table]
    # The sequence and the time of a run's last event come from its stream.
    derived = {"seq", "updated_at_us"} if shape.table == "runs" else set()
    assert set(written) == fields - derived if shape.inserts else set(written) <= fields


@given(st.lists(st.sampled_from([SUBMITTED, *RUN_PAYLOADS.values(), started(), failed(), stored(1)])))
def test_changes_carry_a_value_for_each_column(payloads: list[Payload]) -> None:
    for event in events(payloads):
        for change in changes(event.stream, event.at, event.payload):
            assert len(change.values) == len(change.shape.columns) + len(change.shape.key)
            assert {type(value) for value in change.values} <= {str, int, bool, NoneType}


def test_stored_rows_of_attempts_are_brought_up_to_date_by_what_is_about_attempts_only() -> None:
    rows = rebuild(events([SUBMITTED, started()])).attempts
    facts: list[Payload] = [stored(1), ev.RunWaiting(reason="gate"), failed()]
    at = START.plus_s(9)
    (row,) = with_attempts(rows, "run:r", [(at, fact) for fact in facts])
    assert (row.state, row.ended_at_us) == ("failed", at.wall_us)


def launched(attempt: int = 1) -> ev.AttemptLaunched:
    return ev.AttemptLaunched(step_id="s", step_index=0, attempt=attempt, keeper=OWNER)


def finished(attempt: int = 1) -> ev.AttemptFinished:
    return ev.AttemptFinished(
        step_id="s", step_index=0, attempt=attempt, verdict="passed", duration_ms=1, exit_code=0
    )


_OF_TWO = st.sampled_from([make(n) for make in (started, launched, finished, failed) for n in (1, 2)])


@given(st.lists(_OF_TWO), st.lists(_OF_TWO))
def test_changes_of_attempts_come_to_the_same_end_in_fewer(
    before: list[Payload], payloads: list[Payload]
) -> None:
    stored_rows = rebuild(events(before))
    facts = [(event.at, event.payload) for event in events(payloads)]
    few = list(attempt_changes("run:r", facts))
    assert len(few) <= len(facts)
    assert _applied(stored_rows.attempts, few) == with_attempts(stored_rows.attempts, "run:r", facts)


def test_an_attempt_that_starts_and_finishes_is_one_change() -> None:
    facts = [(START, fact) for fact in (started(1), launched(1), finished(1))]
    (change,) = attempt_changes("run:r", facts)
    assert change.shape.inserts


def _applied(rows: Sequence[AttemptRow], few: Sequence[RowChange]) -> list[AttemptRow]:
    """As a database would."""
    table = {(row.run_id, row.step_index, row.attempt): msgspec.structs.asdict(row) for row in rows}
    for change in few:
        width = len(change.shape.columns)
        key = cast("tuple[str, int, int]", change.values[width:])
        values = dict(zip(change.shape.columns, change.values[:width], strict=True)) | dict(
            change.shape.fixed
        )
        if change.shape.inserts:
            table.setdefault(key, dict(zip(change.shape.key, key, strict=True)))
        if key in table:
            table[key] |= values
    return [AttemptRow(**row) for _, row in sorted(table.items())]


@pytest.mark.parametrize("wrong", [(0, 10, 0), (10, 10, 1), (0, BUCKETS_MAX + 1, 1)])
def test_a_span_has_an_end_behind_its_beginning_and_not_too_many_parts(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError):
        Span(*wrong)
    assert Span(0, BUCKETS_MAX, 1).buckets == BUCKETS_MAX
