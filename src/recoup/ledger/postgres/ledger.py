"""The ledger in a PostgreSQL database."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg

from recoup.errors import RowUnreadable
from recoup.kernel.projection import ATTEMPTED, with_attempts
from recoup.kernel.workflow import rebuild_workflow
from recoup.ledger.decoding import event_of
from recoup.ledger.folds import STATE_LAG_EVENTS, decode_state
from recoup.ledger.inbox import escalation_row
from recoup.ledger.leases import deadline_boot_s, lease_row
from recoup.ledger.postgres.connecting import Connection, address_of, connect
from recoup.ledger.postgres.faults import ledger_error
from recoup.ledger.postgres.forgetting import ended_runs, forget
from recoup.ledger.postgres.jobs import AppendJob, ClaimJob, ReleaseJob, RenewJob, RowJob, SendJob
from recoup.ledger.postgres.listening import Listener, Teller
from recoup.ledger.postgres.lists import run_count, run_history, run_page
from recoup.ledger.postgres.losses import Acknowledgements, loss_of
from recoup.ledger.postgres.migrations import migrate, require_utf8
from recoup.ledger.postgres.queries import queries
from recoup.ledger.postgres.reader import Reader
from recoup.ledger.postgres.together import Together
from recoup.ledger.postgres.writer import Writer
from recoup.ledger.stored_rows import arrival_of, attempt_of, checkpoint_of, control_of, head_of
from recoup.ledger.worker_rows import FORGOTTEN_S, encode_worker, seen_worker, wanting_row
from recoup.model.events import Event
from recoup.model.ids import Lease, ProcessIdentity, run_stream, workflow_stream
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

BUSY_MAX_S = 5.0
_REMEMBERED_MAX = 1_000
_EVERYTHING = 1 << 40
_BEGINNING_EVENTS = 200
"""As many as `events_of` gives: runs with fewer are read in one question with others."""
_READING_MAX_S = 1.0
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_Q = queries()

Follow = Callable[[int, int], None]
"""Hears the database's wall clock, and this machine's boot clock at the same moment; both in microseconds."""


class PostgresLedger:
    """The `Ledger` of the ports on PostgreSQL. Writes are grouped (writer.py); reads have connections of their own."""

    def __init__(
        self,
        url: str,
        *,
        busy_max_s: float = BUSY_MAX_S,
        witness: Path | None = None,
        clock: Follow | None = None,
    ) -> None:
        """Connects to nothing yet: see `open`."""
        self._follow = clock
        self._address = address_of(url)
        self.name = self._address.name
        self._reader = Reader(self._address, busy_max_s)
        self._forgetting = Reader(self._address, busy_max_s, 1, writes=True)
        self._beginnings = Together(self._reader, "events_of")
        self._inboxes = Together(self._reader, "waiting_controls")
        self._listener = Listener(self._address)
        self._teller = Teller(self._reader)
        self._states: dict[str, WorkflowState] = {}
        self._acknowledgements = Acknowledgements(witness, self._states.clear)
        self._writer = Writer(self._address, busy_max_s, self._teller.written, self._acknowledgements)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        busy_max_s: float = BUSY_MAX_S,
        witness: Path | None = None,
        clock: Follow | None = None,
    ) -> PostgresLedger:
        """Makes or migrates the schema as needed. `witness`: the folder in which processes of this home keep what was
        acknowledged to them. `clock` hears what the database's shows. Raises LedgerError, LedgerTooNew, LedgerBusy,
        SettingsError."""
        ledger = cls(url, busy_max_s=busy_max_s, witness=witness, clock=clock)
        try:
            connection = await connect(ledger._address, writes=True)
            try:
                await require_utf8(connection, ledger._address)
                await migrate(connection, ledger._address)
                await connection.execute(_Q["take_numbers"])
                await ledger._read_clock(connection)
            finally:
                await connection.close()
        except (psycopg.Error, OSError) as error:
            raise ledger_error(error, ledger._address) from error
        return ledger

    async def append(self, append: Append) -> Appended:
        return await self._writer.commit(AppendJob(append))

    async def read(self, stream: str, after: int = 0, limit: int = 10_000) -> list[Event]:
        if after == 0 and limit >= _BEGINNING_EVENTS:
            rows = await self._beginnings.rows(stream)
            if len(rows) < _BEGINNING_EVENTS:
                return [_event(stream, row) for row in rows]
        rows = await self._reader.rows("events_after", (stream, after, limit))
        return [_event(stream, row) for row in rows]

    async def arrivals(self, after: int = 0, limit: int = 10_000) -> list[Arrival]:
        return [arrival_of(row) for row in await self._reader.rows("events_arrived", (after, limit))]

    async def arrivals_before(self, number: int, limit: int = 1_000) -> list[Arrival]:
        return [arrival_of(row) for row in await self._reader.rows("events_arrived_before", (number, limit))]

    async def last_arrival(self) -> int:
        row = await self._reader.row("last_arrival")
        return int(row[0]) if row else 0

    async def head(self, stream: str) -> int:
        row = await self._reader.row("head", (stream,))
        return int(row[0]) if row else 0

    async def streams(self, prefix: str = "") -> list[str]:
        return [name for (name,) in await self._reader.rows("streams_from", {"prefix": prefix})]

    async def heads(self, prefix: str = "") -> list[Head]:
        rows = await self._reader.rows("heads_from", {"prefix": prefix})
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
        wanted = Lease(run_id, owner, 0, ttl_s, deadline_boot_s(now, ttl_s))
        return await self._writer.commit(ClaimJob(wanted, now, over_epoch, tuple(crowds)))

    async def renew(self, lease: Lease, now: Instant) -> Lease:
        return await self._writer.commit(RenewJob(lease, now))

    async def release(self, lease: Lease) -> None:
        await self._writer.commit(ReleaseJob(lease))

    async def lease(self, run_id: str) -> LeaseRow | None:
        row = await self._reader.row("lease", (run_id,))
        return lease_row(row) if row else None

    async def wanting(self, after: str = "", limit: int = 500) -> list[Wanting]:
        return [wanting_row(row) for row in await self._reader.rows("wanting", (after, limit))]

    async def held(self, now: Instant, limit: int = 10_000) -> list[HeldRun]:  # noqa: ARG002 - the database's clock counts
        rows = await self._reader.rows("held", (limit,))
        held = []
        for row in rows:
            with contextlib.suppress(RowUnreadable):  # nobody takes that run up
                held.append(HeldRun(wanting_row(row[1:8]), lease_row(row[8:]), row[0]))
        return held

    async def keep_worker(self, worker: WorkerRow, now: Instant) -> None:  # noqa: ARG002
        await self._writer.commit(RowJob("keep_worker", (worker.worker_id, encode_worker(worker))))
        self._acknowledgements.write_soon()
        if self._follow is not None:
            await self._reader.ask(self._read_clock)

    async def _read_clock(self, connection: Connection) -> None:
        """Half of the way there and back is taken off. An answer that took long says too little."""
        asked_s = time.clock_gettime(_BOOT_CLOCK)
        ((wall_us,),) = await _rows(connection, "wall_clock", ())
        answered_s = time.clock_gettime(_BOOT_CLOCK)
        if self._follow is not None and answered_s - asked_s < _READING_MAX_S:
            self._follow(wall_us, round((asked_s + answered_s) / 2 * 1e6))

    async def forget_worker(self, worker_id: str) -> None:
        await self._writer.commit(RowJob("forget_worker", (worker_id,)))

    async def workers(self, now: Instant) -> list[SeenWorker]:  # noqa: ARG002
        seen = [seen_worker(*row) for row in await self._reader.rows("workers")]
        if any(one.silent_s >= FORGOTTEN_S for one in seen):
            await self._writer.commit(RowJob("forget_silent_workers", (FORGOTTEN_S,)))
        return [one for one in seen if one.silent_s < FORGOTTEN_S]

    async def witness(self) -> None:
        await self._acknowledgements.write()

    def started_s_ago(self) -> float:
        return self._acknowledgements.started_s_ago()

    async def untold_losses(self) -> list[Loss]:
        return [loss_of(row) for row in await self._reader.rows("untold_losses")]

    async def tell_loss(self, loss: Loss) -> None:
        await self._writer.commit(RowJob("tell_loss", (loss.id,)))

    async def suspicion(self, run_id: str) -> Suspicion | None:
        row = await self._reader.row("suspicion", (run_id,))
        return None if row is None else Suspicion(loss_of(row), row[-1])

    async def end_suspicion(self, run_id: str, loss: Loss) -> None:
        await self._writer.commit(RowJob("end_suspicion", (run_id, loss.id)))

    async def send_control(self, control: Control) -> bool:
        return await self._writer.commit(SendJob(control))

    async def pending_controls(self, run_id: str) -> list[Control]:
        return [control_of(row) for row in await self._inboxes.rows(run_id)]

    async def control(self, control_id: str) -> Control | None:
        row = await self._reader.row("control", (control_id,))
        return control_of(row) if row else None

    async def runs(
        self, wanted: RunFilter = EVERY_RUN, *, limit: int = 100, before: Place | None = None
    ) -> RunPage:
        return await self._reader.ask(lambda connection: run_page(connection, wanted, limit, before))

    async def count_runs(self, wanted: RunFilter = EVERY_RUN, cap: int = COUNTED_MAX) -> RunCount:
        return await self._reader.ask(lambda connection: run_count(connection, wanted, cap))

    async def tallies(self) -> dict[str, int]:
        return dict(await self._reader.rows("tallies"))

    async def history(self, span: Span, workflow: str | None = None) -> History:
        return await self._reader.ask(lambda connection: run_history(connection, span, workflow))

    async def find_runs(self, prefix: str, limit: int = 3) -> list[str]:
        rows = await self._reader.rows("runs_from", {"prefix": prefix, "limit": limit})
        return [run_id for (run_id,) in rows]

    async def family(self, run_id: str) -> list[str]:
        rows = await self._reader.rows("family", {"run": run_id})
        return [rows[0][0], *(member for _, member in rows if member is not None)]

    async def attempts(self, run_id: str) -> list[AttemptRow]:
        return await self._reader.ask(lambda connection: _attempts(connection, run_id))

    async def checkpoints(self, run_id: str) -> list[CheckpointRow]:
        return [checkpoint_of(row) for row in await self._reader.rows("checkpoints", (run_id,))]

    async def workflow_state(self, workflow: str) -> WorkflowState:
        """Events do not change, so that what was folded before needs only what has come since."""
        known = self._states.get(workflow)
        state = await self._reader.ask(lambda connection: _workflow_state(connection, workflow, known))
        if len(self._states) >= _REMEMBERED_MAX:
            self._states.clear()
        self._states[workflow] = state
        return state

    async def policy_body(self, digest: str) -> bytes | None:
        row = await self._reader.row("policy_body", (digest,))
        return bytes(row[0]) if row else None

    async def inbox(
        self, *, state: str | None = None, of_runs: bool | None = None, after: int = 0, limit: int = 100
    ) -> list[EscalationRow]:
        values = {"behind": after, "of_runs": of_runs, "limit": limit, "state": state}
        rows = await self._reader.rows("inbox" if state is None else "inbox_in_state", values)
        return [escalation_row(row) for row in rows]

    async def escalation(self, escalation_id: str) -> EscalationRow | None:
        row = await self._reader.row("escalation", (escalation_id,))
        return escalation_row(row) if row else None

    async def ended(self, before_us: int, after: str = "", limit: int = 200) -> list[EndedRun]:
        # Not by a plan for all cases: it depends on the moment whether most runs are meant, or none.
        return await self._forgetting.ask(lambda connection: ended_runs(connection, before_us, after, limit))

    async def forget(self, run_ids: Sequence[str], before_us: int, at: Instant, note: Draft) -> list[str]:
        gone = await self._forgetting.ask(lambda connection: forget(connection, run_ids, before_us, at, note))
        self._teller.written()
        return gone

    async def change_marker(self) -> int:
        """Own writes change it too: asking once too often costs one query."""
        return await self._listener.marker()

    async def close(self) -> None:
        await self._writer.close()
        self._acknowledgements.write_soon()
        await self._teller.close()
        await self._listener.close()
        await self._beginnings.close()
        await self._inboxes.close()
        await self._forgetting.close()
        await self._reader.close()


async def _attempts(connection: Connection, run_id: str) -> list[AttemptRow]:
    """Those that are stored, and what the events say since. In this order: a writer that comes in between only makes
    the rows newer, and to fold an event again changes nothing."""
    seq = next(iter(await _rows(connection, "attempts_seq", (run_id,))), (0,))[0]
    stored = [attempt_of(row) for row in await _rows(connection, "attempts", (run_id,))]
    stream = run_stream(run_id)
    events = await _rows(connection, "events_after", (stream, seq, _EVERYTHING))
    told = (_event(stream, row) for row in events if row[-2] in ATTEMPTED)
    return with_attempts(stored, stream, ((event.at, event.payload) for event in told))


async def _workflow_state(
    connection: Connection, workflow: str, known: WorkflowState | None
) -> WorkflowState:
    """With what was `known` of it before, only what has come since is folded, unless much has."""
    stored = None
    for body, seq in await _rows(connection, "workflow_state", (workflow,)):
        if known is None or seq > known.seq + STATE_LAG_EVENTS:
            stored = decode_state(body)
    state = stored or known or WorkflowState()
    stream = workflow_stream(workflow)
    rows = await _rows(connection, "events_after", (stream, state.seq, _EVERYTHING))
    events = (_event(stream, row) for row in rows)
    return rebuild_workflow(((event.at, event.payload) for event in events), state)


async def _rows(connection: Connection, name: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    answer = await connection.execute(_Q[name], values, binary=True)
    return await answer.fetchall()


def _event(stream: str, row: tuple[Any, ...]) -> Event:
    seq, wall_us, boot_us, boot_id, kind, raw = row
    return event_of(stream, seq, Instant(wall_us, boot_us, boot_id), kind, raw)
