"""Group commit: work that waits shares one transaction. One connection of this process writes, one task at a time.

Two ways. Where memory tells everything and only events are to be written, they are sent at once with all that they were
decided by, and the database writes them only if it is still so: one round trip. Otherwise the rows are locked first and
told (`gather`), the jobs are decided by them, and a second round trip writes and commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import psycopg

from recoup.errors import LedgerError
from recoup.kernel.workflow import rebuild_workflow
from recoup.ledger.postgres.asking import Questions, decode_gathered
from recoup.ledger.postgres.connecting import Address, Connection, connect, cut_off_after
from recoup.ledger.postgres.faults import is_lock, is_passing, ledger_busy, ledger_error
from recoup.ledger.postgres.jobs import AppendJob, Job
from recoup.ledger.postgres.picture import Memory, Picture
from recoup.ledger.postgres.queries import queries
from recoup.ledger.writer import Outcome
from recoup.model.events import decode_payload
from recoup.model.ids import workflow_stream
from recoup.model.instant import Instant

JOBS_MAX = 512
EVENTS_ENOUGH = 100_000
"""Then the rest waits for the next transaction."""
DISTRUST_MAX = 64
LEASE_SPARE_S = 1.0
"""Before a lease runs out its driver must know what became of its last append."""
AWAY_MAX_S = 60.0
CONFIRM_MAX_S = 3.0
"""For finding out what became of a commit whose answer was lost, beyond the time for the commit itself."""

_RETRY_S = 0.02
_RETRY_MAX_S = 0.5
_POLL_S = 0.02
_ROLLBACK_MAX_S = 1.0
_CONNECT_MIN_S = 0.1
_EVERYTHING = 1 << 40
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_Q = queries()
_encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class Ticket(msgspec.Struct, frozen=True):
    job: Job[Any]
    future: asyncio.Future[Any]
    until_s: float = 0.0
    """For a turn. By time.monotonic, since it is tried."""
    away_until_s: float = 0.0
    """For a server that is away: no other work would get on without this one."""


class Sent(msgspec.Struct, frozen=True):
    """A commit that is on its way."""

    jobs: Sequence[Job[Any]]
    outcomes: list[Outcome]
    picture: Picture
    xid: int | None


class Backend(msgspec.Struct, frozen=True):
    """One session of the server: a pid alone is reused."""

    pid: int
    began_at: datetime


class Writer:
    """The queue, the connection behind it, and what this process remembers. Belongs to one event loop."""

    def __init__(self, address: Address, busy_max_s: float, written: Callable[[], None]) -> None:
        self._address = address
        self._busy_max_s = busy_max_s
        self._written = written
        self._waiting: deque[Ticket] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._connection: Connection | None = None
        self._backend: Backend | None = None
        self._sent: Sent | None = None
        self._memory = Memory()
        self._distrust = 0
        self.confirm_max_s = CONFIRM_MAX_S
        self._distrusted = 0

    async def commit(self, job: Job[T]) -> T:
        """The job's value, durable. When the caller is cancelled its work may be done or not."""
        if self._closed:
            raise LedgerError(f"the ledger {self._address.name} was closed", hint="Open it again.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(Ticket(job, future))
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="recoup-ledger")
        return await future

    async def close(self) -> None:
        """What waits is committed first."""
        self._closed = True
        if self._task:
            await self._task
        await self._discard()

    async def _work(self) -> None:
        try:
            while self._waiting:
                tickets: list[Ticket] = []
                self._fill(tickets)
                try:
                    await self._commit(tickets)
                except BaseException as error:  # noqa: BLE001 - nobody may wait for ever: each caller gets it
                    await self._discard()
                    _tell_all(tickets, [Outcome(error=error) for _ in tickets])
                # One turn of the loop, in which those who were told hand in their next ones: these go together.
                await asyncio.sleep(0)
        finally:
            self._task = None

    def _fill(self, tickets: list[Ticket]) -> None:
        """With what waits, up to what one transaction may do."""
        events = sum(_size(ticket.job) for ticket in tickets)
        while self._waiting and len(tickets) < JOBS_MAX and events < EVENTS_ENOUGH:
            ticket = self._waiting.popleft()
            if not ticket.future.cancelled():
                tickets.append(self._begun(ticket))
                events += _size(ticket.job)

    def _begun(self, ticket: Ticket) -> Ticket:
        now_s = time.monotonic()
        away_max_s = max(self._busy_max_s, min(_lease_left_s(ticket.job) - LEASE_SPARE_S, AWAY_MAX_S))
        return Ticket(ticket.job, ticket.future, now_s + self._busy_max_s, now_s + away_max_s)

    # Again, within a limit

    async def _commit(self, tickets: list[Ticket]) -> None:
        """Each is told its outcome, or LedgerBusy or LedgerError: then its job was not done. When this raises, those in
        `tickets` were not told."""
        pause_s, locked = _RETRY_S, False
        while tickets:
            try:
                return _tell_all(tickets, await self._tried(tickets))
            except (psycopg.Error, OSError) as error:
                settled = await self._after(error, max(ticket.away_until_s for ticket in tickets))
                if settled is not None:
                    return _tell_all(tickets, settled)
                locked = locked or is_lock(error)
                self._give_up(tickets, error, locked, pause_s)
            if tickets:
                await asyncio.sleep(pause_s * random.uniform(0.5, 1))
                pause_s = min(pause_s * 2, _RETRY_MAX_S)
                if not locked:
                    # While the server is away all wait alike; a lock is perhaps in the way of these alone.
                    self._fill(tickets)
        return None

    async def _tried(self, tickets: Sequence[Ticket]) -> list[Outcome]:
        latest_s = max(ticket.away_until_s for ticket in tickets)
        end_s = min(latest_s, time.monotonic() + self._busy_max_s)
        connection = await self._connected(end_s)
        with cut_off_after(connection, end_s - time.monotonic()):
            return await self._transact(connection, [ticket.job for ticket in tickets])

    def _give_up(self, tickets: list[Ticket], error: Exception, locked: bool, pause_s: float) -> None:
        """Those whose time is over."""
        trying, tickets[:] = tuple(tickets), []
        next_s = time.monotonic() + pause_s
        for ticket in trying:
            until_s = ticket.until_s if locked or self._closed else ticket.away_until_s
            if next_s < until_s and is_passing(error):
                tickets.append(ticket)
            else:
                _tell(ticket.future, Outcome(error=self._words(error, locked)))

    def _words(self, error: Exception, locked: bool) -> LedgerError:
        if locked:
            words: LedgerError = ledger_busy(error, self._address, self._busy_max_s)
        else:
            words = ledger_error(error, self._address)
        words.__cause__ = error
        return words

    async def _after(self, error: Exception, until_s: float) -> list[Outcome] | None:
        """The outcomes, if the commit was done although its answer was lost. None: certainly nothing was written."""
        self._memory.forget()
        sent, self._sent = self._sent, None
        connection = self._connection
        if connection is not None and not connection.closed:
            # The server itself has said no, and lives: the transaction is undone.
            with contextlib.suppress(psycopg.Error), cut_off_after(connection, _ROLLBACK_MAX_S):
                await connection.rollback()
                return None
        backend = self._backend
        await self._discard()
        if sent is None or backend is None:
            return None
        return await self._confirmed(error, sent, backend, until_s)

    async def _confirmed(
        self, error: Exception, sent: Sent, backend: Backend, until_s: float
    ) -> list[Outcome] | None:
        deadline_s = max(time.monotonic() + self.confirm_max_s, until_s)
        while time.monotonic() < deadline_s:
            try:
                connection = await self._connected(deadline_s)
                with cut_off_after(connection, deadline_s - time.monotonic()):
                    await _end(connection, backend)
                    return sent.outcomes if await self._is_written(connection, sent) else None
            except (psycopg.Error, OSError):
                await self._discard()
            await asyncio.sleep(_RETRY_MAX_S * random.uniform(0.2, 0.6))
        hint = "See that the server runs, then look with `recoup show` at what was recorded before you repeat anything."
        what = f"the ledger {self._address.name} could not confirm its last commit"
        raise LedgerError(f"{what} ({self._address.scrubbed(str(error)).strip()})", hint=hint) from error

    async def _is_written(self, connection: Connection, sent: Sent) -> bool:
        """All of the transaction or nothing: one thing that it wrote tells. Its id alone does not: a server that
        crashed, or another one that took over, may give it to the next. What leaves no trace can be done again."""
        if sent.xid is not None:
            try:
                row = await _one(connection, "outcome", (str(sent.xid),))
            except psycopg.DataError:
                return False  # another server, which has not come so far
            if row != ("committed",):
                return False
        for position, (_, *stamp, kind, text) in sent.picture.events[:1]:
            row = await _one(connection, "event_at", (position.stream, position.seq))
            return row == (*stamp, kind, text.encode())
        for job, outcome in zip(sent.jobs, sent.outcomes, strict=True):
            trace = None if outcome.error else job.trace(outcome.value)
            if trace is not None:
                row = await _one(connection, trace.query, trace.values)
                return row is not None and row[: len(trace.row)] == trace.row
        return False

    # One transaction

    async def _transact(self, connection: Connection, jobs: Sequence[Job[Any]]) -> list[Outcome]:
        outcomes = await self._at_once(connection, jobs)
        if outcomes is None:
            outcomes = await self._in_two(connection, jobs)
        self._sent = None
        self._written()
        return outcomes

    async def _at_once(self, connection: Connection, jobs: Sequence[Job[Any]]) -> list[Outcome] | None:
        """None: it must be done in two."""
        if self._distrust > 0:
            self._distrust -= 1
            return None
        decided = self._decided_by_memory(jobs)
        if decided is None:
            return None
        picture, outcomes = decided
        self._sent = Sent(jobs, outcomes, picture, None)
        row = await _one(connection, "append_if_unchanged", (_batch(picture),))
        self._sent = None
        if row != (True,):
            # Others write the same streams: for a while it is not worth trying.
            self._distrusted = self._distrust = min(DISTRUST_MAX, self._distrusted * 2 or 1)
            self._memory.forget()
            return None
        self._distrusted = 0
        self._memory.keep(picture)
        return outcomes

    def _decided_by_memory(self, jobs: Sequence[Job[Any]]) -> tuple[Picture, list[Outcome]] | None:
        picture, outcomes = Picture(self._memory), []
        for job in jobs:
            if not isinstance(job, AppendJob) or not job.events_alone:
                return None
            picture.mark()
            try:
                outcomes.append(Outcome(job.decide(picture)))
            except Exception:  # noqa: BLE001
                # By what is out of date, perhaps: nobody is refused by memory alone.
                return None
        return (picture, outcomes) if picture.writes_events_alone else None

    async def _in_two(self, connection: Connection, jobs: Sequence[Job[Any]]) -> list[Outcome]:
        questions, refused = _asked(jobs)
        async with connection.pipeline():
            await connection.execute("BEGIN")
            answer = await connection.execute(_Q["gather"], (questions.document(self._memory.ends),))
        (text,) = await answer.fetchone() or ("",)
        gathered = decode_gathered(text)
        picture = Picture(self._memory, gathered)
        for workflow in picture.unreadable:
            picture.states[workflow] = await _refolded(connection, workflow)
        outcomes = [refused.get(place) or _decided(picture, job) for place, job in enumerate(jobs)]
        self._sent = Sent(jobs, outcomes, picture, gathered.xid)
        await _write(connection, picture)
        self._memory.keep(picture)
        return outcomes

    # The connection

    async def _connected(self, deadline_s: float) -> Connection:
        if self._connection is None or self._connection.closed:
            await self._discard()
            self._memory.forget()
            left_s = max(_CONNECT_MIN_S, deadline_s - time.monotonic())
            self._connection = await connect(
                self._address, writes=True, within_s=left_s, patience_s=self._busy_max_s
            )
            with cut_off_after(self._connection, left_s):
                await self._connection.execute(_Q["take_numbers"])
                row = await _one(self._connection, "this_backend")
            assert row is not None, "a session sees itself"
            self._backend = Backend(*row)
        return self._connection

    async def _discard(self) -> None:
        connection, self._connection, self._backend = self._connection, None, None
        if connection:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()


