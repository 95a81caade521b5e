"""The ledger in one SQLite file, for any number of processes on one machine."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recoup.errors import RowUnreadable
from recoup.kernel.elapsed import elapsed_s
from recoup.ledger import leases
from recoup.ledger.commits import Commits
from recoup.ledger.decoding import event_of, type_name
from recoup.ledger.forgetting import ended_runs, forget
from recoup.ledger.inbox import escalation_row
from recoup.ledger.jobs import AppendJob, rebuild_cached_rows
from recoup.ledger.places import find_last_place, find_stream, first_place
from recoup.ledger.queries import queries
from recoup.ledger.reader import Reader
from recoup.ledger.stored_folds import attempt_rows, family, workflow_state
from recoup.ledger.stored_lists import run_count, run_history, run_page, tallies
from recoup.ledger.stored_rows import arrival_of, checkpoint_of, control_of, head_of, row_of_control
from recoup.ledger.transacting import seq_of
from recoup.ledger.transaction import Transaction
from recoup.ledger.worker_rows import FORGOTTEN_S, encode_worker, seen_worker, wanting_row
from recoup.ledger.writer import Deed
from recoup.model.events import Event
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.run import WorkflowState
from recoup.model.storage import (
    COUNTED_MAX,
    EVERY_RUN,
    Append,
    Appended,
    Arrival,
    AttemptRow,
    CheckpointRow,
    Control,
    Crowd,
    Draft,
    EndedRun,
    EscalationRow,
    Head,
    HeldRun,
    History,
    LeaseRow,
    Loss,
    Place,
    RunCount,
    RunFilter,
    RunPage,
    SeenWorker,
    Span,
    Suspicion,
    Wanting,
    WorkerRow,
)

_Q = queries()
_WANTING_COLUMNS = 7


class SqliteLedger:
    """The `Ledger` of the ports on SQLite. Writes are grouped (commits.py); reads happen at once."""

    def __init__(self, path: Path, *, busy_max_s: float = 5.0, turn_patience_s: float = 2.0) -> None:
        """Opens the file, makes or migrates it as needed. Raises LedgerError, LedgerTooNew, LedgerBusy."""
        self.path = path.resolve()
        self._commits = Commits(self.path, busy_max_s, turn_patience_s)
        self._reader = Reader(self.path)

    async def append(self, append: Append) -> Appended:
        return await self._commits.commit(AppendJob(append))

    async def read(self, stream: str, after: int = 0, limit: int = 10_000) -> list[Event]:
        stream_id = self._reader.ask(lambda connection: find_stream(connection, stream))
        if stream_id is None:
            return []
        window = (first_place(stream_id) + after, first_place(stream_id + 1), limit)
        return [_event(stream, row) for row in self._reader.rows("events_between", window)]

    async def arrivals(self, after: int = 0, limit: int = 10_000) -> list[Arrival]:
        # Row ids are given out under the write lock, so a lower one never becomes visible after a higher one.
        return [_arrival(row) for row in self._reader.rows("events_arrived", (after, limit))]

    async def arrivals_before(self, number: int, limit: int = 1_000) -> list[Arrival]:
        return [_arrival(row) for row in self._reader.rows("events_arrived_before", (number, limit))]

    async def last_arrival(self) -> int:
        row = self._reader.row("last_arrival")
        return int(row[0]) if row else 0

    async def head(self, stream: str) -> int:
        stream_id = self._reader.ask(lambda connection: find_stream(connection, stream))
        if stream_id is None:
            return 0
        return seq_of(self._reader.ask(lambda connection: find_last_place(connection, stream_id)))

    async def streams(self, prefix: str = "") -> list[str]:
        return [name for (name,) in self._reader.rows("streams_from", (prefix,))]

    async def heads(self, prefix: str = "") -> list[Head]:
        rows = self._reader.rows("heads_from", (prefix,))
        return [head_of(row) for row in rows]

    async def claim(
        self,
        run_id: str,
        owner: ProcessIdentity,
        ttl_s: float,
        now: Instant,
        over_epoch: int | None = None,
        crowds: Sequence[Crowd] = (),
    ) -> Lease | None:
        wanted = Lease(run_id, owner, 0, ttl_s, leases.deadline_boot_s(now, ttl_s))
        return await self._commits.commit(Deed(lambda tx: leases.claim(tx, wanted, now, over_epoch, crowds)))

    async def renew(self, lease: Lease, now: Instant) -> Lease:
        return await self._commits.commit(Deed(lambda tx: leases.renew(tx, lease, now)))

    async def release(self, lease: Lease) -> None:
        await self._commits.commit(Deed(lambda tx: tx.release(lease)))

    async def lease(self, run_id: str) -> LeaseRow | None:
        row = self._reader.row("lease", (run_id,))
        return leases.lease_row(row) if row else None

    async def wanting(self, after: str = "", limit: int = 500) -> list[Wanting]:
        return [wanting_row(row) for row in self._reader.rows("wanting", (after, limit))]

    async def held(self, now: Instant, limit: int = 10_000) -> list[HeldRun]:
        held = []
        for row in self._reader.rows("held", (limit,)):
            with contextlib.suppress(RowUnreadable):  # nobody takes that run up
                lease = leases.lease_row(row[_WANTING_COLUMNS:])
                held.append(HeldRun(wanting_row(row[:_WANTING_COLUMNS]), lease, leases.left_s(lease, now)))
        return held

    async def keep_worker(self, worker: WorkerRow, now: Instant) -> None:
        row = (worker.worker_id, encode_worker(worker), now.wall_us, now.boot_us, now.boot_id)
        await self._commits.commit(Deed(lambda tx: _write(tx, "keep_worker", row)))

    async def forget_worker(self, worker_id: str) -> None:
        await self._commits.commit(Deed(lambda tx: _write(tx, "forget_worker", (worker_id,))))

    async def workers(self, now: Instant) -> list[SeenWorker]:
        seen = []
        for worker_id, body, *at in self._reader.rows("workers"):
            silent_s = _silent_s(Instant(*at), now)
            if silent_s < FORGOTTEN_S:
                seen.append(seen_worker(worker_id, body, silent_s))
            else:
                await self.forget_worker(worker_id)
        return seen

    async def witness(self) -> None:
        """A file that loses commits has its own mark beside it."""

    def started_s_ago(self) -> float:
        """There is no server, and the mark tells at once."""
        return math.inf

    async def untold_losses(self) -> list[Loss]:
        return []

    async def tell_loss(self, loss: Loss) -> None:
        """There is none."""

    async def suspicion(self, run_id: str) -> Suspicion | None:  # noqa: ARG002
        return None

    async def end_suspicion(self, run_id: str, loss: Loss) -> None:
        """There is none."""

    async def send_control(self, control: Control) -> bool:
        return await self._commits.commit(Deed(lambda tx: _send(tx, control)))

    async def pending_controls(self, run_id: str) -> list[Control]:
        return [control_of(row) for row in self._reader.rows("waiting_controls", (run_id,))]

    async def control(self, control_id: str) -> Control | None:
        row = self._reader.row("control", (control_id,))
        return control_of(row) if row else None

    async def runs(
        self, wanted: RunFilter = EVERY_RUN, *, limit: int = 100, before: Place | None = None
    ) -> RunPage:
        return self._reader.ask(lambda connection: run_page(connection, wanted, limit, before))

    async def count_runs(self, wanted: RunFilter = EVERY_RUN, cap: int = COUNTED_MAX) -> RunCount:
        return self._reader.ask(lambda connection: run_count(connection, wanted, cap))

    async def tallies(self) -> dict[str, int]:
        return self._reader.ask(tallies)

    async def history(self, span: Span, workflow: str | None = None) -> History:
        return self._reader.ask(lambda connection: run_history(connection, span, workflow))

    async def find_runs(self, prefix: str, limit: int = 3) -> list[str]:
        return [run_id for (run_id,) in self._reader.rows("runs_from", (prefix, limit))]

    async def family(self, run_id: str) -> list[str]:
        return self._reader.ask(lambda connection: family(connection, run_id))

    async def attempts(self, run_id: str) -> list[AttemptRow]:
        return self._reader.ask(lambda connection: attempt_rows(connection, run_id))

    async def checkpoints(self, run_id: str) -> list[CheckpointRow]:
        return [checkpoint_of(row) for row in self._reader.rows("checkpoints", (run_id,))]

    async def workflow_state(self, workflow: str) -> WorkflowState:
        """Events do not change, so that what was folded before needs only what has come since."""
        known = self._reader.states.get(workflow)
        state = self._reader.ask(lambda connection: workflow_state(connection, workflow, known))
        self._reader.remember(workflow, state)
        return state

    async def policy_body(self, digest: str) -> bytes | None:
        row = self._reader.row("policy_body", (digest,))
        return bytes(row[0]) if row else None

    async def inbox(
        self, *, state: str | None = None, of_runs: bool | None = None, after: int = 0, limit: int = 100
    ) -> list[EscalationRow]:
        if state is None:
            rows = self._reader.rows("inbox", (after, of_runs, limit))
        else:
            rows = self._reader.rows("inbox_in_state", (after, of_runs, limit, state))
        return [escalation_row(row) for row in rows]

    async def escalation(self, escalation_id: str) -> EscalationRow | None:
        row = self._reader.row("escalation", (escalation_id,))
        return escalation_row(row) if row else None

    async def ended(self, before_us: int, after: str = "", limit: int = 200) -> list[EndedRun]:
        return self._reader.ask(lambda connection: ended_runs(connection, before_us, after, limit))

    async def forget(self, run_ids: Sequence[str], before_us: int, at: Instant, note: Draft) -> list[str]:
        return await self._commits.commit(Deed(lambda tx: forget(tx, run_ids, before_us, at, note)))

    async def change_marker(self) -> int:
        """Own writes change it too: asking once too often costs one query."""
        return self._reader.change_marker()

    async def rebuild(self) -> None:
        """Make the cached rows anew from the events, in one transaction."""
        await self._commits.commit(Deed(rebuild_cached_rows))

    async def close(self) -> None:
        self._reader.close()
        await self._commits.close()


def _silent_s(seen_at: Instant, now: Instant) -> float:
    """Where that is no time, for ever: a worker that lives writes it again soon."""
    return elapsed_s(seen_at, now, FORGOTTEN_S) if seen_at.is_sound else FORGOTTEN_S


def _write(transaction: Transaction, name: str, row: tuple[Any, ...]) -> None:
    transaction.execute(_Q[name], row)


def _send(transaction: Transaction, control: Control) -> bool:
    added = transaction.execute(_Q["add_control"], row_of_control(control)).rowcount
    transaction.forget()
    return added == 1


def _arrival(row: tuple[Any, ...]) -> Arrival:
    *where, kind, raw = row
    return arrival_of((*where, type_name(kind), raw))


def _event(stream: str, row: tuple[Any, ...]) -> Event:
    place, wall_us, boot_us, boot_id, kind, raw = row
    return event_of(stream, seq_of(place), Instant(wall_us, boot_us, boot_id), type_name(kind), raw)
