"""From one event to the cached rows it changes; every backend applies them in the event's own transaction.

A change depends on its event alone: rows can be rebuilt from the events at any time and come out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from recoup.kernel.backoff import delivery_backoff_s
from recoup.model import events as ev
from recoup.model.events import Event, Payload
from recoup.model.ids import run_stream
from recoup.model.instant import Instant
from recoup.model.run import RunStatus, Verdict
from recoup.model.storage import AttemptRow, CheckpointRow, HealRow, RunRow, Wanting

Value = str | int | None
Row = TypeVar("Row", RunRow, AttemptRow, CheckpointRow, HealRow)


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of change writes: one prepared statement. Columns are named as in the row types."""

    name: str
    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    fixed: Mapping[str, Value] = {}
    """Columns that get the same value each time."""
    inserts: bool = False
    """Make the row if it is absent; otherwise an absent row stays absent."""


class RowChange(msgspec.Struct, frozen=True):
    """One row to write: the values of the shape's columns, then those of its key."""

    shape: Shape
    values: tuple[Value, ...]


Projector = Callable[[str, int, Any], RowChange]
Table = dict[tuple[Value, ...], dict[str, Any]]

_ATTEMPT = ("run_id", "step_index", "attempt")
_CHECKPOINT = ("run_id", "step_index")
_FAILURE = ("failure_kind", "failure_class", "failure_signature", "diff_hash")

_RUN_SUBMITTED = Shape(
    name="run_submitted",
    table="runs",
    key=("run_id",),
    columns=("workflow", "submitted_at_us", "queue", "priority", "needs", "due_us", "step_count"),
    fixed={
        **{"status": RunStatus.QUEUED.value, "delivery": 0, "reason": "", "wants_driver": True},
        **{"failure_class": None, "worker": None, "ended_at_us": None},
    },
    inserts=True,
)
_RUN_DELIVERED = Shape(
    name="run_delivered",
    table="runs",
    key=("run_id",),
    columns=("delivery", "worker"),
    fixed={
        **{"status": RunStatus.RUNNING.value, "reason": "", "wants_driver": True, "due_us": 0},
        **{"failure_class": None, "ended_at_us": None},
    },
)
_RUN_STATUS = Shape(
    name="run_status",
    table="runs",
    key=("run_id",),
    columns=("status", "reason", "wants_driver", "due_us", "ended_at_us"),
)
_RUN_ESCALATED = Shape(
    name="run_escalated",
    table="runs",
    key=("run_id",),
    columns=("reason", "failure_class"),
    fixed={
        "status": RunStatus.ESCALATED.value,
        "wants_driver": False,
        "due_us": 0,
        "ended_at_us": None,
    },
)
_DELIVERY_FAILED = Shape(
    name="delivery_failed",
    table="runs",
    key=("run_id",),
    columns=("status", "reason", "wants_driver", "due_us", "ended_at_us", "delivery", "failure_class"),
)
_RUN_REASON = Shape(name="run_reason", table="runs", key=("run_id",), columns=("reason",))
# All columns anew: an attempt that never began gives its number to the next one.
_ATTEMPT_STARTED = Shape(
    name="attempt_started",
    table="attempts",
    key=_ATTEMPT,
    columns=("step_id", "delivery", "strategy", "started_at_us", "phase"),
    fixed={"state": "started", "verdict": None, "ended_at_us": None} | dict.fromkeys(_FAILURE),
    inserts=True,
)
_ATTEMPT_LAUNCHED = Shape(
    name="attempt_launched", table="attempts", key=_ATTEMPT, columns=(), fixed={"state": "launched"}
)
_ATTEMPT_FINISHED = Shape(
    name="attempt_finished",
    table="attempts",
    key=_ATTEMPT,
    columns=("verdict", "ended_at_us", "diff_hash"),
    fixed={"state": "finished"},
)
_ATTEMPT_DONE = Shape(
    name="attempt_done",
    table="attempts",
    key=_ATTEMPT,
    columns=(*_ATTEMPT_STARTED.columns, *_ATTEMPT_FINISHED.columns),
    fixed={"state": "finished", "failure_kind": None, "failure_class": None, "failure_signature": None},
    inserts=True,
)
"""Start and finish at once."""
_ATTEMPT_FAILED = Shape(
    name="attempt_failed",
    table="attempts",
    key=_ATTEMPT,
    columns=("ended_at_us", *_FAILURE),
    fixed={"state": "failed", "verdict": Verdict.FAILED.value},
)
_CHECKPOINT_STORED = Shape(
    name="checkpoint_stored",
    table="checkpoints",
    key=_CHECKPOINT,
    columns=("step_id", "attempt", "tree", "manifest", "stored_at_us"),
    fixed={"valid": True},
    inserts=True,
)
_CHECKPOINT_INVALID = Shape(
    name="checkpoint_invalid", table="checkpoints", key=_CHECKPOINT, columns=(), fixed={"valid": False}
)
_TARGET_HEALED = Shape(
    name="target_healed", table="heals", key=_ATTEMPT, columns=("healed_at_us",), inserts=True
)