def _asked(jobs: Sequence[Job[Any]]) -> tuple[Questions, dict[int, Outcome]]:
    """And what cannot even be asked for, by its place among the jobs."""
    questions, refused = Questions(), {}
    for place, job in enumerate(jobs):
        try:
            job.ask(questions)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            refused[place] = Outcome(error=error)
    return questions, refused


def _decided(picture: Picture, job: Job[Any]) -> Outcome:
    mark = picture.mark()
    try:
        return Outcome(job.decide(picture))
    except Exception as error:  # noqa: BLE001
        # One job's error must not fail its neighbours.
        picture.undo(mark)
        return Outcome(error=error)


async def _write(connection: Connection, picture: Picture) -> None:
    async with connection.pipeline():
        if picture.events:
            await connection.execute(_Q["put_events"], (_batch(picture),))
        for statement, values in picture.all_writes():
            await connection.execute(statement, values)
        if picture.tells:
            await connection.execute(_Q["notify"])
        await connection.execute("COMMIT")


def _batch(picture: Picture) -> str:
    ends = [{"n": name, "s": start, "e": picture.ends[name]} for name, start in picture.before.items()]
    events = [
        {"n": at.stream, "q": at.seq, "w": row[1], "b": row[2], "i": row[3], "k": row[4], "p": row[5]}
        for at, row in picture.events
    ]
    leases = [{"r": run_id, "e": epoch} for run_id, epoch in picture.relied_on.items()]
    return _encode({"ends": ends, "events": events, "leases": leases, "quiet": list(picture.quiet)}).decode()


