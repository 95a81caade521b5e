"""An event that was acknowledged and is missing: it was pruned on purpose, or the server lost it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.model.ids import key_stream, run_stream
from recoup.model.instant import Instant
from recoup.testing.ledger_suite import START, facts, into, note, submitted
from recoup.testing.postgres import PostgresServer
from recoup.testing.prune_suite import LATER, PRUNED, forget, over, under_key


class Home:
    """One machine: each of its commands opens the ledger anew; the witness outlives them."""

    def __init__(self, url: str, witness: Path | None) -> None:
        self.url = url
        self.witness = witness

    async def __aenter__(self) -> PostgresLedger:
        self._ledger = await PostgresLedger.open(self.url, witness=self.witness)
        return self._ledger

    async def __aexit__(self, *_: object) -> None:
        await self._ledger.close()


@pytest.fixture
def home(postgres: PostgresServer, tmp_path: Path) -> Home:
    return Home(postgres.prepared_database(), tmp_path / "witness")


@pytest.fixture
def other(home: Home) -> Home:
    """Another machine on the same ledger, which knows nothing."""
    return Home(home.url, None)


def execute(home: Home, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(home.url, autocommit=True, options="-c search_path=recoup") as connection:
        answer = connection.execute(sql.encode(), values)
        return answer.fetchall() if answer.description else []


async def losses(home: Home) -> list[tuple[Any, ...]]:
    """That it has noticed after it connected to write."""
    async with home as ledger:
        await ledger.append(facts(into("policy", note())))
    return execute(home, "SELECT stream, seq, found_seq FROM losses")


async def prune(home: Home, *run_ids: str, at: Instant = LATER) -> None:
    async with home as ledger:
        await over(ledger, *run_ids)
        assert await ledger.forget(run_ids, LATER.wall_us, at, PRUNED) == list(run_ids)


def lose(home: Home, stream: str) -> None:
    """As if it had never been."""
    execute(
        home, "DELETE FROM events USING streams WHERE events.stream_id = streams.id AND name = %s", stream
    )
    execute(home, "DELETE FROM streams WHERE name = %s", stream)


def change_witness(home: Home, **changes: Any) -> None:
    """What the last command of this home has left."""
    assert home.witness
    path = next(home.witness.iterdir())
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))


def restart(home: Home, first_number: int) -> None:
    """The next start of the server has begun with this number."""
    execute(home, "INSERT INTO server_starts (start, first_number) VALUES ('another', %s)", first_number)


def last_number(home: Home) -> int:
    ((number,),) = execute(home, "SELECT max(number) FROM events")
    return int(number)


async def test_a_prune_that_came_before_an_event_does_not_explain_that_it_is_missing(
    home: Home, other: Home
) -> None:
    """Whatever the clocks say: the note of the prune is a day ahead of the event."""
    await prune(other, "old", at=LATER)
    async with home as ledger:
        await ledger.append(facts(into(run_stream("new"), submitted()), at=START))
    lose(home, run_stream("new"))
    assert await losses(home) == [(run_stream("new"), 1, 0)]


async def test_a_prune_in_a_history_that_never_had_the_event_does_not_explain_that_it_is_missing(
    home: Home, other: Home
) -> None:
    """An older copy was put back; before this machine is back, others have come past the number of the event and have pruned."""
    async with home as ledger:
        await ledger.append(facts(into(run_stream("new"), submitted())))
    number = last_number(home)
    lose(home, run_stream("new"))
    restart(home, number)
    await prune(other, "old")
    assert last_number(home) > number
    assert await losses(home) == [(run_stream("new"), 1, 0)]


async def test_an_event_of_a_start_that_the_database_does_not_know_was_lost(home: Home, other: Home) -> None:
    async with home as ledger:
        await ledger.append(facts(into(run_stream("new"), submitted())))
    change_witness(home, start="a later one")
    lose(home, run_stream("new"))
    await prune(other, "old")
    assert await losses(home) == [(run_stream("new"), 1, 0)]


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
async def test_a_run_that_was_pruned_is_not_lost(home: Home, other: Home, restarted: bool) -> None:
    """However old the note of the prune is by the clock of the machine that pruned."""
    async with home as ledger:
        await over(ledger, "one")
    if restarted:
        restart(home, last_number(home) + 1)
    async with other as ledger:
        assert await ledger.forget(["one"], LATER.wall_us, START.plus_s(-86_400), PRUNED) == ["one"]
    if restarted:
        execute(home, "UPDATE server_starts SET start = 'one more' WHERE start = 'another'")
        restart(home, last_number(home) + 1)
    assert await losses(home) == []


async def test_a_key_that_was_pruned_and_is_used_again_is_not_lost(home: Home, other: Home) -> None:
    async with home as ledger:
        await under_key(ledger, "one")
    ((taken,),) = execute(home, "SELECT number FROM events WHERE type = 'task.submission.key_taken'")
    change_witness(home, stream=key_stream("k"), seq=1, number=taken)
    async with other as ledger:
        assert await forget(ledger, "one") == ["one"]
        await ledger.append(facts(into(key_stream("k"), note()), at=LATER))
    assert await losses(home) == []


async def test_a_stream_that_was_pruned_and_was_asked_for_since_is_not_lost(home: Home, other: Home) -> None:
    """A claim that comes too late leaves an empty stream behind."""
    async with home as ledger:
        await over(ledger, "one")
    async with other as ledger:
        assert await forget(ledger, "one") == ["one"]
    execute(home, "INSERT INTO streams (name) VALUES (%s)", run_stream("one"))
    assert await losses(home) == []


async def test_a_stream_that_ends_earlier_was_not_pruned(home: Home, other: Home) -> None:
    """Whole runs are forgotten, never the end of one."""
    async with home as ledger:
        await over(ledger, "one")
    execute(home, "UPDATE streams SET last_seq = 1 WHERE name = %s", run_stream("one"))
    execute(
        home,
        "DELETE FROM events USING streams WHERE stream_id = streams.id AND name = %s AND seq > 1",
        "run:one",
    )
    await prune(other, "old")
    assert [(stream, found) for stream, _, found in await losses(home)] == [(run_stream("one"), 1)]


@pytest.mark.parametrize(("pruned_at", "count"), [(LATER, 0), (START.plus_s(-86_400), 1)])
async def test_a_witness_of_an_earlier_version_is_compared_by_its_time(
    home: Home, other: Home, pruned_at: Instant, count: int
) -> None:
    async with home as ledger:
        await ledger.append(facts(into(run_stream("new"), submitted()), at=START))
    change_witness(home, number=None, start=None)
    lose(home, run_stream("new"))
    await prune(other, "old", at=pruned_at)
    assert len(await losses(home)) == count
