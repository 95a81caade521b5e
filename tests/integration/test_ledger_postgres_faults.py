"""What the ledger on PostgreSQL promises when connections, locks and the server itself fail."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import psycopg
import pytest

from recoup.clock import SystemClock
from recoup.errors import LedgerBusy, LedgerError
from recoup.ledger.outcomes import Outcome
from recoup.ledger.postgres.jobs import ClaimJob
from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.ledger.postgres.picture import Memory, Picture
from recoup.ledger.postgres.writer import Sent
from recoup.model import events as ev
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.storage import Append, Control
from recoup.testing.ledger_suite import (
    BOOT,
    OWNER,
    START,
    claimed,
    control,
    facts,
    into,
    note,
    refused,
    submitted,
)
from recoup.testing.postgres import PostgresServer, postgres_server

MARK = "cut-here"
IDLE = b"Z\x00\x00\x00\x05I"


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresServer]:
    """A server that may be killed."""
    with postgres_server(own=True) as server:
        yield server


class Proxy:
    """Between a ledger and its server. Cuts a connection, once, when the client sends the mark."""

    def __init__(self, port: int, *, deliver: bool) -> None:
        self._port = port
        self._deliver = deliver
        self._serving: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self.cuts = 0

    async def listen(self, port: int = 0) -> int:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", port)
        return int(self._listening.sockets[0].getsockname()[1])

    def let_nobody_in(self) -> int:
        """The port that nobody listens on any more."""
        assert self._listening is not None
        port = int(self._listening.sockets[0].getsockname()[1]) if self._listening.sockets else 0
        self._listening.close()
        return port

    async def close(self) -> None:
        self.let_nobody_in()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
        answers = asyncio.create_task(self._pass_on(server_reader, writer))
        try:
            await self._ask(reader, server_reader, server_writer, answers)
        finally:
            answers.cancel()
            for one in (writer, server_writer):
                one.transport.abort()
                with contextlib.suppress(ConnectionError):
                    await one.wait_closed()

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
        answers: asyncio.Task[None],
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                if not self.cuts and MARK.encode() in data:
                    self.cuts += 1
                    answers.cancel()
                    if self._deliver:
                        await asyncio.gather(answers, return_exceptions=True)
                        server_writer.write(data)
                        await self._deliver_the_rest(reader, server_reader, server_writer)
                    return
                server_writer.write(data)

    async def _deliver_the_rest(
        self, reader: asyncio.StreamReader, server_reader: asyncio.StreamReader, server: asyncio.StreamWriter
    ) -> None:
        """Up to the server's word that no transaction is open any more; nobody gets its answers."""
        sending = asyncio.create_task(self._pass_on(reader, server))
        said = b""
        while IDLE not in said:
            said += await server_reader.read(1 << 20)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                writer.write(data)
        writer.close()


@contextlib.asynccontextmanager
async def behind_a_proxy(
    server: PostgresServer, *, deliver: bool, busy_max_s: float = 5.0
) -> AsyncIterator[tuple[Proxy, PostgresLedger]]:
    proxy = Proxy(server.port, deliver=deliver)
    port = await proxy.listen()
    url = server.prepared_database().replace(f":{server.port}/", f":{port}/")
    ledger = await PostgresLedger.open(url, busy_max_s=busy_max_s)
    try:
        yield proxy, ledger
    finally:
        await ledger.close()
        await proxy.close()


async def tokens(ledger: PostgresLedger, stream: str) -> list[str]:
    payloads = [event.payload for event in await ledger.read(stream)]
    return [payload.reason for payload in payloads if isinstance(payload, ev.RunInterrupted)]


@pytest.mark.parametrize("deliver", [True, False], ids=["committed", "lost before"])
@pytest.mark.parametrize("known", [True, False], ids=["in one", "in two"])
async def test_an_append_whose_answer_was_lost_is_written_once(
    mortal: PostgresServer, deliver: bool, known: bool
) -> None:
    async with behind_a_proxy(mortal, deliver=deliver) as (proxy, ledger):
        if known:
            await ledger.append(facts(into("run:a", submitted())))
            await ledger.append(facts(into("policy", note("first"))))
        done = await ledger.append(facts(into("policy", note(MARK))))
        assert proxy.cuts == 1
        assert [at.seq for at in done.positions] == [2 if known else 1]
        assert await tokens(ledger, "policy") == [*(["first"] if known else []), MARK]
        await ledger.append(facts(into("policy", note("next"))))
        assert (await tokens(ledger, "policy"))[-2:] == [MARK, "next"]


