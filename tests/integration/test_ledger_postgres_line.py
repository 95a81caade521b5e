"""What lies between the ledger and PostgreSQL: several statements in one trip, several questions as one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from recoup.errors import LedgerError
from recoup.ledger.postgres.connecting import address_of, connect
from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.ledger.postgres.line import Line
from recoup.ledger.postgres.reader import Reader
from recoup.ledger.postgres.together import KEYS_MAX, Together
from recoup.testing.ledger_suite import facts, into, note
from recoup.testing.postgres import PostgresServer

ADD = "INSERT INTO kept (number, words, data) VALUES (%s, %s, %s)"
COUNT = "SELECT count(*) FROM kept"
OURS = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'recoup%'"


@asynccontextmanager
async def a_line(postgres: PostgresServer) -> AsyncIterator[Line]:
    connection = await connect(address_of(postgres.prepared_database()), writes=True)
    try:
        await connection.execute("CREATE TABLE kept (number bigint UNIQUE, words text, data bytea)")
        yield Line(connection)
    finally:
        await connection.close()


async def asked(line: Line, sql: str, values: tuple[Any, ...]) -> str | None:
    """The first value of the first row."""
    (result,) = await line.ask_all([(sql, values)])
    value = result.get_value(0, 0)
    return None if value is None else bytes(value).decode()


async def test_values_arrive_as_they_are(postgres: PostgresServer) -> None:
    async with a_line(postgres) as line:
        for _ in range(2):  # prepared, and when it is
            await line.ask_all([(ADD, (None, "ünï ' \\ % \x00 \x10", b"\x00\xff\\")), (ADD, (7, None, None))])
            rows = await (
                await line.connection.execute("SELECT words, data FROM kept ORDER BY number")
            ).fetchall()
            assert rows == [(None, None), ("ünï ' \\ % \x00 \x10", b"\x00\xff\\")]
            assert await asked(line, "SELECT %s::float8 + 0.5", (1.25,)) == "1.75"
            await line.connection.execute("TRUNCATE kept")


async def test_one_trip_is_one_transaction_whatever_fails_in_it(postgres: PostgresServer) -> None:
    async with a_line(postgres) as line:
        for place in range(3):
            trip: list[tuple[str, tuple[Any, ...]]] = [(ADD, (number, "", b"")) for number in (1, 2, 3)]
            trip.insert(place, (f"SELECT 1 / %s::int, {place}", (0,)))
            with pytest.raises(psycopg.errors.DivisionByZero):
                await line.ask_all(trip)
            assert await asked(line, COUNT, ()) == "0"
        with pytest.raises(psycopg.errors.UndefinedTable):
            await line.ask_all([(ADD, (1, "", b"")), ("SELECT FROM nowhere", ())])
        await line.ask_all([(ADD, (number, "", b"")) for number in (1, 2)])
        assert await asked(line, COUNT, ()) == "2"


async def test_a_transaction_that_failed_is_rolled_back_and_what_is_prepared_stays(
    postgres: PostgresServer,
) -> None:
    async with a_line(postgres) as line:
        await line.ask_all([("BEGIN", ()), (ADD, (1, "", b""))])
        with pytest.raises(psycopg.errors.UniqueViolation):
            await line.ask_all([(ADD, (1, "", b"")), ("COMMIT", ())])
        await line.rollback()
        assert await asked(line, COUNT, ()) == "0"
        prepared = await asked(line, OURS, ())
        await line.ask_all([("BEGIN", ()), (ADD, (1, "", b"")), ("COMMIT", ())])
        assert await asked(line, OURS, ()) == prepared == "5"
        assert await asked(line, COUNT, ()) == "1"


async def test_more_than_the_sockets_can_hold_gets_through(postgres: PostgresServer) -> None:
    async with a_line(postgres) as line:
        words = "x" * 1_000_000
        await line.ask_all([(ADD, (number, words, b"")) for number in range(30)])
        answers = await line.ask_all([("SELECT words FROM kept", ())] * 3)
        assert [answer.ntuples for answer in answers] == [30] * 3


class Counting(Reader):
    asked: list[list[str]]

    async def rows(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        self.asked.append(values[0])
        return await super().rows(name, values)


async def test_what_is_asked_at_the_same_time_is_asked_once(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url)
    names = [f"run:{number}" for number in range(KEYS_MAX + 5)]
    for number, name in enumerate(names[:10]):
        await ledger.append(facts(into(name, *[note(f"{number}-{place}") for place in range(number % 3)])))
    reader = Counting(address_of(url), 5.0)
    reader.asked = []
    together = Together(reader, "events_of")
    answers = await asyncio.gather(*[together.rows(name) for name in (*names, names[1])])
    assert [len(rows) for rows in answers] == [
        number % 3 if number < 10 else 0 for number in range(len(names))
    ] + [1]
    assert [len(keys) for keys in reader.asked] == [KEYS_MAX, 5]
    assert answers[2] == [tuple(row) for row in await reader.rows("events_after", (names[2], 0, 10))] != []
    await together.close()
    await reader.close()
    await ledger.close()


async def test_who_gives_up_takes_nothing_from_the_others(postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(postgres.prepared_database())
    await ledger.append(facts(into("run:a", note())))
    impatient = asyncio.create_task(ledger.read("run:a"))
    others = [asyncio.create_task(ledger.read("run:a")), asyncio.create_task(ledger.read("run:b"))]
    await asyncio.sleep(0)
    impatient.cancel()
    first, second = await asyncio.gather(*others)
    assert (len(first), second) == (1, [])
    await ledger.close()


async def test_an_error_reaches_everybody_who_asked(postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(postgres.prepared_database(), busy_max_s=0.2)
    await ledger.close()
    answers = await asyncio.gather(
        *[ledger.read(f"run:{number}") for number in range(3)], return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [LedgerError] * 3


@pytest.mark.parametrize("count", [199, 200, 201, 450])
async def test_a_long_stream_is_read_to_its_end(postgres: PostgresServer, count: int) -> None:
    ledger = await PostgresLedger.open(postgres.prepared_database())
    await ledger.append(facts(into("run:a", *[note(str(number)) for number in range(count)])))
    assert [event.seq for event in await ledger.read("run:a")] == list(range(1, count + 1))
    assert [event.seq for event in await ledger.read("run:a", limit=200)] == list(
        range(1, min(count, 200) + 1)
    )
    await ledger.close()


async def test_a_wait_is_cut_off_at_its_own_time_whatever_an_earlier_one_was_given(
    postgres: PostgresServer,
) -> None:
    for earlier_s, own_s in ((0.05, 0.2), (60.0, 0.2)):
        async with a_line(postgres) as line:
            line.cutting_off.begin(earlier_s)
            line.cutting_off.end()
            began_s = time.monotonic()
            line.cutting_off.begin(own_s)
            with pytest.raises(psycopg.OperationalError):
                await line.ask_all([("SELECT pg_sleep(%s)", (20,))])
            assert own_s <= time.monotonic() - began_s


async def test_whoever_has_his_answer_is_not_cut_off(postgres: PostgresServer) -> None:
    async with a_line(postgres) as line:
        line.cutting_off.begin(0.05)
        line.cutting_off.end()
        await line.ask_all([("SELECT pg_sleep(%s)", (0.2,))])
        assert await asked(line, COUNT, ()) == "0"
