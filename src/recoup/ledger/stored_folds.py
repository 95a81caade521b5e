"""Reading the cached folds in SQLite, brought up to date with the events since."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator

from recoup.kernel.projection import ATTEMPTED, with_attempts
from recoup.kernel.workflow import rebuild_workflow
from recoup.ledger.decoding import fact_of, type_name
from recoup.ledger.folds import STATE_LAG_EVENTS, decode_state
from recoup.ledger.places import find_stream, first_place
from recoup.ledger.queries import queries
from recoup.ledger.stored_rows import attempt_of
from recoup.ledger.transacting import seq_of
from recoup.model.events import Payload
from recoup.model.ids import run_stream, workflow_stream
from recoup.model.instant import Instant
from recoup.model.run import WorkflowState
from recoup.model.storage import AttemptRow

_Q = queries()


def attempt_rows(connection: sqlite3.Connection, run_id: str) -> list[AttemptRow]:
    """Those that are stored, and what the events say since. In this order: a writer that comes in between only makes
    the rows newer, and to fold an event again changes nothing."""
    stream_id = find_stream(connection, run_stream(run_id))
    if stream_id is None:
        return []
    seq = attempts_seq(connection, run_id)
    stored = [attempt_of(row) for row in connection.execute(_Q["attempts"], (run_id,)).fetchall()]
    stream = run_stream(run_id)
    return with_attempts(stored, stream, attempt_facts(connection, stream, stream_id, seq))


def workflow_state(
    connection: sqlite3.Connection, workflow: str, known: WorkflowState | None = None
) -> WorkflowState:
    """With what was `known` of it before, only what has come since is folded, unless much has."""
    state = _stored_state(connection, workflow, known)
    stream_id = find_stream(connection, workflow_stream(workflow))
    if stream_id is None:
        return state
    stream = workflow_stream(workflow)
    facts = ((at, payload) for _, at, _, payload in stream_facts(connection, stream, stream_id, state.seq))
    return rebuild_workflow(facts, state)


def family(connection: sqlite3.Connection, run_id: str) -> list[str]:
    root = family_of(connection, run_id)
    return [root, *(member for (member,) in connection.execute(_Q["family"], (root,)).fetchall())]


def family_of(connection: sqlite3.Connection, run_id: str) -> str:
    row = connection.execute(_Q["family_of"], (run_id,)).fetchone()
    return run_id if row is None else str(row[0])


def attempts_seq(connection: sqlite3.Connection, run_id: str) -> int:
    row = connection.execute(_Q["attempts_seq"], (run_id,)).fetchone()
    return int(row[0]) if row else 0


def attempt_facts(
    connection: sqlite3.Connection, stream: str, stream_id: int, after_seq: int
) -> Iterator[tuple[Instant, Payload]]:
    for _, at, _, payload in stream_facts(connection, stream, stream_id, after_seq, ATTEMPTED):
        yield at, payload


def stream_facts(
    connection: sqlite3.Connection,
    stream: str,
    stream_id: int,
    after_seq: int,
    types: Collection[str] | None = None,
) -> Iterator[tuple[int, Instant, str, Payload]]:
    """Place, time, type and payload of each, of all `types` or of those given. Raises EventUnreadable."""
    window = (first_place(stream_id) + after_seq, first_place(stream_id + 1), -1)
    for place, wall_us, boot_us, boot_id, name, raw in connection.execute(
        _Q["events_between"], window
    ).fetchall():
        kind = type_name(name)
        if types is None or kind in types:
            at = Instant(wall_us, boot_us, boot_id)
            yield place, at, kind, fact_of(stream, seq_of(place), at, kind, raw)


def _stored_state(
    connection: sqlite3.Connection, workflow: str, known: WorkflowState | None
) -> WorkflowState:
    """What is not stored, or not as a whole, is folded from the first event on, or from what is known."""
    row = connection.execute(_Q["workflow_state"], (workflow,)).fetchone()
    stored = None
    if row is not None and (known is None or row[1] > known.seq + STATE_LAG_EVENTS):
        stored = decode_state(row[0])
    return stored or known or WorkflowState()
