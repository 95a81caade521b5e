"""The tables of the ledger on PostgreSQL: numbers, versions, names, text, and what may be shown of the address."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recoup.app import open_app, open_ledger
from recoup.errors import LeaseLost, LedgerError, LedgerTooNew, SettingsError
from recoup.ledger.postgres.connecting import address_of, connect
from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.ledger.postgres.lists import DIALECT
from recoup.ledger.postgres.migrations import SCRIPTS, migrate
from recoup.ledger.postgres.queries import queries, sql_file
from recoup.ledger.postgres.text import _restored, escaped
from recoup.ledger.run_lists import Listing
from recoup.model import events as ev
from recoup.model.mode import Mode
from recoup.model.storage import Append, Control, Escalation, Span
from recoup.settings import DatabaseUrl, read_settings
from recoup.testing.ledger_suite import (
    START,
    assert_cached_rows_equal_a_rebuild,
    claimed,
    facts,
    healing,
    into,
    note,
    refused,
    result,
    seal,
    submitted,
)
from recoup.testing.list_suite import begun_in, drives, fails, filters, many, tried
from recoup.testing.postgres import PostgresServer

NOTHING: dict[str, Any] = {"leases": [], "inboxes": [], "sent": [], "families": [], "steps": [], "crowds": []}


class SlowWriter:
    """A transaction that takes its time, as a slow process would have it."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, options="-c search_path=recoup")

    def write(self, stream: str) -> None:
        asked = {"streams": [{"n": stream, "k": -1}], **NOTHING, "kinds": [], "lag": 0}
        self.connection.execute("SELECT gather(%s::json)", (json.dumps(asked),))
        event = {"n": 1, "q": 1, "w": 1, "b": 1, "i": "boot", "k": "slow", "p": "{}"}
        batch = {"names": [stream], "ends": [1], "events": [event]}
        self.connection.execute("SELECT put_events(%s::json)", (json.dumps(batch),))

    def end(self, how: str) -> None:
        self.connection.execute(how.encode())
        self.connection.close()


@pytest.mark.parametrize(("how", "kept"), [("COMMIT", 1), ("ROLLBACK", 0)])
async def test_no_event_becomes_visible_below_a_number_that_was_given_out(
    postgres: PostgresServer, how: str, kept: int
) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url)
    await ledger.append(facts(into("run:a", note("first"))))
    slow = SlowWriter(url)
    slow.write("run:slow")
    await ledger.append(facts(into("run:b", note("later"))))
    assert [event.stream for event in await ledger.arrivals()] == ["run:a"]
    assert await ledger.head("run:b") == 1
    slow.end(how)
    came = await ledger.arrivals()
    assert [event.stream for event in came] == ["run:a", *["run:slow"] * kept, "run:b"]
    assert await ledger.arrivals(came[0].number) == came[1:]
    await ledger.close()


async def test_a_writer_that_only_reads_holds_nobody_up(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url)
    with psycopg.connect(url) as idle:
        idle.execute("SELECT count(*) FROM recoup.events")
        await ledger.append(facts(into("run:a", note())))
        assert len(await ledger.arrivals()) == 1
    await ledger.close()


async def test_numbers_go_on_in_a_restored_database(postgres: PostgresServer) -> None:
    """Where the ids of transactions are lower than those that the events were numbered by."""
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url)
    await ledger.append(facts(into("run:a", note("old"), note("old"))))
    await ledger.close()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("UPDATE recoup.events SET number = number + (1::bigint << 50)")
    restored, another = await PostgresLedger.open(url), await PostgresLedger.open(url)
    old = [event.number for event in await restored.arrivals()]
    await restored.append(facts(into("run:b", note("new"))))
    await another.append(facts(into("run:a", note("new"))))
    came = await another.arrivals()
    assert [event.number for event in came[:2]] == old
    assert [(event.stream, event.seq) for event in came[2:]] == [("run:b", 1), ("run:a", 3)]
    assert sorted({event.number for event in came}) == [event.number for event in came]
    for one in (restored, another):
        await one.close()