async def _refolded(connection: Connection, workflow: str) -> Any:
    answer = await connection.execute(
        _Q["events_after"], (workflow_stream(workflow), 0, _EVERYTHING), binary=True
    )
    rows = await answer.fetchall()
    return rebuild_workflow((Instant(*at), decode_payload(kind, raw)) for _, *at, kind, raw in rows)


async def _end(connection: Connection, backend: Backend) -> None:
    """A session whose client is gone may still commit: see that it cannot any more."""
    while await _one(connection, "end_backend", (backend.pid, backend.began_at)) is not None:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_S)


async def _one(connection: Connection, name: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    answer = await connection.execute(_Q[name], values, binary=True)
    return await answer.fetchone()


def _size(job: Job[Any]) -> int:
    if not isinstance(job, AppendJob):
        return 0
    return sum(len(part.drafts) for part in (*job.append.streams, *job.append.tail))


def _lease_left_s(job: Job[Any]) -> float:
    """Of the lease that a driver appends under, by the clock of this machine; 0 without one."""
    lease = job.append.lease if isinstance(job, AppendJob) else None
    if lease is None:
        return 0.0
    left_s = lease.deadline_boot_s - time.clock_gettime(_BOOT_CLOCK)
    return left_s if left_s <= lease.ttl_s else 0.0  # or else it was told by another clock


def _tell_all(tickets: Sequence[Ticket], outcomes: Sequence[Outcome]) -> None:
    for ticket, outcome in zip(tickets, outcomes, strict=True):
        _tell(ticket.future, outcome)


def _tell(future: asyncio.Future[Any], outcome: Outcome) -> None:
    if future.done():
        return
    if outcome.error:
        future.set_exception(outcome.error)
    else:
        future.set_result(outcome.value)
