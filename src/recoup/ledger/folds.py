"""Cached folds: the rows and states that follow from the events, written in the same transaction."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterable, Iterator

import msgspec

from recoup.kernel.projection import ATTEMPTED, PROJECTED, RowChange, changes, with_attempts
from recoup.kernel.workflow import fold_workflow, rebuild_workflow
from recoup.ledger.claims import HEEDED, keep_claim
from recoup.ledger.queries import queries, row_writes
from recoup.ledger.transaction import Transaction, find_stream, first_place, seq_of
from recoup.model.events import Payload, decode_payload
from recoup.model.ids import run_stream, workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Health
from recoup.model.run import WorkflowState
from recoup.model.storage import AttemptRow, StreamAppend

STATE_LAG_EVENTS = 32
"""A stored workflow state is at most so many events old; the rest is folded when it is asked for."""

ATTEMPT_LAG_EVENTS = 256
"""So are the rows of attempts while their run goes on. A row for each would cost every commit a page more."""


class _WholeState(msgspec.Struct, frozen=True):
    """Nothing in it may be missing: a process of an older version may go on beside us, and stores what it knows."""

    tokens_spent: float
    seq: int
    health: Health


_Q = queries()
_WRITES = row_writes()
_RUN = run_stream("")
_WORKFLOW = workflow_stream("")
_decode_state = msgspec.json.Decoder(_WholeState).decode
_encode_state = msgspec.json.Encoder().encode


def keep_cached_rows(transaction: Transaction, part: StreamAppend, start: int, at: Instant) -> None:
    """For drafts that are events now, after the place `start`."""
    if part.stream.startswith(_WORKFLOW):
        _keep_workflow_state(transaction, part, start, at)
        return
    if part.stream.startswith(_RUN):
        _keep_run_rows(transaction, part, start, at)


def attempt_rows(connection: sqlite3.Connection, run_id: str) -> list[AttemptRow]:
    """Those that are stored, and what the events say since. In this order: a writer that comes in between only makes
    the rows newer, and to fold an event again changes nothing."""
    stream_id = find_stream(connection, run_stream(run_id))
    if stream_id is None:
        return []
    seq = _attempts_seq(connection, run_id)
    stored = [AttemptRow(*row) for row in connection.execute(_Q["attempts"], (run_id,)).fetchall()]
    return with_attempts(stored, run_stream(run_id), _attempt_facts(connection, stream_id, seq))


def workflow_state(
    connection: sqlite3.Connection, workflow: str, known: WorkflowState | None = None
) -> WorkflowState:
    """With what was `known` of it before, only what has come since is folded, unless much has."""
    state = _stored_state(connection, workflow, known)
    stream_id = find_stream(connection, workflow_stream(workflow))
    if stream_id is None:
        return state
    window = (first_place(stream_id) + state.seq, first_place(stream_id + 1), -1)
    events = connection.execute(_Q["events_between"], window).fetchall()
    facts = ((Instant(*at), decode_payload(kind, raw)) for _, *at, kind, raw in events)
    return rebuild_workflow(facts, state)


def _stored_state(
    connection: sqlite3.Connection, workflow: str, known: WorkflowState | None
) -> WorkflowState:
    """What is not stored, or not as a whole, is folded from the first event on, or from what is known."""
    row = connection.execute(_Q["workflow_state"], (workflow,)).fetchone()
    with contextlib.suppress(msgspec.DecodeError):
        if row is not None and (known is None or row[1] > known.seq + STATE_LAG_EVENTS):
            whole = _decode_state(row[0])
            return WorkflowState(whole.tokens_spent, whole.seq, whole.health)
    return known or WorkflowState()


def workflow_after(
    transaction: Transaction, workflow: str, parts: Iterable[StreamAppend], at: Instant
) -> WorkflowState:
    """The state as it will be with these parts, which are written next."""
    state = transaction.states.get(workflow) or workflow_state(transaction.connection, workflow)
    stream = workflow_stream(workflow)
    for part in parts:
        if part.stream == stream:
            for draft in part.drafts:
                state = fold_workflow(state, draft.fact(), at)
    transaction.states[workflow] = state
    return state


def rebuild_cached_rows(transaction: Transaction) -> None:
    """From the events alone. Workflow states need no more than to be forgotten: reading them folds anew."""
    for table in ("runs", "attempts", "checkpoints", "workflow_state", "families", "claims"):
        transaction.execute(f"DELETE FROM {table}")
    transaction.forget()
    for stream_id, stream in transaction.execute(_Q["run_streams"]).fetchall():
        end = first_place(stream_id)
        facts = _facts(transaction.connection, stream_id, 0, PROJECTED | HEEDED)
        for end, at, kind, payload in facts:  # noqa: B007
            if kind not in ATTEMPTED:
                _write_rows(transaction, changes(stream, at, payload))
            if kind in HEEDED:
                keep_claim(transaction, stream.removeprefix(_RUN), payload)
        _write_attempts(transaction, stream, end)


def _keep_run_rows(transaction: Transaction, part: StreamAppend, start: int, at: Instant) -> None:
    end, due = start + len(part.drafts), False
    unwritten = transaction.unwritten.get(part.stream)
    for draft in part.drafts:
        if draft.type in ATTEMPTED:
            if unwritten is not None:
                unwritten.append((at, draft.fact()))
        elif draft.type in PROJECTED:
            rows = changes(part.stream, at, draft.fact())
            _write_rows(transaction, rows)
            due = due or any(row.shape.table == "runs" for row in rows)
    if due or start // ATTEMPT_LAG_EVENTS != end // ATTEMPT_LAG_EVENTS:
        _write_attempts(transaction, part.stream, end)


def _write_attempts(transaction: Transaction, stream: str, end: int) -> None:
    """Up to the place `end`. Where a run has no row of its own all is written again the next time: to the same end."""
    run_id = stream.removeprefix(_RUN)
    unwritten = transaction.unwritten.get(stream)
    if unwritten is None:
        seq = _attempts_seq(transaction.connection, run_id)
        unwritten = list(_attempt_facts(transaction.connection, end >> 32, seq))
    for at, payload in unwritten:
        _write_rows(transaction, changes(stream, at, payload))
    transaction.unwritten[stream] = []
    transaction.execute(_Q["set_attempts_seq"], (seq_of(end), run_id))


def _attempts_seq(connection: sqlite3.Connection, run_id: str) -> int:
    row = connection.execute(_Q["attempts_seq"], (run_id,)).fetchone()
    return int(row[0]) if row else 0


def _attempt_facts(
    connection: sqlite3.Connection, stream_id: int, after_seq: int
) -> Iterator[tuple[Instant, Payload]]:
    for _, at, _, payload in _facts(connection, stream_id, after_seq, ATTEMPTED):
        yield at, payload


def _facts(
    connection: sqlite3.Connection, stream_id: int, after_seq: int, types: Collection[str]
) -> Iterator[tuple[int, Instant, str, Payload]]:
    window = (first_place(stream_id) + after_seq, first_place(stream_id + 1), -1)
    for place, wall_us, boot_us, boot_id, kind, raw in connection.execute(
        _Q["events_between"], window
    ).fetchall():
        if kind in types:
            yield place, Instant(wall_us, boot_us, boot_id), kind, decode_payload(kind, raw)


def _write_rows(transaction: Transaction, rows: tuple[RowChange, ...]) -> None:
    for change in rows:
        transaction.execute(_WRITES[change.shape.name], change.values)


def _keep_workflow_state(transaction: Transaction, part: StreamAppend, start: int, at: Instant) -> None:
    workflow, end = part.stream.removeprefix(_WORKFLOW), start + len(part.drafts)
    state = transaction.states.get(workflow)
    if state and state.seq < seq_of(end):
        facts = ((at, draft.fact()) for draft in part.drafts)
        state = transaction.states[workflow] = rebuild_workflow(facts, state)
    if start // STATE_LAG_EVENTS == end // STATE_LAG_EVENTS:
        return
    if not state:
        state = transaction.states[workflow] = workflow_state(transaction.connection, workflow)
    transaction.execute(_Q["set_workflow_state"], (workflow, state.seq, _encode_state(state).decode()))