async def test_an_older_program_goes_on_with_a_newer_schema(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    address = address_of(url)
    old = await PostgresLedger.open(url)
    await old.append(facts(into("run:a", submitted())))
    newer = [*map(sql_file, SCRIPTS), "ALTER TABLE runs ADD COLUMN colour text; CREATE TABLE later (x text)"]
    connection = await connect(address, writes=True)
    await migrate(connection, address, newer)
    await migrate(connection, address, newer)
    await old.append(facts(into("run:a", note("still here"))))
    await old.append(facts(into("run:b", submitted())))
    assert len((await old.runs()).rows) == 2
    beside = await PostgresLedger.open(url)
    assert await beside.head("run:a") == 2
    with pytest.raises(psycopg.errors.DuplicateTable):
        await migrate(
            connection, address, [*newer, "CREATE TABLE half (x text)", "CREATE TABLE later (x text)"]
        )
    answer = await connection.execute("SELECT version, to_regclass('recoup.half') FROM ledger_version")
    assert await answer.fetchone() == (len(newer), None)
    for one in (connection, old, beside):
        await one.close()


async def test_a_schema_that_asks_for_a_newer_program_is_refused(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    connection = await connect(address_of(url), writes=True)
    newer = [*map(sql_file, SCRIPTS), "CREATE TABLE later (x text)"]
    await migrate(connection, address_of(url), newer, oldest_reader=len(newer))
    error = await refused(LedgerTooNew, PostgresLedger.open(url))
    assert "Upgrade Recoup" in str(error)
    await connection.close()


async def test_a_stored_state_of_another_version_is_folded_anew(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url)
    for _ in range(5):
        await ledger.append(facts(into("workflow:w", *[result("failed")] * 10)))
    with psycopg.connect(url, autocommit=True) as other:
        changed = other.execute('UPDATE recoup.workflow_state SET body = \'{"tokens_spent": 7, "seq": 40}\'')
        assert changed.rowcount == 1
    again = await PostgresLedger.open(url)
    await again.append(facts(into("workflow:w", *[result("failed")] * 30)))
    await assert_cached_rows_equal_a_rebuild(again)
    state = await again.workflow_state("w")
    assert (state.seq, state.health.mode) == (80, Mode.RUNNING)
    for one in (ledger, again):
        await one.close()


async def test_text_with_every_character_comes_back(postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(postgres.prepared_database())
    odd = "nul \x00 escape \x10 both \x10\x00 naïve \U0001f600"
    await ledger.append(facts(into("run:a", submitted(), note(odd))))
    assert [row.reason for row in (await ledger.runs()).rows] == [odd]
    wish = Control(id="c", run_id="a", action="pause", reason=odd, actor=odd, at=START, argument=odd)
    await ledger.send_control(wish)
    assert await ledger.pending_controls("a") == [wish]
    await ledger.close()


@given(st.text(st.characters(codec="utf-8")), st.text(st.sampled_from("\x00\x100a")))
def test_escaped_text_is_restored_and_holds_no_nul(text: str, odd: str) -> None:
    for one in (text, odd, text + odd):
        assert _restored(escaped(one)) == one
        assert "\x00" not in escaped(one)


async def test_a_name_that_cannot_be_kept_refuses_its_append_alone(postgres: PostgresServer) -> None:
    import asyncio

    ledger = await PostgresLedger.open(postgres.prepared_database())
    streams = ("run:a", "run:b\x00", "run:c")
    done = await asyncio.gather(
        *(ledger.append(facts(into(stream, note()))) for stream in streams), return_exceptions=True
    )
    assert [isinstance(one, LedgerError) for one in done] == [False, True, False]
    assert await ledger.streams() == ["run:a", "run:c"]
    await ledger.close()


async def test_a_claim_makes_no_stream_that_anybody_sees(postgres: PostgresServer) -> None:
    ledger = await PostgresLedger.open(postgres.prepared_database())
    await claimed(ledger)
    await ledger.append(Append(at=START, streams=()))
    assert (await ledger.streams(), await ledger.heads(), await ledger.head("run:r")) == ([], [], 0)
    await ledger.close()


async def test_what_is_asked_often_is_found_by_an_index(postgres: PostgresServer) -> None:
    asked = {
        name: sql
        for name, sql in queries().items()
        if sql.startswith(("SELECT", "UPDATE", "DELETE")) and "workers" not in name and "({})" not in sql
    }
    url = postgres.prepared_database()
    with psycopg.connect(
        url, autocommit=True, options="-c search_path=recoup -c enable_seqscan=off"
    ) as other:
        for name, sql in asked.items():
            values: Any = (
                {
                    "prefix": "a",
                    "limit": "3",
                    "run": "a",
                    "after": "a",
                    "before": "1",
                    "before_us": "1",
                    "workflow": "w",
                    "status": "s",
                    "state": "s",
                    "behind": "1",
                    "of_runs": "t",
                    **dict.fromkeys(("since", "until", "from", "bucket", "most"), "1"),
                }
                if "%(" in sql
                else [
                    "{}" if after.startswith(("::text[]", "::bigint[]")) else "1"
                    for after in sql.split("%s")[1:]
                ]
            )
            if name == "end_backend":
                continue
            plan = "\n".join(
                line for (line,) in psycopg.ClientCursor(other).execute(f"EXPLAIN {sql}".encode(), values)
            )
            scanned = [line for line in plan.splitlines() if "Seq Scan" in line and "numbering" not in line]
            assert not scanned, f"{name}: {plan}"


async def test_a_ledger_that_was_empty_when_it_was_opened_never_goes_through_its_tables(
    postgres: PostgresServer,
) -> None:
    """Plans are made once for a connection, and nobody has counted the rows for the first minute."""
    url = postgres.prepared_database()
    ledger, runs = await PostgresLedger.open(url), 250
    for number in range(runs):
        await ledger.append(facts(into(f"run:r{number}", submitted())))
        lease = await claimed(ledger, f"r{number}")
        await ledger.append(facts(into(f"run:r{number}", note()), lease=lease))
        await ledger.release(lease)
    await ledger.close()
    with psycopg.connect(url, autocommit=True) as other:
        await others_gone(other)
        fetched = other.execute(
            "SELECT relname, idx_tup_fetch + seq_tup_read FROM pg_stat_user_tables"
            " WHERE relname IN ('runs', 'leases', 'streams')"
        ).fetchall()
    assert len(fetched) == 3
    assert {table: rows for table, rows in fetched if not 0 < rows < 30 * runs} == {}


async def others_gone(connection: psycopg.Connection[Any]) -> None:
    """What a session has counted is known when it has ended."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    while connection.execute(others).fetchone() != (0,):
        await asyncio.sleep(0.01)


async def test_lists_of_runs_are_read_from_the_index_that_is_meant(postgres: PostgresServer) -> None:
    """Whatever is asked; on a table so small a bitmap would do as well."""
    options = "-c search_path=recoup -c enable_seqscan=off -c enable_bitmapscan=off"
    with psycopg.connect(postgres.prepared_database(), autocommit=True, options=options) as other:
        for wanted in filters():
            listing = Listing(DIALECT, wanted)
            for sql, values in (listing.page(50, None), listing.count(100), listing.edge()):
                told = psycopg.ClientCursor(other).execute(f"EXPLAIN {sql}".encode(), values)
                plan = "\n".join(line for (line,) in told)
                assert "Seq Scan" not in plan, plan
                assert f"using {listing.index}" in plan, plan


async def test_what_lists_and_histories_need_is_found_in_a_ledger_of_version_1(
    postgres: PostgresServer,
) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url)
    await many(ledger, random.Random(1))
    for number in range(12):
        await tried(ledger, random.Random(number), f"r{number}", "w0")
    await with_nul(ledger)
    span = Span(START.wall_us, START.plus_s(400).wall_us, 10_000_000)
    before = ((await ledger.runs(limit=500)).rows, await ledger.history(span), await ledger.inbox())
    await ledger.close()
    with psycopg.connect(url, autocommit=True, options="-c search_path=recoup") as other:
        for column in ("failure_class", "worker", "step_count", "ended_at_us"):
            other.execute(f"ALTER TABLE runs DROP COLUMN {column} CASCADE".encode())
        other.execute(
            "ALTER TABLE attempts DROP COLUMN phase; DROP INDEX attempts_recovered; DROP TABLE heals"
        )
        for column in ("state", "raised_at_us", "assignee", "gone_on", "said"):
            other.execute(f"ALTER TABLE escalations DROP COLUMN {column} CASCADE".encode())
        other.execute("DROP TABLE ledger_identity, server_seen, losses, suspect_runs")
        other.execute("DROP FUNCTION append_unless_changed, note_loss, note_server")
        other.execute("DROP TABLE server_starts")
        other.execute("DROP FUNCTION note_start, last_number, append_numbered, put_numbered")
        other.execute("UPDATE ledger_version SET version = 1")
    ledger = await PostgresLedger.open(url)
    assert ((await ledger.runs(limit=500)).rows, await ledger.history(span), await ledger.inbox()) == before
    await assert_cached_rows_equal_a_rebuild(ledger)
    await ledger.close()


async def with_nul(ledger: PostgresLedger) -> None:
    """Wherever a payload that a migration reads may hold the one character that a database cannot."""
    nul = "nul \x00"
    begins = replace(submitted(), inputs={"a": nul})
    told = (replace(drives("w"), policy_digest=nul), begun_in(1, "rescue"), replace(healing(), target=nul))
    await ledger.append(facts(into("run:failed", begins, *told, replace(fails(), reason=nul))))
    escalated = ev.Escalated(escalation_id="e-nul", reason=nul, hint="")
    raised = Escalation("e-nul", "run:escalated", "because", seal({}))
    part = into("run:escalated", begins, escalated)
    await ledger.append(Append(at=START, streams=(part,), escalations=(raised,)))


def test_the_address_is_shown_without_its_password(tmp_path: Path) -> None:
    secret = "".join(("hun", "ter", "2", "x" * 8))
    for url in (
        f"postgresql://me:{secret}@db.example:5433/recoup",
        f"postgres://me:{secret}@a:1,b:2/recoup?sslmode=require",
        f"postgresql://me@db.example/recoup?password={secret}",
        f"postgresql://db.example?user=me&password={secret}",
    ):
        settings = read_settings({"RECOUP_DATABASE": url, "HOME": str(tmp_path)}, tmp_path)
        assert isinstance(settings.database, DatabaseUrl)
        assert settings.database.url == url
        assert secret not in repr(settings) + str(settings.database) + repr(address_of(url))
        assert secret not in address_of(url).name
    assert DatabaseUrl(f"postgresql://me:a%40{secret}@db/recoup").password == f"a@{secret}"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:{}/x@127.0.0.1:1/db",
        "postgresql://me:x@{}@127.0.0.1:1/db",
        "postgresql://h?password={}@b",
        "host=127.0.0.1 port=1 user=me password={}",
        "host=127.0.0.1 PASSWORD = {}",
        "postgresql:me:{}@h/db",
        "postgres:me:{}@h/db",
        " Postgresql:me:{}@h/db",
        "'postgresql://me:{}@h/db'",
    ],
)
def test_a_password_that_would_be_taken_for_something_else_is_refused_unseen(
    tmp_path: Path, address: str
) -> None:
    for secret in ("".join(("hun", "ter", "2", "x" * 8)), "7" * 5):
        with pytest.raises(SettingsError) as caught:
            read_settings({"RECOUP_DATABASE": address.format(secret), "HOME": str(tmp_path)}, tmp_path)
        assert secret not in str(caught.value)
        assert secret not in str(DatabaseUrl(address.format(secret)))


def test_a_port_that_is_none_is_refused_unseen() -> None:
    secret = "".join(("hun", "ter", "2", "x" * 8))
    for url in (f"postgresql://me:{secret}/x@127.0.0.1:1/db", f"postgresql://me:x@{secret}@127.0.0.1:1/db"):
        with pytest.raises(SettingsError) as caught:
            address_of(url)
        assert secret not in str(caught.value)


def test_the_password_is_known_wherever_it_stands() -> None:
    for url in (
        "postgresql://me:a%2Fb%40c@[::1]:5433/recoup",
        "postgresql:///recoup?password=a%2Fb%40c&user=me",
        "postgresql://a:1,b:2?user=me&password=a/b%40c",
    ):
        assert DatabaseUrl(url).password == address_of(url).parameters["password"] == "a/b@c"


@pytest.mark.parametrize(
    ("said", "kept"), [("off", "on"), ("on", "on"), ("local", "local"), ("remote_apply", "remote_apply")]
)
async def test_what_a_writer_reports_is_durable_whatever_the_database_prefers(
    postgres: PostgresServer, said: str, kept: str
) -> None:
    url = postgres.fresh_database()
    prefer(url, f"synchronous_commit = {said}")
    connection = await connect(address_of(url), writes=True)
    assert await (await connection.execute("SHOW synchronous_commit")).fetchone() == (kept,)
    await connection.close()


@pytest.mark.parametrize("writes", [True, False])
async def test_who_has_waited_sees_what_was_written_meanwhile(postgres: PostgresServer, writes: bool) -> None:
    url = postgres.fresh_database()
    prefer(url, "default_transaction_isolation = 'repeatable read'")
    connection = await connect(address_of(url), writes=writes)
    assert await (await connection.execute("SHOW transaction_isolation")).fetchone() == ("read committed",)
    await connection.close()


@pytest.mark.parametrize("stream", ["run:r", "policy"])
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
async def test_no_append_overtakes_a_claim_that_is_under_way(
    postgres: PostgresServer, isolation: str, stream: str
) -> None:
    """All is known by memory, so that it is sent at once; also where it writes into another stream than its run's."""
    url = postgres.prepared_database()
    prefer(url, f"default_transaction_isolation = '{isolation}'")
    ledger = await PostgresLedger.open(url)
    lease = await claimed(ledger)
    for _ in range(2):
        await ledger.append(facts(into(stream, note()), lease=lease))
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("SELECT FROM recoup.streams WHERE name = 'run:r' FOR NO KEY UPDATE")
        appending = asyncio.create_task(ledger.append(facts(into(stream, note()), lease=lease)))
        await until_somebody_waits(url)
        await other.execute("UPDATE recoup.leases SET epoch = 2 WHERE run_id = 'r'")
        await other.commit()
        await refused(LeaseLost, appending)
    assert await ledger.head(stream) == 2
    await ledger.close()


async def test_no_append_overtakes_a_control_that_is_being_sent(postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    ledger = await PostgresLedger.open(url)
    await ledger.append(facts(into("run:r", note()), into("policy", note())))
    added = [{"n": 2, "q": 2, "w": 1, "b": 1, "i": "", "k": "note", "p": "{}"}]
    batch: tuple[Any, ...] = (["policy", "run:r"], [1, 1], [1, 2], [], [], ["r"], json.dumps(added))
    writer = await connect(address_of(url), writes=True)
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("SELECT FROM recoup.streams WHERE name = 'run:r' FOR NO KEY UPDATE")
        appending = asyncio.create_task(
            writer.execute("SELECT append_unless_changed(%s, %s, %s, %s, %s, %s, %s)", batch)
        )
        await until_somebody_waits(url)
        sent = "INSERT INTO recoup.controls (id, run_id, action, reason, actor, wall_us, boot_us, boot_id)"
        await other.execute(f"{sent} VALUES ('c', 'r', 'cancel', '', '', 1, 1, '')".encode())
        await other.commit()
        with pytest.raises(psycopg.Error, match="has changed"):
            await appending
    assert await ledger.head("run:r") == 1
    await writer.close()
    await ledger.close()


async def test_only_without_a_shared_database_is_another_boot_an_earlier_one(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    environ = {"HOME": str(tmp_path)}
    for more, known in (({}, False), ({"RECOUP_DATABASE": postgres.prepared_database()}, None)):
        async with open_app(read_settings(environ | more, tmp_path), environ) as app:
            census = app.world.census
            assert census.is_alive(replace(census.own_identity(), boot_id="another")) is known


async def until_somebody_waits(url: str) -> None:
    asked = "SELECT FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = %s)"
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection, asyncio.timeout(60):
        while not (await connection.execute(asked, (connection.info.dbname,))).rowcount:
            await asyncio.sleep(0.01)


def prefer(url: str, setting: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {setting}".encode())


async def test_no_error_holds_the_password(postgres: PostgresServer) -> None:
    secret = "".join(("hun", "ter", "2", "x" * 8))
    urls = (
        f"postgresql://me:{secret}@127.0.0.1:1/recoup",
        f"postgresql://postgres:{secret}@127.0.0.1:{postgres.port}/absent",
        f"postgresql://me:{secret}@127.0.0.1:{postgres.port}/postgres?nonsense={secret}",
        f"postgresql://me:{secret}%zz@host/x",
    )
    for url in urls:
        with pytest.raises((LedgerError, SettingsError)) as caught:
            await open_ledger(DatabaseUrl(url))
        assert secret not in str(caught.value)
        assert secret not in repr(caught.value.__cause__)


async def test_a_database_that_cannot_hold_every_character_is_refused(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("DROP DATABASE IF EXISTS latin")
        other.execute(
            "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    error = await refused(LedgerError, PostgresLedger.open(postgres.of("latin")))
    assert "UTF-8" in str(error)
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("DROP DATABASE latin")