@pytest.mark.parametrize("deliver", [True, False], ids=["committed", "lost before"])
async def test_a_claim_whose_answer_was_lost_is_granted_once(mortal: PostgresServer, deliver: bool) -> None:
    async with behind_a_proxy(mortal, deliver=deliver) as (proxy, ledger):
        lease = await ledger.claim("r", ProcessIdentity(MARK, BOOT, 1, 1), 10.0, START)
        assert proxy.cuts == 1
        assert lease is not None and lease.epoch == 1
        await ledger.append(facts(into("run:r", note()), lease=lease))


@pytest.mark.parametrize("deliver", [True, False], ids=["committed", "lost before"])
async def test_a_control_whose_answer_was_lost_is_sent_once(mortal: PostgresServer, deliver: bool) -> None:
    async with behind_a_proxy(mortal, deliver=deliver) as (proxy, ledger):
        wish = Control(id="c1", run_id="r", action="pause", reason=MARK, actor="op", at=START)
        assert await ledger.send_control(wish)
        assert proxy.cuts == 1
        assert not await ledger.send_control(wish)
        assert await ledger.pending_controls("r") == [wish]


async def test_a_transaction_id_alone_proves_nothing(mortal: PostgresServer) -> None:
    """After a crash the server may give the id of what was lost to the next transaction, which is then committed."""
    ledger = await PostgresLedger.open(mortal.prepared_database())
    await ledger.append(facts(into("policy", note())))
    connection = (await ledger._writer._connected(time.monotonic() + 5)).connection
    answer = await connection.execute("SELECT pg_current_xact_id()::text::bigint")
    (committed,) = await answer.fetchone() or (0,)
    job = ClaimJob(Lease("r", OWNER, 0, 10.0, 0.0), START, None)
    granted = Lease("r", OWNER, 1, 10.0, 0.0)
    sent = Sent([job], [Outcome(granted)], Picture(Memory()), committed)
    assert not await ledger._writer._is_written(connection, sent)
    assert await ledger.claim("r", OWNER, 10.0, START) is not None
    assert await ledger._writer._is_written(connection, sent)
    await ledger.close()


@pytest.mark.parametrize("deliver", [True, False], ids=["committed", "lost before"])
async def test_a_release_whose_answer_was_lost_is_done(mortal: PostgresServer, deliver: bool) -> None:
    async with behind_a_proxy(mortal, deliver=deliver) as (proxy, ledger):
        lease = await claimed(ledger)
        escalated = Append(at=START, streams=(into("run:r", note(MARK)),), lease=lease, release=True)
        await ledger.append(escalated)
        assert proxy.cuts == 1
        row = await ledger.lease("r")
        assert row is not None and row.owner is None


async def test_when_nobody_can_tell_what_became_of_a_commit_it_is_said(mortal: PostgresServer) -> None:
    async with behind_a_proxy(mortal, deliver=True, busy_max_s=0.3) as (proxy, ledger):
        await ledger.append(facts(into("policy", note("first"))))
        proxy.let_nobody_in()
        error = await refused(LedgerError, ledger.append(facts(into("policy", note(MARK)))))
        assert "could not confirm its last commit" in str(error)
        assert "recoup show" in str(error)


async def test_a_server_that_is_killed_and_started_again_loses_nothing_that_was_acknowledged(
    mortal: PostgresServer,
) -> None:
    ledger = await PostgresLedger.open(mortal.prepared_database(), busy_max_s=20)
    said: list[tuple[str, int]] = []
    stop = asyncio.Event()

    async def write(task: int) -> None:
        number = 0
        while not stop.is_set():
            token = f"{task}-{number}"
            own = into(f"run:{token}", submitted())
            done = await ledger.append(facts(into("run:shared", note(token)), *([own] if number % 3 else [])))
            said.append((token, done.positions[0].seq))
            number += 1

    async with asyncio.TaskGroup() as group:
        for task in range(8):
            group.create_task(write(task))
        for _ in range(2):
            before = len(said)
            async with asyncio.timeout(20):
                while len(said) < before + 40:
                    await asyncio.sleep(0.005)
            await asyncio.to_thread(mortal.restart)
        before = len(said)
        async with asyncio.timeout(20):
            while len(said) < before + 20:
                await asyncio.sleep(0.005)
        stop.set()
    stored = await tokens(ledger, "run:shared")
    assert len(stored) == len(set(stored)) == await ledger.head("run:shared")
    assert [(stored[seq - 1], seq) for _, seq in said] == said
    assert set(stored) == {token for token, _ in said}
    await ledger.close()


