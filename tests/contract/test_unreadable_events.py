"""One event, or one row, that cannot be read harms nobody but its own run, on every backend."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString, NamedTuple

import pytest

from recoup.damage import read_leniently
from recoup.errors import EventUnreadable, RowUnreadable
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.ids import run_stream, workflow_stream
from recoup.ports import Ledger
from recoup.testing.ledger_suite import OWNER, START, claimed, facts, into, note, result, submitted
from recoup.testing.worker_suite import queued, worker

if TYPE_CHECKING:
    from recoup.testing.postgres import PostgresServer

BROKEN = '{"reason": 7'


class Backend(NamedTuple):
    open: Callable[[], Awaitable[Ledger]]
    spoil: Callable[[str, int], Awaitable[None]]
    """Damage the event of this stream with this sequence."""
    remove: Callable[[str, int], Awaitable[None]]
    change: Callable[[LiteralString], Awaitable[None]]
    """Carry out a statement that both databases understand."""


@pytest.fixture(params=["sqlite", "postgres"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    opened: list[Ledger] = []
    if request.param == "sqlite":
        made = _sqlite(tmp_path / "home" / "ledger.db", opened)
    else:
        made = _postgres(request.getfixturevalue("postgres"), opened)
    yield made
    for ledger in opened:
        await ledger.close()


def _sqlite(path: Path, opened: list[Ledger]) -> Backend:
    async def opener() -> Ledger:
        opened.append(SqliteLedger(path))
        return opened[-1]

    async def spoil(stream: str, seq: int) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            query = "UPDATE events SET payload = ? WHERE place = (SELECT id << 32 FROM streams WHERE name = ?) + ?"
            assert database.execute(query, (BROKEN, stream, seq)).rowcount == 1

    async def remove(stream: str, seq: int) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            query = "DELETE FROM events WHERE place = (SELECT id << 32 FROM streams WHERE name = ?) + ?"
            assert database.execute(query, (stream, seq)).rowcount == 1

    async def change(statement: LiteralString) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            assert database.execute(statement).rowcount == 1

    return Backend(opener, spoil, remove, change)


def _postgres(server: PostgresServer, opened: list[Ledger]) -> Backend:
    import psycopg

    from recoup.ledger.postgres.ledger import PostgresLedger

    url = server.emptied_database()

    async def opener() -> Ledger:
        opened.append(await PostgresLedger.open(url))
        return opened[-1]

    async def spoil(stream: str, seq: int) -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            query = (
                "UPDATE events SET payload = %s FROM streams WHERE id = stream_id AND name = %s AND seq = %s"
            )
            await connection.execute("SET search_path TO recoup")
            found = await connection.execute(query, (BROKEN, stream, seq))
            assert found.rowcount == 1

    async def remove(stream: str, seq: int) -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            query = "DELETE FROM events USING streams WHERE id = stream_id AND name = %s AND seq = %s"
            await connection.execute("SET search_path TO recoup")
            found = await connection.execute(query, (stream, seq))
            assert found.rowcount == 1

    async def change(statement: LiteralString) -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("SET search_path TO recoup")
            assert (await connection.execute(statement)).rowcount == 1

    return Backend(opener, spoil, remove, change)


async def test_reading_names_the_event_and_other_streams_are_read(backend: Backend) -> None:
    ledger = await backend.open()
    for run in ("a", "b"):
        await ledger.append(facts(into(run_stream(run), submitted(), note("one"), note("two"))))
    await backend.spoil(run_stream("a"), 2)
    with pytest.raises(EventUnreadable) as refused:
        await ledger.read(run_stream("a"))
    assert (refused.value.stream, refused.value.seq) == ("run:a", 2)
    events = await read_leniently(ledger, run_stream("a"))
    assert [(event.seq, event.unreadable is None) for event in events] == [(1, True), (2, False), (3, True)]
    assert [event.seq for event in await ledger.read(run_stream("b"))] == [1, 2, 3]
    assert len(await ledger.arrivals()) == 6


async def test_events_are_missing_before_one_that_cannot_be_read(backend: Backend) -> None:
    ledger, stream = await backend.open(), run_stream("a")
    await ledger.append(facts(into(stream, submitted(), *(note(str(number)) for number in range(2, 10)))))
    await backend.spoil(stream, 8)
    for seq in (3, 4, 6):
        await backend.remove(stream, seq)
    events = await read_leniently(ledger, stream)
    assert [event.seq for event in events] == [1, 2, 5, 7, 8, 9]
    assert [event.seq for event in events if event.unreadable is not None] == [8]
    assert [event.seq for event in await read_leniently(ledger, stream, 5, 2)] == [7, 8]


async def test_a_run_is_listed_whichever_of_its_events_are_missing(backend: Backend) -> None:
    ledger = await backend.open()
    for run in ("a", "b", "c"):
        await ledger.append(facts(into(run_stream(run), submitted(), note("one"))))
    await backend.remove(run_stream("b"), 2)
    await backend.remove(run_stream("c"), 1)
    await backend.remove(run_stream("c"), 2)
    rows = {row.run_id: row for row in (await ledger.runs()).rows}
    assert sorted(rows) == ["a", "b", "c"]
    assert (rows["a"].seq, rows["c"].seq, rows["c"].updated_at_us) == (2, 0, 0)


async def test_what_is_committed_together_with_a_damaged_workflow_is_committed(backend: Backend) -> None:
    ledger = await backend.open()
    for name in ("bad", "good"):
        await ledger.append(facts(into(workflow_stream(name), result("failed"))))
    await backend.spoil(workflow_stream("bad"), 1)
    fresh = await backend.open()  # one that remembers nothing
    appends = [fresh.append(facts(into(workflow_stream("bad"), *[result("failed")] * 40)))]
    appends += [fresh.append(facts(into(workflow_stream("good"), result("failed")))) for _ in range(5)]
    first, *others = await asyncio.gather(*appends, return_exceptions=True)
    assert isinstance(first, EventUnreadable)
    assert not any(isinstance(one, BaseException) for one in others)
    with pytest.raises(EventUnreadable):
        await fresh.workflow_state("bad")
    assert (await fresh.workflow_state("good")).seq == 6


async def test_a_lease_without_a_readable_owner_is_never_taken_for_free(backend: Backend) -> None:
    ledger = await backend.open()
    for run in ("a", "b"):
        await queued(ledger, run)
        await claimed(ledger, run)
    await backend.change("UPDATE leases SET owner = '{' WHERE run_id = 'a'")
    fresh = await backend.open()
    with pytest.raises(RowUnreadable, match="the row of run a in leases"):
        await fresh.lease("a")
    assert [one.run.run_id for one in await fresh.held(START)] == ["b"]
    with contextlib.suppress(RowUnreadable):
        assert await fresh.claim("a", OWNER, 30.0, START) is None
    await backend.change("UPDATE leases SET owner = NULL WHERE run_id = 'a'")
    lease = await (await backend.open()).claim("a", OWNER, 30.0, START)
    assert lease is not None and lease.epoch == 2


async def test_a_worker_whose_row_cannot_be_read_is_listed_by_its_id(backend: Backend) -> None:
    ledger = await backend.open()
    for name in ("a", "b"):
        await ledger.keep_worker(worker(name), START)
    await backend.change("UPDATE workers SET body = '{' WHERE worker_id = 'a'")
    seen = await ledger.workers(START)
    assert [(one.worker.worker_id, one.unreadable) for one in seen] == [("a", True), ("b", False)]
    await ledger.keep_worker(worker("a"), START)
    assert not any(one.unreadable for one in await ledger.workers(START))


async def test_runs_with_a_time_beyond_the_calendar_are_listed_page_by_page(backend: Backend) -> None:
    ledger = await backend.open()
    for run in ("a", "b", "c"):
        await ledger.append(facts(into(run_stream(run), submitted())))
    await backend.change("UPDATE runs SET submitted_at_us = 9000000000000000000 WHERE run_id = 'a'")
    await backend.change("UPDATE runs SET submitted_at_us = -5 WHERE run_id = 'b'")
    page = await ledger.runs(limit=1)
    listed = [*page.rows]
    while page.behind is not None:
        page = await ledger.runs(limit=1, before=page.behind)
        listed += page.rows
    assert [(row.run_id, row.submitted_at_us > 0) for row in listed] == [
        ("a", False),
        ("c", True),
        ("b", False),
    ]
