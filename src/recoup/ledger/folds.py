"""Cached folds: the rows and states that follow from the events, written in the same transaction."""

from __future__ import annotations

import sqlite3

import msgspec

from recoup.kernel.projection import PROJECTED, RowChange, changes
from recoup.kernel.workflow import rebuild_workflow
from recoup.ledger.queries import queries, row_writes
from recoup.ledger.transaction import Transaction, find_stream, first_place
from recoup.model.events import decode_payload
from recoup.model.ids import workflow_stream
from recoup.model.instant import Instant
from recoup.model.run import WorkflowState
from recoup.model.storage import StreamAppend

STATE_LAG_EVENTS = 32
"""A stored workflow state is at most so many events old; the rest is folded when it is asked for."""

_Q = queries()
_WRITES = row_writes()
_WORKFLOW = workflow_stream("")
_decode_state = msgspec.json.Decoder(WorkflowState).decode
_encode_state = msgspec.json.Encoder().encode


def keep_cached_rows(transaction: Transaction, part: StreamAppend, start: int, at: Instant) -> None:
    """For drafts that are events now, after the place `start`."""
    if part.stream.startswith(_WORKFLOW):
        _keep_workflow_state(transaction, part, start)
        return
    for draft in part.drafts:
        if draft.type in PROJECTED:
            _write_rows(transaction, changes(part.stream, at, draft.fact()))


def workflow_state(connection: sqlite3.Connection, workflow: str) -> WorkflowState:
    row = connection.execute(_Q["workflow_state"], (workflow,)).fetchone()
    state = _decode_state(row[0]) if row else WorkflowState()
    stream_id = find_stream(connection, workflow_stream(workflow))
    if stream_id is None:
        return state
    window = (first_place(stream_id) + state.seq, first_place(stream_id + 1), -1)
    events = connection.execute(_Q["events_between"], window).fetchall()
    return rebuild_workflow((decode_payload(kind, raw) for *_, kind, raw in events), state)


def rebuild_cached_rows(transaction: Transaction) -> None:
    """From the events alone. Workflow states need no more than to be forgotten: reading them folds anew."""
    for table in ("runs", "attempts", "checkpoints", "workflow_state"):
        transaction.execute(f"DELETE FROM {table}")
    transaction.forget()
    for stream_id, stream in transaction.execute(_Q["run_streams"]).fetchall():
        window = (first_place(stream_id), first_place(stream_id + 1), -1)
        for _, wall_us, boot_us, boot_id, kind, raw in transaction.execute(_Q["events_between"], window):
            if kind in PROJECTED:
                at = Instant(wall_us, boot_us, boot_id)
                _write_rows(transaction, changes(stream, at, decode_payload(kind, raw)))


def _write_rows(transaction: Transaction, rows: tuple[RowChange, ...]) -> None:
    for change in rows:
        transaction.execute(_WRITES[change.shape.name], change.values)


def _keep_workflow_state(transaction: Transaction, part: StreamAppend, start: int) -> None:
    workflow = part.stream.removeprefix(_WORKFLOW)
    state = transaction.states.get(workflow)
    if state:
        state = transaction.states[workflow] = rebuild_workflow(
            (draft.fact() for draft in part.drafts), state
        )
    if start // STATE_LAG_EVENTS == (start + len(part.drafts)) // STATE_LAG_EVENTS:
        return
    if not state:
        state = transaction.states[workflow] = workflow_state(transaction.connection, workflow)
    transaction.execute(_Q["set_workflow_state"], (workflow, state.seq, _encode_state(state).decode()))
