"""SQLite's writing connection between BEGIN and COMMIT, and what it knows of rows nobody else has changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby

from recoup.kernel.deeds import Claim
from recoup.kernel.projection import RowChange
from recoup.ledger.appending import stored
from recoup.ledger.folds import encode_state
from recoup.ledger.loss import last_number
from recoup.ledger.places import find_last_place, find_stream
from recoup.ledger.queries import queries, row_writes
from recoup.ledger.stored_folds import attempt_facts, attempts_seq, family_of, workflow_state
from recoup.ledger.transacting import SEQ_BITS, EventRow, lease_lost, seq_of
from recoup.model.events import Payload
from recoup.model.ids import Lease, run_stream
from recoup.model.instant import Instant
from recoup.model.run import WorkflowState
from recoup.model.storage import ControlAck, Draft, Escalation, PolicyBody, Position

_REMEMBERED_MAX = 10_000
_RUN = run_stream("")
_Q = queries()
_WRITES = row_writes()


class Transaction:
    """What work is done with. Its memory is valid while no other connection has written."""

    __slots__ = (
        *("_epochs", "_places", "_quiet", "_states", "_unwritten", "_version"),
        *("connection", "execute", "executemany", "number"),
    )

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.executemany = connection.executemany
        self._version = -1
        self._places: dict[str, int] = {}
        self._epochs: dict[str, int] = {}
        self._quiet: set[str] = set()
        self._states: dict[str, WorkflowState] = {}
        self._unwritten: dict[str, list[tuple[Instant, Payload]]] = {}
        """Of a run's stream: the facts about attempts since their rows were written last."""
        self.number: int | None = None
        """Of the newest event, where it is known."""

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")
        (version,) = self.execute("PRAGMA data_version").fetchone()
        if version != self._version or len(self._places) > _REMEMBERED_MAX:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """After a rollback, and after any write that does not go through the methods below."""
        self._places.clear()
        self._epochs.clear()
        self._quiet.clear()
        self._states.clear()
        self._unwritten.clear()
        self.number = None

    # Leases and controls

    def require(self, lease: Lease) -> None:
        held = self._epochs.get(lease.run_id) or self._held_epoch(lease.run_id)
        if held != lease.epoch:
            raise lease_lost(lease, held)

    def release(self, lease: Lease) -> None:
        self.execute(_Q["release_lease"], (lease.run_id, lease.epoch))
        self._epochs.pop(lease.run_id, None)

    def control_waits(self, run_id: str) -> bool:
        if run_id in self._quiet:
            return False
        if self.execute(_Q["control_waits"], (run_id,)).fetchone() == (1,):
            return True
        self._quiet.add(run_id)
        return False

    def acknowledge(self, ack: ControlAck) -> None:
        self.execute(_Q["acknowledge_control"], (ack.outcome, ack.epoch, ack.control_id))

    def _held_epoch(self, run_id: str) -> int | None:
        row = self.execute(_Q["held_epoch"], (run_id,)).fetchone()
        if row is None:
            return None
        self._epochs[run_id] = row[0]
        return int(row[0])

    # Events and what stands beside them

    def add_policy(self, policy: PolicyBody) -> None:
        self.execute(_Q["add_policy"], (policy.digest, stored(policy.body)))

    def add_escalation(self, escalation: Escalation, at: Instant) -> None:
        row = (escalation.id, escalation.stream, escalation.reason, stored(escalation.body), at.wall_us)
        self.execute(_Q["add_escalation"], row)

    def last_place(self, stream: str) -> int:
        place = self._places.get(stream)
        return self._find_last_place(stream) if place is None else place

    def set_last_place(self, stream: str, place: int) -> None:
        self._places[stream] = place

    def add_events(self, rows: Sequence[EventRow], _positions: Sequence[Position]) -> None:
        number = last_number(self.connection) if self.number is None else self.number
        self.executemany(_Q["add_event"], rows)
        self.number = number + len(rows)

    def _find_last_place(self, stream: str) -> int:
        stream_id = find_stream(self.connection, stream)
        if stream_id is None:
            stream_id = self.execute(_Q["add_stream"], (stream,)).lastrowid
            assert stream_id is not None
        return find_last_place(self.connection, stream_id)

    # Cached rows

    def write_row(self, change: RowChange) -> None:
        self.execute(_WRITES[change.shape.name], change.values)

    def write_rows(self, changes: Iterable[RowChange]) -> None:
        for name, alike in groupby(changes, key=lambda change: change.shape.name):
            self.executemany(_WRITES[name], [change.values for change in alike])

    def note_attempt(self, stream: str, at: Instant, draft: Draft) -> None:
        unwritten = self._unwritten.get(stream)
        if unwritten is not None:
            unwritten.append((at, draft.fact()))

    def unwritten_attempts(self, stream: str, end: int) -> Iterable[tuple[Instant, Payload]]:
        unwritten = self._unwritten.get(stream)
        if unwritten is not None:
            return unwritten
        seq = attempts_seq(self.connection, stream.removeprefix(_RUN))
        return list(attempt_facts(self.connection, stream, end >> SEQ_BITS, seq))

    def attempts_written(self, stream: str, end: int) -> None:
        self._unwritten[stream] = []
        self.execute(_Q["set_attempts_seq"], (seq_of(end), stream.removeprefix(_RUN)))

    def workflow_state(self, workflow: str) -> WorkflowState:
        return self._states.get(workflow) or workflow_state(self.connection, workflow)

    def known_workflow_state(self, workflow: str) -> WorkflowState | None:
        return self._states.get(workflow)

    def keep_workflow_state(self, workflow: str, state: WorkflowState) -> None:
        self._states[workflow] = state

    def store_workflow_state(self, workflow: str, state: WorkflowState) -> None:
        self._states[workflow] = state
        self.execute(_Q["set_workflow_state"], (workflow, state.seq, encode_state(state)))

    # Families and claims

    def family_of(self, run_id: str) -> str:
        return family_of(self.connection, run_id)

    def add_to_family(self, run_id: str, root: str) -> None:
        self.execute(_Q["add_to_family"], (run_id, root))

    def claimant(self, root: str, claim: Claim) -> tuple[str, str] | None:
        row = self.execute(_Q["claimant"], (root, claim.step_id, claim.args_digest)).fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def claim(self, root: str, claim: Claim, run_id: str) -> None:
        self.execute(_Q["claim"], (root, claim.step_id, claim.args_digest, run_id, claim.start))

    def give_back(self, run_id: str, step_id: str, start: str | None) -> None:
        if start is None:
            self.execute(_Q["give_back_step"], (run_id, step_id))
        else:
            self.execute(_Q["give_back_start"], (run_id, step_id, start))