async def test_a_server_that_stays_away_is_an_error_within_the_limit(mortal: PostgresServer) -> None:
    ledger = await PostgresLedger.open(mortal.prepared_database(), busy_max_s=0.5)
    await ledger.append(facts(into("run:a", note())))
    await asyncio.to_thread(mortal.kill)
    try:
        for doing in (ledger.append(facts(into("run:a", note()))), ledger.head("run:a"), ledger.lease("r")):
            error = await refused(LedgerError, doing)
            assert "See that the server runs" in str(error)
    finally:
        await asyncio.to_thread(mortal.start)
    await ledger.append(facts(into("run:a", note())))
    assert await ledger.head("run:a") == 2
    await ledger.close()


async def test_who_holds_a_lease_waits_for_the_server_as_long_as_it_lasts(mortal: PostgresServer) -> None:
    ledger = await PostgresLedger.open(mortal.prepared_database(), busy_max_s=0.5)
    lease = await ledger.claim("r", OWNER, 90.0, SystemClock().now())
    await ledger.append(facts(into("run:r", note()), lease=lease))
    await asyncio.to_thread(mortal.kill)
    try:
        waiting = asyncio.create_task(ledger.append(facts(into("run:r", note()), lease=lease)))
        began_s = time.monotonic()
        # Who waits for the server without a lease is told in time nevertheless, before or behind.
        for number in range(2):
            await refused(LedgerError, ledger.append(facts(into(f"run:{number}", note()))))
        await asyncio.sleep(max(0.0, began_s + 1.5 - time.monotonic()))
        assert not waiting.done()
    finally:
        await asyncio.to_thread(mortal.start)
    assert (await waiting).positions[0].seq == 2
    assert await ledger.head("run:0") == await ledger.head("run:1") == 0
    await ledger.close()


async def test_who_holds_a_lease_is_told_before_it_runs_out(mortal: PostgresServer) -> None:
    ledger = await PostgresLedger.open(mortal.prepared_database(), busy_max_s=0.2)
    await asyncio.to_thread(mortal.kill)
    try:
        began_s = time.monotonic()
        now = SystemClock().now()
        lease = Lease("r", OWNER, 1, 60.0, now.boot_us / 1e6 + 3.0)
        await refused(LedgerError, ledger.append(facts(into("run:r", note()), lease=lease)))
        assert 1 < time.monotonic() - began_s < 30
        for out in (now.boot_us / 1e6 - 5, now.boot_us / 1e6 + 3_000):
            began_s = time.monotonic()
            other = Lease("r", OWNER, 1, 60.0, out)
            await refused(LedgerError, ledger.append(facts(into("run:r", note()), lease=other)))
            assert time.monotonic() - began_s < 30
    finally:
        await asyncio.to_thread(mortal.start)
    await ledger.close()


async def test_a_closing_ledger_waits_for_no_lease(mortal: PostgresServer) -> None:
    ledger = await PostgresLedger.open(mortal.prepared_database(), busy_max_s=0.3)
    lease = await ledger.claim("r", OWNER, 60.0, SystemClock().now())
    await asyncio.to_thread(mortal.kill)
    try:
        waiting = asyncio.create_task(ledger.append(facts(into("run:r", note()), lease=lease)))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        async with asyncio.timeout(60):
            await ledger.close()
        await refused(LedgerError, waiting)
    finally:
        await asyncio.to_thread(mortal.start)


async def test_what_became_of_a_commit_under_a_lease_is_asked_as_long_as_the_lease_lasts(
    mortal: PostgresServer,
) -> None:
    async with behind_a_proxy(mortal, deliver=True, busy_max_s=0.3) as (proxy, ledger):
        ledger._writer.confirm_max_s = 0.2
        lease = await ledger.claim("r", OWNER, 20.0, SystemClock().now())
        await ledger.append(facts(into("run:r", note("first")), lease=lease))
        port = proxy.let_nobody_in()
        waiting = asyncio.create_task(ledger.append(facts(into("run:r", note(MARK)), lease=lease)))
        await asyncio.sleep(1)
        assert not waiting.done()
        await proxy.listen(port)
        assert (await waiting).positions[0].seq == 2
        assert await tokens(ledger, "run:r") == ["first", MARK]


async def test_a_backend_that_is_killed_takes_nobody_with_it(mortal: PostgresServer) -> None:
    """PostgreSQL ends every session when one backend dies without a word."""
    ledger = await PostgresLedger.open(mortal.prepared_database(), busy_max_s=20)
    await ledger.append(facts(into("run:a", note("first"))))
    with psycopg.connect(mortal.url, autocommit=True) as other:
        row = other.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        os.kill(row[0], signal.SIGKILL)
        with contextlib.suppress(psycopg.Error):
            other.execute("SELECT 1")
    await ledger.append(facts(into("run:a", note("second"))))
    assert await tokens(ledger, "run:a") == ["first", "second"]
    await ledger.close()