_GONE_ON = Shape(
    name="escalations_gone_on", table="escalations", key=("stream",), columns=(), fixed={"gone_on": True}
)
"""Whatever a run waited for a person with, it does no more."""
_ACKNOWLEDGED = Shape(
    name="escalation_acknowledged",
    table="escalations",
    key=("id",),
    columns=(),
    fixed={"said": "acknowledged"},
)
_ASSIGNED = Shape(
    name="escalation_assigned",
    table="escalations",
    key=("id",),
    columns=("assignee",),
    fixed={"said": "assigned"},
)
_RESOLVED = Shape(
    name="escalation_resolved", table="escalations", key=("id",), columns=(), fixed={"said": "resolved"}
)

SHAPES = (
    _RUN_SUBMITTED,
    _RUN_DELIVERED,
    _RUN_STATUS,
    _RUN_ESCALATED,
    _DELIVERY_FAILED,
    _RUN_REASON,
    _ATTEMPT_STARTED,
    _ATTEMPT_LAUNCHED,
    _ATTEMPT_FINISHED,
    _ATTEMPT_DONE,
    _ATTEMPT_FAILED,
    _CHECKPOINT_STORED,
    _CHECKPOINT_INVALID,
    _TARGET_HEALED,
    _GONE_ON,
    _ACKNOWLEDGED,
    _ASSIGNED,
    _RESOLVED,
)


def changes(stream: str, at: Instant, payload: Payload) -> tuple[RowChange, ...]:
    """In the order in which they must be applied. Only runs and escalations have cached rows."""
    if stream.startswith("escalation:"):
        return _said_of(payload)
    projector = _PROJECTORS.get(type(payload))
    if projector is None or not stream.startswith("run:"):
        return ()
    change = projector(stream[4:], at.wall_us, payload)
    return (change, RowChange(_GONE_ON, (stream,))) if isinstance(payload, _GOING_ON) else (change,)


def attempt_changes(stream: str, facts: Iterable[tuple[Instant, Payload]]) -> Iterator[RowChange]:
    """To the same end as the changes of each fact about attempts of a run, in fewer: most attempts finish soon after
    they have started. Rows do not depend on each other, so that only the order within one of them counts."""
    begun: dict[tuple[Value, ...], list[RowChange]] = {}
    for at, payload in facts:
        for change in changes(stream, at, payload):
            key = change.values[len(change.shape.columns) :]
            if change.shape is _ATTEMPT_STARTED:
                begun[key] = [change]  # all columns anew: whatever was there before does not matter
            elif change.shape is _ATTEMPT_FINISHED and key in begun:
                start = begun.pop(key)[0]
                yield RowChange(_ATTEMPT_DONE, start.values[: len(start.shape.columns)] + change.values)
            elif change.shape is _ATTEMPT_LAUNCHED and key in begun:
                begun[key].append(change)  # whoever finishes does not ask for it
            else:
                yield from begun.pop(key, ())
                yield change
    for kept in begun.values():
        yield from kept


class Cached(msgspec.Struct, frozen=True):
    """All cached rows, each table in the order of its key."""

    runs: tuple[RunRow, ...]
    attempts: tuple[AttemptRow, ...]
    checkpoints: tuple[CheckpointRow, ...]
    wanting: tuple[Wanting, ...]
    """The runs of queues that want a driver, whoever holds them."""
    heals: tuple[HealRow, ...] = ()


def rebuild(events: Iterable[Event]) -> Cached:
    """What every backend must hold after all these events (in order within each stream)."""
    tables: dict[str, Table] = {"runs": {}, "attempts": {}, "checkpoints": {}, "heals": {}, "escalations": {}}
    last: dict[str, Event] = {}
    for event in events:
        last[event.stream] = event
        for change in changes(event.stream, event.at, event.payload):
            _apply(tables[change.shape.table], change)
    for row in tables["runs"].values():
        event = last[run_stream(row["run_id"])]
        row["seq"], row["updated_at_us"] = event.seq, event.at.wall_us
    return Cached(
        _rows(tables["runs"], RunRow),
        _rows(tables["attempts"], AttemptRow),
        _rows(tables["checkpoints"], CheckpointRow),
        tuple(
            _wanting(row) for _, row in sorted(tables["runs"].items()) if row["queue"] and row["wants_driver"]
        ),
        _rows(tables["heals"], HealRow),
    )


