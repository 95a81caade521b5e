"""Cached folds: the rows and states that follow from the events, written in the same transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import msgspec

from recoup.kernel.projection import ATTEMPTED, PROJECTED, attempt_changes, changes
from recoup.kernel.workflow import fold_workflow, rebuild_workflow
from recoup.ledger.transacting import Transacting, seq_of
from recoup.model.events import AttemptFailed, AttemptFinished
from recoup.model.ids import escalation_stream, run_stream, workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Health
from recoup.model.run import WorkflowState
from recoup.model.storage import Draft, StreamAppend

STATE_LAG_EVENTS = 32
"""A stored workflow state is at most so many events old; the rest is folded when it is asked for."""

ATTEMPT_LAG_EVENTS = 256
"""So are the rows of attempts while their run goes on. A row for each would cost every commit a page more."""


class _WholeState(msgspec.Struct, frozen=True):
    """Nothing in it may be missing: a process of an older version may go on beside us, and stores what it knows."""

    tokens_spent: float
    seq: int
    health: Health


_RUN = run_stream("")
_WORKFLOW = workflow_stream("")
_ESCALATION = escalation_stream("")
_decode_state = msgspec.json.Decoder(_WholeState).decode
_encode_state = msgspec.json.Encoder().encode


def keep_cached_rows(transaction: Transacting, part: StreamAppend, start: int, at: Instant) -> None:
    """For drafts that are events now, after the place `start`."""
    if part.stream.startswith(_WORKFLOW):
        _keep_workflow_state(transaction, part, start, at)
        return
    if part.stream.startswith(_RUN):
        _keep_run_rows(transaction, part, start, at)
    elif part.stream.startswith(_ESCALATION):
        for draft in part.drafts:
            for change in changes(part.stream, at, draft.fact()):
                transaction.write_row(change)


def workflow_after(
    transaction: Transacting, workflow: str, parts: Iterable[StreamAppend], at: Instant
) -> WorkflowState:
    """The state as it will be with these parts, which are written next."""
    state = transaction.workflow_state(workflow)
    stream = workflow_stream(workflow)
    for part in parts:
        if part.stream == stream:
            for draft in part.drafts:
                state = fold_workflow(state, draft.fact(), at)
    transaction.keep_workflow_state(workflow, state)
    return state


def write_attempts(transaction: Transacting, stream: str, end: int) -> None:
    """Up to the place `end`. Where a run has no row of its own all is written again the next time: to the same end."""
    transaction.write_rows(attempt_changes(stream, transaction.unwritten_attempts(stream, end)))
    transaction.attempts_written(stream, end)


def encode_state(state: WorkflowState) -> str:
    return _encode_state(state).decode()


def decode_state(body: str | bytes) -> WorkflowState | None:
    """None: it is not stored as a whole, and must be folded anew."""
    with contextlib.suppress(msgspec.DecodeError):
        whole = _decode_state(body)
        return WorkflowState(whole.tokens_spent, whole.seq, whole.health)
    return None


def _keep_run_rows(transaction: Transacting, part: StreamAppend, start: int, at: Instant) -> None:
    end, due = start + len(part.drafts), False
    for draft in part.drafts:
        if draft.type in ATTEMPTED:
            transaction.note_attempt(part.stream, at, draft)
            due = due or _is_history(draft)
        elif draft.type in PROJECTED:
            for change in changes(part.stream, at, draft.fact()):
                transaction.write_row(change)
                due = due or change.shape.table == "runs"
    if due or start // ATTEMPT_LAG_EVENTS != end // ATTEMPT_LAG_EVENTS:
        write_attempts(transaction, part.stream, end)


def _is_history(draft: Draft) -> bool:
    """Failures and recoveries are counted from their rows, whether their run goes on or not. They are few."""
    if draft.type == AttemptFinished.TYPE:
        fact = draft.fact()
        return isinstance(fact, AttemptFinished) and (fact.attempt or 0) > 1
    return draft.type == AttemptFailed.TYPE


def _keep_workflow_state(transaction: Transacting, part: StreamAppend, start: int, at: Instant) -> None:
    workflow, end = part.stream.removeprefix(_WORKFLOW), start + len(part.drafts)
    state = transaction.known_workflow_state(workflow)
    if state and state.seq < seq_of(end):
        state = rebuild_workflow(((at, draft.fact()) for draft in part.drafts), state)
        transaction.keep_workflow_state(workflow, state)
    if start // STATE_LAG_EVENTS == end // STATE_LAG_EVENTS:
        return
    transaction.store_workflow_state(workflow, state or transaction.workflow_state(workflow))