async def test_whoever_listens_hears_again_after_the_connection_was_lost(mortal: PostgresServer) -> None:
    url = mortal.prepared_database()
    ledger, other = await PostgresLedger.open(url), await PostgresLedger.open(url, busy_max_s=20)
    before = await ledger.change_marker()
    await asyncio.to_thread(mortal.restart)
    await until_it_differs(ledger.change_marker, before)
    async with asyncio.timeout(60):
        while (quiet := await ledger.change_marker()) != await ledger.change_marker():
            await asyncio.sleep(0.02)
    await other.send_control(control(1))
    await until_it_differs(ledger.change_marker, quiet)
    for one in (ledger, other):
        await one.close()


async def test_a_lock_that_is_not_given_is_busy_within_the_limit(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url, busy_max_s=3)
    await ledger.append(facts(into("run:a", note("first")), into("run:b", note("first"))))
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM recoup.streams WHERE name = 'run:a' FOR UPDATE")
        error = await refused(LedgerBusy, ledger.append(facts(into("run:a", note("second")))))
        assert "no turn at the ledger" in str(error)
        # Nor under a lease that lasts: the work of others would wait behind it.
        lease = await ledger.claim("b", OWNER, 60.0, SystemClock().now())
        await refused(LedgerBusy, ledger.append(facts(into("run:a", note("second")), lease=lease)))
    await ledger.append(facts(into("run:a", note("third"))))
    assert await tokens(ledger, "run:a") == ["first", "third"]
    await ledger.close()


async def test_a_frozen_writer_keeps_its_locks_for_a_moment_only(postgres: PostgresServer) -> None:
    """It was stopped between its two round trips; the server ends its session."""
    from recoup.ledger.postgres.connecting import address_of, connect

    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url, busy_max_s=60)
    await ledger.append(facts(into("run:a", note())))
    frozen = await connect(address_of(url), writes=True)
    await frozen.execute("BEGIN")
    await frozen.execute("SELECT FROM streams WHERE name = 'run:a' FOR UPDATE")
    async with asyncio.timeout(60):
        await ledger.append(facts(into("run:a", note())))
    assert await ledger.head("run:a") == 2
    await frozen.close()
    await ledger.close()


async def test_more_readers_than_connections_wait_and_are_told_when_it_takes_too_long(
    postgres: PostgresServer,
) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url, busy_max_s=0.5)
    await ledger.append(facts(into("run:a", note())))
    assert await asyncio.gather(*(ledger.head("run:a") for _ in range(50))) == [1] * 50
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE recoup.streams IN ACCESS EXCLUSIVE MODE")
        done = await asyncio.gather(*(ledger.head("run:a") for _ in range(8)), return_exceptions=True)
        assert {type(one) for one in done} == {LedgerBusy}
    assert await ledger.head("run:a") == 1
    await ledger.close()


async def test_a_reader_that_gives_up_leaves_no_connection_behind(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url)
    await ledger.append(facts(into("run:a", note())))
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE recoup.streams IN ACCESS EXCLUSIVE MODE")
        waiting = [asyncio.create_task(ledger.head("run:a")) for _ in range(6)]
        await asyncio.sleep(0.05)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert await asyncio.gather(*(ledger.head("run:a") for _ in range(10))) == [1] * 10
    await ledger.close()


async def test_a_lease_is_by_the_clock_of_the_database(postgres: PostgresServer) -> None:
    """The clocks of machines differ: whoever says that it is next year gets nothing for it."""
    ledger = await PostgresLedger.open(postgres.prepared_database())
    lease = await claimed(ledger)
    assert await ledger.claim("r", OWNER, 10.0, START.plus_s(31_536_000)) is None
    assert lease.deadline_boot_s == START.boot_us / 1e6 + 10
    await ledger.close()


async def until_it_differs(marker: Callable[[], Awaitable[int]], before: int) -> None:
    async with asyncio.timeout(60):
        while await marker() == before:
            await asyncio.sleep(0.01)


def test_a_server_of_the_tests_leaves_no_shared_memory_when_it_is_killed(mortal: PostgresServer) -> None:
    with psycopg.connect(mortal.url) as connection:
        row = connection.execute("SHOW dynamic_shared_memory_type").fetchone()
    assert row == ("mmap",), "elsewhere than in its folder, which is removed with it"