def _wanting(row: Mapping[str, Any]) -> Wanting:
    needs = tuple(row["needs"].split(",")) if row["needs"] else ()
    how = (row["priority"], needs, row["due_us"], row["submitted_at_us"])
    return Wanting(row["run_id"], row["workflow"], row["queue"], *how)


def with_attempts(
    rows: Iterable[AttemptRow], stream: str, facts: Iterable[tuple[Instant, Payload]]
) -> list[AttemptRow]:
    """The stored rows of one run's attempts, brought up to date with the events since."""
    table: Table = {(row.run_id, row.step_index, row.attempt): msgspec.structs.asdict(row) for row in rows}
    for at, payload in facts:
        for change in changes(stream, at, payload):
            if change.shape.table == "attempts":
                _apply(table, change)
    return list(_rows(table, AttemptRow))


def _apply(table: Table, change: RowChange) -> None:
    shape = change.shape
    key = change.values[len(shape.columns) :]
    if shape.inserts:
        table.setdefault(key, dict(zip(shape.key, key, strict=True)))
    if key in table:
        table[key].update(zip(shape.columns, change.values, strict=False), **shape.fixed)


def _rows(table: Table, row_type: type[Row]) -> tuple[Row, ...]:
    names = row_type.__struct_fields__
    ordered = sorted(table.items(), key=lambda item: item[0])
    return tuple(row_type(**{name: row[name] for name in names}) for _, row in ordered)


def _run_submitted(run_id: str, at_us: int, payload: ev.RunSubmitted) -> RowChange:
    where = (payload.queue, payload.priority, ",".join(payload.needs), payload.not_before_us)
    return RowChange(_RUN_SUBMITTED, (payload.workflow, at_us, *where, len(payload.plan.steps), run_id))


def _run_delivered(run_id: str, _at_us: int, payload: ev.RunStarted | ev.RunResumed) -> RowChange:
    return RowChange(_RUN_DELIVERED, (payload.delivery, payload.worker, run_id))


def _run_ended(status: RunStatus) -> Projector:
    """No driver is wanted."""
    return lambda run_id, at_us, payload: RowChange(
        _RUN_STATUS, (status.value, payload.reason, 0, 0, at_us, run_id)
    )


def _run_escalated(run_id: str, _at_us: int, payload: ev.Escalated) -> RowChange:
    """A wait for a person."""
    return RowChange(_RUN_ESCALATED, (payload.reason, _class_of(payload), run_id))


def _run_waiting(run_id: str, _at_us: int, payload: ev.RunWaiting) -> RowChange:
    wanted = int(payload.waiting_for not in ("operator", "approval"))
    return RowChange(_RUN_STATUS, (RunStatus.WAITING.value, payload.reason, wanted, 0, None, run_id))


def _run_blocked(run_id: str, _at_us: int, payload: ev.RunBlocked) -> RowChange:
    return RowChange(_RUN_STATUS, (RunStatus.BLOCKED.value, payload.reason, 1, 0, None, run_id))


def _run_failed(run_id: str, at_us: int, payload: ev.RunFailed) -> RowChange:
    again = int(payload.retryable)
    due_us = at_us + 1_000_000 * delivery_backoff_s(max(1, payload.delivery)) if again else 0
    stands = (RunStatus.FAILED.value, payload.reason, again, due_us, None if again else at_us)
    return RowChange(_DELIVERY_FAILED, (*stands, payload.delivery, _class_of(payload), run_id))


def _run_dead_lettered(run_id: str, at_us: int, payload: ev.RunDeadLettered) -> RowChange:
    stands = (RunStatus.DEAD_LETTER.value, payload.reason, 0, 0, at_us)
    return RowChange(_DELIVERY_FAILED, (*stands, payload.delivery, _class_of(payload), run_id))


def _class_of(payload: ev.RunFailed | ev.RunDeadLettered | ev.Escalated | ev.AttemptFailed) -> str | None:
    return payload.failure_class and payload.failure_class.value


def _run_interrupted(run_id: str, _at_us: int, payload: ev.RunInterrupted) -> RowChange:
    # Still `running`: the driver is gone, the run can go on where it is.
    return RowChange(_RUN_REASON, (payload.reason, run_id))


