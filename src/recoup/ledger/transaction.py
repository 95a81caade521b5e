"""The writer's connection between BEGIN and COMMIT, and what it knows of rows nobody else has changed."""

from __future__ import annotations

import sqlite3

from recoup.errors import LeaseLost
from recoup.ledger.queries import queries
from recoup.model.events import Payload
from recoup.model.ids import Lease
from recoup.model.instant import Instant
from recoup.model.run import WorkflowState

_SEQ_BITS = 32
_REMEMBERED_MAX = 10_000
_Q = queries()


def first_place(stream_id: int) -> int:
    """The place before the first event of a stream; `first_place(id + 1)` lies behind its last."""
    return stream_id << _SEQ_BITS


def seq_of(place: int) -> int:
    return place & ((1 << _SEQ_BITS) - 1)


class Transaction:
    """What work is done with. Its memory is valid while no other connection has written."""

    __slots__ = (
        *("_epochs", "_places", "_quiet", "_version"),
        *("connection", "execute", "executemany", "states", "unwritten"),
    )

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.executemany = connection.executemany
        self._version = -1
        self._places: dict[str, int] = {}
        self._epochs: dict[str, int] = {}
        self._quiet: set[str] = set()
        self.states: dict[str, WorkflowState] = {}
        self.unwritten: dict[str, list[tuple[Instant, Payload]]] = {}
        """Of a run's stream: the facts about attempts since their rows were written last."""

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
        self.states.clear()
        self.unwritten.clear()

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

    def last_place(self, stream: str) -> int:
        """Where the stream ends; a new one is made."""
        place = self._places.get(stream)
        return self._find_last_place(stream) if place is None else place

    def set_last_place(self, stream: str, place: int) -> None:
        """To be followed by the insertion of the events up to there."""
        self._places[stream] = place

    def _held_epoch(self, run_id: str) -> int | None:
        row = self.execute(_Q["held_epoch"], (run_id,)).fetchone()
        if row is None:
            return None
        self._epochs[run_id] = row[0]
        return int(row[0])

    def _find_last_place(self, stream: str) -> int:
        stream_id = find_stream(self.connection, stream)
        if stream_id is None:
            stream_id = self.execute(_Q["add_stream"], (stream,)).lastrowid
            assert stream_id is not None
        return find_last_place(self.connection, stream_id)


def find_stream(connection: sqlite3.Connection, stream: str) -> int | None:
    row = connection.execute(_Q["stream_id"], (stream,)).fetchone()
    return None if row is None else int(row[0])


def find_last_place(connection: sqlite3.Connection, stream_id: int) -> int:
    row = connection.execute(_Q["last_place"], (first_place(stream_id + 1),)).fetchone()
    return max(first_place(stream_id), row[0]) if row else first_place(stream_id)


def lease_lost(lease: Lease, held: int | None) -> LeaseLost:
    now = "nobody holds it now" if held is None else f"epoch {held} holds it now"
    hint = f"Stop at once: another driver may go on. `recoup show {lease.run_id}` says who drives the run."
    return LeaseLost(f"run {lease.run_id}: the lease under epoch {lease.epoch} is lost, {now}", hint=hint)
