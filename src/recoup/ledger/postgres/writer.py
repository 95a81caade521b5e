"""Group commit: work that waits shares one transaction. One connection of this process writes, one task at a time.

Two ways. Where memory tells everything, events and their rows are sent at once with all that they were decided by, and
the database writes them only if it is still so: one round trip. Otherwise the rows are locked first and told
(`gather`), the jobs are decided by them, and a second round trip writes and commits.
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
from psycopg.pq.abc import PGresult

from recoup.errors import EventUnreadable, LedgerError
from recoup.kernel.workflow import rebuild_workflow
from recoup.ledger.decoding import fact_of
from recoup.ledger.outcomes import Outcome, tell
from recoup.ledger.postgres.asking import Questions, decode_gathered
from recoup.ledger.postgres.connecting import Address, Connection, connect, cut_off_after
from recoup.ledger.postgres.faults import is_lock, is_passing, ledger_busy, ledger_error
from recoup.ledger.postgres.jobs import AppendJob, Job
from recoup.ledger.postgres.line import Line, Statement
from recoup.ledger.postgres.losses import Acknowledgements
from recoup.ledger.postgres.picture import Memory, Picture
from recoup.ledger.postgres.queries import queries
from recoup.ledger.postgres.text import number_array, text_array
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
_CHANGED = "RC001"
_BEGIN: Statement = ("BEGIN", ())
_COMMIT: Statement = ("COMMIT", ())
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

    def __init__(
        self,
        address: Address,
        busy_max_s: float,
        written: Callable[[], None],
        acknowledgements: Acknowledgements,
    ) -> None:
        self._address = address
        self._acknowledgements = acknowledgements
        self._busy_max_s = busy_max_s
        self._written = written
        self._waiting: deque[Ticket] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._line: Line | None = None
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
        line = await self._connected(end_s)
        line.cutting_off.begin(end_s - time.monotonic())
        try:
            return await self._transact(line, [ticket.job for ticket in tickets])
        finally:
            line.cutting_off.end()

    def _give_up(self, tickets: list[Ticket], error: Exception, locked: bool, pause_s: float) -> None:
        """Those whose time is over."""
        trying, tickets[:] = tuple(tickets), []
        next_s = time.monotonic() + pause_s
        for ticket in trying:
            until_s = ticket.until_s if locked or self._closed else ticket.away_until_s
            if next_s < until_s and is_passing(error):
                tickets.append(ticket)
            else:
                tell(ticket.future, Outcome(error=self._words(error, locked)))

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
        line = self._line
        if line is not None and not line.connection.closed:
            # The server itself has said no, and lives: the transaction is undone.
            with contextlib.suppress(psycopg.Error), cut_off_after(line.connection, _ROLLBACK_MAX_S):
                await line.rollback()
                return None
        backend = self._backend
        await self._discard()
        if sent is None or backend is None:
            return None
        return await self._confirmed(error, sent, backend, until_s)

    async def _confirmed(
        self, error: Exception, sent: Sent, backend: Backend, until_s: float
    ) -> list[Outcome] | None:
        soonest_s = time.monotonic() + self.confirm_max_s
        deadline_s = max(soonest_s, until_s)
        while time.monotonic() < (soonest_s if self._closed else deadline_s):
            try:
                connection = (await self._connected(deadline_s)).connection
                with cut_off_after(connection, deadline_s - time.monotonic()):
                    await _end(connection, backend)
                    if not await self._is_written(connection, sent):
                        return None
                    self._acknowledgements.add(sent.picture, await _number_in(connection, sent.picture))
                    return sent.outcomes
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

    async def _transact(self, line: Line, jobs: Sequence[Job[Any]]) -> list[Outcome]:
        outcomes = await self._at_once(line, jobs)
        if outcomes is None:
            outcomes = await self._in_two(line, jobs)
        self._sent = None
        self._written()
        return outcomes

    async def _at_once(self, line: Line, jobs: Sequence[Job[Any]]) -> list[Outcome] | None:
        """None: it must be done in two."""
        if self._distrust > 0:
            self._distrust -= 1
            return None
        decided = self._decided_by_memory(jobs)
        if decided is None:
            return None
        picture, outcomes = decided
        self._sent = Sent(jobs, outcomes, picture, None)
        number = await _written_if_unchanged(line, picture)
        self._sent = None
        if number is None:
            # Others write the same streams: for a while it is not worth trying.
            self._distrusted = self._distrust = min(DISTRUST_MAX, self._distrusted * 2 or 1)
            self._memory.forget()
            return None
        self._distrusted = 0
        self._keep(picture, number)
        return outcomes

    def _decided_by_memory(self, jobs: Sequence[Job[Any]]) -> tuple[Picture, list[Outcome]] | None:
        picture, outcomes = Picture(self._memory), []
        for job in jobs:
            if not isinstance(job, AppendJob) or not job.is_plain:
                return None
            picture.mark()
            try:
                outcomes.append(Outcome(job.decide(picture)))
            except Exception:  # noqa: BLE001
                # By what is out of date, perhaps: nobody is refused by memory alone.
                return None
        known = picture.knows_all_that_it_relies_on()
        return (picture, outcomes) if picture.is_plain and known else None

    async def _in_two(self, line: Line, jobs: Sequence[Job[Any]]) -> list[Outcome]:
        questions, refused = _asked(jobs)
        asked = (_Q["gather"], (questions.document(self._memory.ends),))
        _, answer = await line.ask_all([_BEGIN, asked])
        gathered = decode_gathered(answer.get_value(0, 0) or b"")
        picture = Picture(self._memory, gathered)
        for workflow in picture.unreadable:
            try:
                picture.states[workflow] = await _refolded(line.connection, workflow)
            except EventUnreadable as error:  # of this workflow alone: others write in the same transaction
                picture.damaged[workflow_stream(workflow)] = error
        outcomes = [refused.get(place) or _decided(picture, job) for place, job in enumerate(jobs)]
        self._sent = Sent(jobs, outcomes, picture, gathered.xid)
        answers = await line.ask_all([*_writes(picture), _COMMIT])
        self._keep(picture, _number(answers[0]) if picture.events else None)
        return outcomes

    def _keep(self, picture: Picture, number: int | None) -> None:
        self._memory.keep(picture)
        self._acknowledgements.add(picture, number)

    # The connection

    async def _connected(self, deadline_s: float) -> Line:
        if self._line is None or self._line.connection.closed:
            await self._discard()
            self._memory.forget()
            left_s = max(_CONNECT_MIN_S, deadline_s - time.monotonic())
            connection = await connect(
                self._address, writes=True, within_s=left_s, patience_s=self._busy_max_s
            )
            self._line = Line(connection)
            with cut_off_after(connection, left_s):
                await connection.execute(_Q["take_numbers"])
                await self._acknowledgements.compare(connection)
                row = await _one(connection, "this_backend")
            assert row is not None, "a session sees itself"
            self._backend = Backend(*row)
        return self._line

    async def _discard(self) -> None:
        line, self._line, self._backend = self._line, None, None
        if line:
            line.cutting_off.stop()
            with contextlib.suppress(psycopg.Error, OSError):
                await line.connection.close()


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


async def _written_if_unchanged(line: Line, picture: Picture) -> int | None:
    """The number of the last event. None: nothing was written."""
    names = sorted(picture.before)
    decided_by = (
        text_array(names),
        number_array(picture.before[name] for name in names),
        number_array(picture.ends[name] for name in names),
        text_array(picture.relied_on),
        number_array(picture.relied_on.values()),
        text_array(picture.quiet),
    )
    append = (_Q["append"], (*decided_by, _encode(_added(picture, names)).decode()))
    try:
        answers = await line.ask_all([append, *picture.all_writes()])
    except psycopg.Error as error:
        if error.sqlstate != _CHANGED:
            raise
        return None
    return _number(answers[0])


def _number(answer: PGresult) -> int:
    return int(answer.get_value(0, 0) or b"")


async def _number_in(connection: Connection, picture: Picture) -> int | None:
    """Of its last event, if that is still there."""
    for place, _ in picture.events[-1:]:
        row = await _one(connection, "number_at", (place.stream, place.seq))
        return None if row is None else int(row[0])
    return None


def _writes(picture: Picture) -> list[Statement]:
    events: list[Statement] = [(_Q["put_events"], (_batch(picture),))] if picture.events else []
    told: list[Statement] = [(_Q["notify"], ())] if picture.tells else []
    return [*events, *picture.all_writes(), *told]


def _batch(picture: Picture) -> str:
    names = sorted(picture.before)
    ends = [picture.ends[name] for name in names]
    return _encode({"names": names, "ends": ends, "events": _added(picture, names)}).decode()


def _added(picture: Picture, names: Sequence[str]) -> list[dict[str, Any]]:
    places = {name: place for place, name in enumerate(names, 1)}
    return [
        {"n": places[at.stream], "q": at.seq, "w": row[1], "b": row[2], "i": row[3], "k": row[4], "p": row[5]}
        for at, row in picture.events
    ]


async def _refolded(connection: Connection, workflow: str) -> Any:
    answer = await connection.execute(
        _Q["events_after"], (workflow_stream(workflow), 0, _EVERYTHING), binary=True
    )
    stream = workflow_stream(workflow)
    rows = [(seq, Instant(*at), kind, raw) for seq, *at, kind, raw in await answer.fetchall()]
    return rebuild_workflow((at, fact_of(stream, seq, at, kind, raw)) for seq, at, kind, raw in rows)


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
        tell(ticket.future, outcome)