def _attempt_started(run_id: str, at_us: int, payload: ev.AttemptStarted) -> RowChange:
    how = (payload.step_id, payload.delivery, payload.strategy, at_us, payload.phase)
    return RowChange(_ATTEMPT_STARTED, (*how, run_id, payload.step_index, payload.attempt))


def _attempt_launched(run_id: str, _at_us: int, payload: ev.AttemptLaunched) -> RowChange:
    return RowChange(_ATTEMPT_LAUNCHED, (run_id, payload.step_index, payload.attempt))


def _attempt_finished(run_id: str, at_us: int, payload: ev.AttemptFinished) -> RowChange:
    end = (payload.verdict, at_us, payload.diff_hash)
    return RowChange(_ATTEMPT_FINISHED, (*end, run_id, payload.step_index, payload.attempt))


def _attempt_failed(run_id: str, at_us: int, payload: ev.AttemptFailed) -> RowChange:
    failure = (payload.facts.kind.value, _class_of(payload), payload.failure_signature, payload.diff_hash)
    return RowChange(_ATTEMPT_FAILED, (at_us, *failure, run_id, payload.step_index, payload.attempt))


def _target_healed(run_id: str, at_us: int, payload: ev.TargetHealed) -> RowChange:
    return RowChange(_TARGET_HEALED, (at_us, run_id, payload.step_index, payload.attempt or 0))


def _checkpoint_stored(run_id: str, at_us: int, payload: ev.CheckpointStored) -> RowChange:
    what = (payload.step_id, payload.attempt or 0, payload.snapshot.tree, payload.snapshot.manifest, at_us)
    return RowChange(_CHECKPOINT_STORED, (*what, run_id, payload.step_index))


def _step_reused(run_id: str, at_us: int, payload: ev.StepReused) -> RowChange:
    if payload.snapshot is None:
        return RowChange(_CHECKPOINT_INVALID, (run_id, payload.step_index))
    what = (payload.step_id, 0, payload.snapshot.tree, payload.snapshot.manifest, at_us)
    return RowChange(_CHECKPOINT_STORED, (*what, run_id, payload.step_index))


def _step_invalidated(run_id: str, _at_us: int, payload: ev.StepInvalidated) -> RowChange:
    return RowChange(_CHECKPOINT_INVALID, (run_id, payload.step_index))


def _said_of(payload: Payload) -> tuple[RowChange, ...]:
    match payload:
        case ev.EscalationAcknowledged():
            return (RowChange(_ACKNOWLEDGED, (payload.escalation_id,)),)
        case ev.EscalationAssigned():
            return (RowChange(_ASSIGNED, (payload.assignee, payload.escalation_id)),)
        case ev.EscalationResolved():
            return (RowChange(_RESOLVED, (payload.escalation_id,)),)
        case _:
            return ()


_GOING_ON = (ev.RunWaiting, ev.RunResumed, ev.RunCancelled)
"""What may follow an escalation of a run. One that was given up for good is followed by nothing: a person says so."""

_PROJECTORS: dict[type[Payload], Projector] = {
    ev.RunSubmitted: _run_submitted,
    ev.RunStarted: _run_delivered,
    ev.RunResumed: _run_delivered,
    ev.RunWaiting: _run_waiting,
    ev.RunBlocked: _run_blocked,
    ev.RunInterrupted: _run_interrupted,
    ev.RunSucceeded: _run_ended(RunStatus.SUCCEEDED),
    ev.RunFailed: _run_failed,
    ev.RunDeadLettered: _run_dead_lettered,
    ev.RunCancelled: _run_ended(RunStatus.CANCELLED),
    ev.Escalated: _run_escalated,
    ev.AttemptStarted: _attempt_started,
    ev.AttemptLaunched: _attempt_launched,
    ev.AttemptFinished: _attempt_finished,
    ev.AttemptFailed: _attempt_failed,
    ev.CheckpointStored: _checkpoint_stored,
    ev.StepReused: _step_reused,
    ev.StepInvalidated: _step_invalidated,
    ev.TargetHealed: _target_healed,
}

PROJECTED = frozenset(payload.TYPE for payload in _PROJECTORS)
"""The types of event that change a row: others need not be decoded."""

ATTEMPTED = frozenset(
    event.TYPE for event in (ev.AttemptStarted, ev.AttemptLaunched, ev.AttemptFinished, ev.AttemptFailed)
)
"""The types that change the rows of attempts and nothing else."""
