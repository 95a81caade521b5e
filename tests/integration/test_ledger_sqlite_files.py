"""The ledger's file: made, migrated, refused, full, gone, damaged."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from recoup.errors import LedgerError, LedgerTooNew
from recoup.ledger.connection import CHECKPOINT_PAGES, open_writer
from recoup.ledger.folds import ATTEMPT_LAG_EVENTS
from recoup.ledger.migrations import APPLICATION_ID, SCRIPTS, migrate
from recoup.ledger.queries import queries, row_writes, sql_file
from recoup.ledger.run_lists import Listing
from recoup.ledger.sqlite import SqliteLedger
from recoup.ledger.stored_lists import DIALECT
from recoup.ledger.wal import GROWN_BYTES_MAX
from recoup.model import events as ev
from recoup.model.mode import Mode
from recoup.model.probe import Phase
from recoup.model.run import Verdict
from recoup.model.storage import (
    LOOKED_THROUGH_MAX,
    Append,
    Escalation,
    RunCount,
    RunFilter,
    Span,
    StreamAppend,
)
from recoup.testing.ledger_suite import (
    START,
    assert_cached_rows_equal_a_rebuild,
    begins,
    draft,
    facts,
    failing,
    finishing,
    into,
    linked,
    note,
    once,
    random_history,
    result,
    submitted,
)
from recoup.testing.list_suite import filters, many

KNOWN = tuple(map(sql_file, SCRIPTS))
NEXT = "ALTER TABLE runs ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';\nCREATE TABLE extra (id INTEGER);\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "ledger.db"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with room for 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def filled(path: Path, appends: int = 3) -> None:
    ledger = SqliteLedger(path)
    for number in range(appends):
        await ledger.append(facts(into(f"run:r{number}", submitted(), note())))
    await ledger.close()


def began(index: int) -> ev.AttemptStarted:
    return ev.AttemptStarted(
        step_id=f"s{index}",
        step_index=index,
        attempt=1,
        delivery=1,
        kind="run",
        args_digest="a",
        pre_state=None,
        workspace=None,
        inline=True,
    )


def ended(index: int) -> ev.AttemptFinished:
    return ev.AttemptFinished(
        step_id=f"s{index}", step_index=index, attempt=1, verdict=Verdict.PASSED, duration_ms=3
    )


async def until_refused(ledger: SqliteLedger) -> tuple[int, LedgerError]:
    while True:
        try:
            appended = await ledger.append(facts(into("run:b", note()), into("run:a", note("x" * 20_000))))
        except LedgerError as refusal:
            return await ledger.head("run:a"), refusal
        assert appended.positions[1].seq < 1_000, "the disk is too large"


async def test_all_files_are_the_owners_alone(path: Path) -> None:
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:a", note())))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == [
        "ledger.db",
        "ledger.db-shm",
        "ledger.db-wal",
        "ledger.mark",
        "ledger.turn",
        "ledger.write",
    ]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    await ledger.close()


async def test_commits_are_synchronous_and_logged_ahead(path: Path) -> None:
    connection = open_writer(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(SCRIPTS),)
    connection.close()


def test_every_query_suits_the_schema(path: Path) -> None:
    connection = open_writer(path)
    for sql in (*queries().values(), *row_writes().values()):
        if "({})" in sql:
            continue  # made whole by run_lists.py
        if named := re.findall(r":([a-z]+)", sql):
            assert connection.execute("EXPLAIN " + sql, dict.fromkeys(named)).fetchall(), sql
            continue
        numbered = [number for number in (1, 2, 3, 4) if f"?{number}" in sql]
        parameters = (None,) * (max(numbered) if numbered else sql.count("?"))
        assert connection.execute("EXPLAIN " + sql, parameters).fetchall(), sql
    connection.close()


def test_lists_of_runs_are_read_from_an_index(path: Path) -> None:
    """No run is looked at that the index does not name; nothing is sorted but what a page holds."""
    connection = open_writer(path)
    for wanted in filters():
        listing = Listing(DIALECT, wanted)
        for sql, values in (listing.page(50, None), listing.count(100), listing.edge()):
            plan = connection.execute("EXPLAIN QUERY PLAN " + sql, values).fetchall()
            steps = [step for *_, step in plan]
            assert not any(re.fullmatch(r"SCAN (runs|streams|last|events)( .*)?", step) for step in steps), (
                steps
            )
            ways = [step for step in steps if step.startswith("SEARCH runs USING") and "PRIMARY" not in step]
            assert ways and all("submitted_at_us" in step for step in ways), steps
    connection.close()


def test_histories_are_read_from_an_index(path: Path) -> None:
    connection = open_writer(path)
    for name in ("ends", "heals", "recoveries", "ends_counted", "heals_counted", "recoveries_counted"):
        sql = queries()[name]
        values = dict.fromkeys(re.findall(r":([a-z]+)", sql)) or (None,) * 3
        steps = [step for *_, step in connection.execute("EXPLAIN QUERY PLAN " + sql, values)]
        scanned = [
            step for step in steps if re.match("SCAN (runs|attempts|passed|failed|earlier|heals)", step)
        ]
        assert not scanned, (name, scanned)
    connection.close()


@pytest.mark.parametrize("name", ["a b.db", "what?#%41.db", "ledger", "l\u00e9dger.\U0001f600"])
async def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    await filled(tmp_path / "some folder" / name)
    assert (tmp_path / "some folder" / name).stat().st_size > 0
    ledger = SqliteLedger(tmp_path / "some folder" / name)
    assert len((await ledger.runs()).rows) == 3
    await ledger.close()


async def test_the_log_stays_bounded_and_is_gone_afterwards(path: Path) -> None:
    ledger = SqliteLedger(path)
    log = path.with_name("ledger.db-wal")
    largest = 0
    for number in range(400):
        await ledger.append(facts(into("run:a", note("x" * 6_000), note(str(number)))))
        largest = max(largest, log.stat().st_size)
    assert largest < 1.5 * max(GROWN_BYTES_MAX, CHECKPOINT_PAGES * 4_120)
    await ledger.close()
    assert not log.exists()
    ledger = SqliteLedger(path)
    assert await ledger.head("run:a") == 800
    await ledger.close()


async def test_beside_a_reader_that_never_ends_everything_is_appended_and_the_log_shrinks_when_it_does(
    path: Path,
) -> None:
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:a", note("first"))))
    log = path.with_name("ledger.db-wal")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        seen = reader.execute("SELECT count(*) FROM events").fetchone()
        for number in range(400):
            await ledger.append(facts(into("run:a", note("x" * 20_000), note(str(number)))))
        assert reader.execute("SELECT count(*) FROM events").fetchone() == seen, "it reads what it began with"
        grown = log.stat().st_size
        assert grown > GROWN_BYTES_MAX, "nothing it may still read was overwritten"
    for number in range(400):
        await ledger.append(facts(into("run:a", note("x" * 20_000), note(str(number)))))
    assert log.stat().st_size <= grown, "it is used again from its beginning"
    assert [event.seq for event in await ledger.read("run:a")] == list(range(1, 1602))
    await ledger.close()
    assert not log.exists()


async def test_a_process_that_only_reads_writes_nothing(path: Path) -> None:
    await filled(path)
    before = path.stat().st_mtime_ns
    ledger = SqliteLedger(path)
    assert len((await ledger.runs()).rows) == 3
    await ledger.close()
    assert path.stat().st_mtime_ns == before


async def test_a_ledger_is_brought_to_the_next_version(path: Path) -> None:
    await filled(path)
    connection = open_writer(path)
    migrate(connection, path, (*KNOWN, NEXT))
    migrate(connection, path, (*KNOWN, NEXT))
    assert connection.execute("PRAGMA user_version").fetchone() == (len(KNOWN) + 1,)
    assert connection.execute("SELECT run_id, colour FROM runs ORDER BY run_id").fetchall() == [
        ("r0", "red"),
        ("r1", "red"),
        ("r2", "red"),
    ]
    connection.close()


async def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    await filled(path)
    connection = open_writer(path)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, path, (*KNOWN, NEXT + "INSERT INTO nowhere VALUES (1);\n"))
    connection.close()
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:r0", note())))
    await ledger.close()
    assert "extra" not in _tables(path)


def back_to_version_5(connection: sqlite3.Connection) -> None:
    connection.execute("DROP INDEX escalations_by_state")
    for column in ("state", "raised_at_us", "assignee", "gone_on", "said"):
        connection.execute(f"ALTER TABLE escalations DROP COLUMN {column}")
    for index in ("runs_by_both", "runs_by_class", "runs_by_worker", "runs_by_end", "attempts_recovered"):
        connection.execute(f"DROP INDEX {index}")
    for column in ("failure_class", "worker", "step_count", "ended_at_us"):
        connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    connection.execute("ALTER TABLE attempts DROP COLUMN phase")
    connection.execute("DROP TABLE heals")


def back_to_version_2(connection: sqlite3.Connection) -> None:
    back_to_version_5(connection)
    connection.execute("DROP VIEW ended")
    for index in ("runs_wanting", "leases_held", "controls_by_run", "escalations_by_stream"):
        connection.execute(f"DROP INDEX {index}")
    for column in ("queue", "priority", "needs", "due_us", "wants_driver"):
        connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    for table in ("workers", "families", "claims"):
        connection.execute(f"DROP TABLE {table}")


async def test_a_ledger_of_version_1_is_read_with_its_attempts(path: Path) -> None:
    """It has a row for each attempt already; to fold them again gives the same rows."""
    ledger = SqliteLedger(path)
    for append in random_history(random.Random(11), 80):
        await ledger.append(append)
    await ledger.rebuild()
    await ledger.close()
    with sqlite3.connect(path) as connection:
        back_to_version_2(connection)
        connection.execute("ALTER TABLE runs DROP COLUMN attempts_seq")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    ledger = SqliteLedger(path)
    await assert_cached_rows_equal_a_rebuild(ledger)
    for append in random_history(random.Random(12), 80):
        await ledger.append(append)
    await assert_cached_rows_equal_a_rebuild(ledger)
    await ledger.close()


async def test_links_of_a_ledger_of_version_2_are_found(path: Path) -> None:
    ledger = SqliteLedger(path)
    await linked(ledger, ("old", None), ("b", "old"), ("c", "b"), ("d", "c"), ("alone", None))
    await linked(ledger, ("gone", None), ("e", "gone"), ("f", "e"))
    families = {run_id: await ledger.family(run_id) for run_id in ("old", "b", "c", "d", "e", "f", "alone")}
    await ledger.close()
    with sqlite3.connect(path) as connection:
        back_to_version_2(connection)
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    ledger = SqliteLedger(path)
    assert {run_id: await ledger.family(run_id) for run_id in families} == families
    assert families["d"] == ["old", "b", "c", "d"]
    await ledger.close()


async def test_what_lists_and_histories_need_is_found_in_a_ledger_of_version_5(path: Path) -> None:
    ledger = SqliteLedger(path)
    for append in random_history(random.Random(4), 150):
        await ledger.append(append)
    await many(ledger, random.Random(1))
    await ledger.rebuild()
    span = Span(START.wall_us, START.plus_s(400).wall_us, 10_000_000)
    before = ((await ledger.runs(limit=500)).rows, await ledger.history(span))
    await ledger.close()
    with sqlite3.connect(path) as connection:
        back_to_version_5(connection)
        connection.execute("PRAGMA user_version = 5")
    connection.close()
    ledger = SqliteLedger(path)
    assert ((await ledger.runs(limit=500)).rows, await ledger.history(span)) == before
    await assert_cached_rows_equal_a_rebuild(ledger)
    await ledger.close()


async def test_a_search_goes_on_where_it_had_to_stop(path: Path) -> None:
    ledger = SqliteLedger(path)
    old = [into(f"run:r{number:05}", submitted()) for number in range(LOOKED_THROUGH_MAX + 5)]
    await ledger.append(facts(into("run:0-the-oldest", submitted()), *old))
    wanted = RunFilter(text="OLDEST")
    page = await ledger.runs(wanted)
    assert page.rows == () and page.behind is not None
    assert await ledger.count_runs(wanted) == RunCount(0, capped=True)
    page = await ledger.runs(wanted, before=page.behind)
    assert [row.run_id for row in page.rows] == ["0-the-oldest"]
    assert page.behind is None
    await ledger.close()


async def test_families_and_claims_are_made_anew_from_the_events(path: Path) -> None:
    ledger = SqliteLedger(path)
    await linked(ledger, ("a", None), ("b", "a"), ("c", "b"))
    # The younger run began and failed before the older one did it: streams are not read in the order of time.
    assert await begins(ledger, "b", once())
    await ledger.append(facts(into("run:b", failing())))
    assert await begins(ledger, "a", once())
    await ledger.append(facts(into("run:a", finishing())))
    assert await begins(ledger, "c", once(step_id="t"))
    await ledger.append(facts(into("run:c", failing(step_id="t", outcome_known=False))))
    before = _all_rows(path)
    assert [len(rows) for rows in before] == [2, 2]
    await ledger.rebuild()
    assert _all_rows(path) == before
    assert not await begins(ledger, "c", once())
    await ledger.close()


def _all_rows(path: Path) -> list[list[object]]:
    with sqlite3.connect(path) as connection:
        rows = [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in ("families", "claims")
        ]
    connection.close()
    return rows


async def test_rows_of_attempts_lag_a_little_while_a_run_goes_on_and_nobody_notices(path: Path) -> None:
    first, second = SqliteLedger(path), SqliteLedger(path)
    await first.append(facts(into("run:a", submitted())))
    most = 0
    for number in range(400):
        ledger = second if number % 50 == 49 else first
        await ledger.append(facts(into("run:a", began(number), ended(number))))
        if number % 20 == 0:
            shown = await second.attempts("a")
            assert [row.step_index for row in shown] == list(range(number + 1))
            assert {row.state for row in shown} == {"finished"}
            most = max(most, number + 1 - _stored_attempts(path))
    assert 0 < most <= ATTEMPT_LAG_EVENTS
    await first.append(facts(into("run:a", ev.RunSucceeded(known_good_prefix_length=400, reason="done"))))
    assert _stored_attempts(path) == 400
    await assert_cached_rows_equal_a_rebuild(second)
    for ledger in (first, second):
        await ledger.close()


async def test_a_ledger_of_a_newer_version_is_refused(path: Path) -> None:
    await filled(path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {len(SCRIPTS) + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerTooNew) as refusal:
        SqliteLedger(path)
    assert "Upgrade Recoup" in refusal.value.hint
    assert str(path) in refusal.value.message
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"My diary. " * 100)
    with pytest.raises(LedgerError, match="not a database"):
        SqliteLedger(path)
    assert path.read_bytes() == b"My diary. " * 100


def test_the_database_of_another_program_is_refused_and_kept(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE diary (day TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="another program"):
        SqliteLedger(path)
    assert path.read_bytes() == before


def test_a_folder_in_its_place_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(LedgerError, match="not a regular file"):
        SqliteLedger(path)


def test_a_file_where_its_folder_should_be_is_refused(path: Path) -> None:
    path.parent.write_text("in the way")
    with pytest.raises(LedgerError, match="cannot be opened"):
        SqliteLedger(path)


async def test_a_full_disk_refuses_until_there_is_room(small_disk: Path) -> None:
    ledger = SqliteLedger(small_disk / "ledger.db")
    ballast = small_disk / "ballast"
    await ledger.append(facts(into("run:a", note("first"))))
    ballast.write_bytes(b"x" * (small_disk.stat().st_blksize * 300))
    acknowledged, refusal = await until_refused(ledger)
    assert "disk" in refusal.message
    assert "space" in refusal.hint
    assert await ledger.head("run:b") == acknowledged - 1
    ballast.unlink()
    await ledger.append(facts(into("run:a", note("last"))))
    assert [event.seq for event in await ledger.read("run:a")] == list(range(1, acknowledged + 2))
    await ledger.close()


def test_a_disk_without_any_room_refuses_a_new_ledger(small_disk: Path) -> None:
    with pytest.raises(OSError):
        (small_disk / "ballast").write_bytes(b"x" * (4 << 20))
    with pytest.raises(LedgerError):
        SqliteLedger(small_disk / "ledger.db")
    (small_disk / "ballast").unlink()
    asyncio.run(filled(small_disk / "ledger.db"))


async def test_a_ledger_that_cannot_be_written_says_so(small_disk: Path) -> None:
    await filled(small_disk / "ledger.db")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(LedgerError) as refusal:
        await filled(small_disk / "ledger.db")
    assert "RECOUP_HOME" in refusal.value.hint


async def test_a_ledger_that_was_removed_in_use_is_not_written_to(path: Path) -> None:
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:a", note())))
    for file in path.parent.iterdir():
        file.unlink()
    for _ in range(2):
        with pytest.raises(LedgerError, match="removed"):
            await ledger.append(facts(into("run:a", note())))
    assert list(path.parent.iterdir()) == []
    await ledger.close()


@pytest.mark.parametrize("first_page", [1, 24])
async def test_a_damaged_ledger_is_reported(path: Path, first_page: int) -> None:
    await filled(path, appends=60)
    with path.open("r+b") as file:
        for page in range(first_page, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 200)
    with pytest.raises(LedgerError, match="damaged"):
        await filled(path, appends=60)


async def test_cached_rows_can_be_made_anew(path: Path) -> None:
    ledger = SqliteLedger(path)
    for append in random_history(random.Random(3), 60):
        await ledger.append(append)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM attempts WHERE step_index = 1")
        connection.execute("UPDATE runs SET status = 'queued', reason = 'tampered'")
        connection.execute('UPDATE workflow_state SET body = \'{"tokens_spent": 99.0, "seq": 32}\'')
    connection.close()
    with pytest.raises(AssertionError):
        await assert_cached_rows_equal_a_rebuild(ledger)
    await ledger.rebuild()
    await assert_cached_rows_equal_a_rebuild(ledger)
    await ledger.append(facts(into("run:run-0", note())))
    await assert_cached_rows_equal_a_rebuild(ledger)
    await ledger.close()


async def test_a_state_that_an_older_version_stored_meanwhile_is_not_the_whole_state(path: Path) -> None:
    """It knows nothing of modes: to go on from it would let a workflow go that was stopped."""
    ledger = SqliteLedger(path)
    stopped = ev.WorkflowModeChanged(mode=Mode.QUARANTINED, previous=Mode.RUNNING, reason="", for_s=1800)
    await ledger.append(facts(into("workflow:w", stopped, *[result("passed")] * 39)))
    before = await ledger.workflow_state("w")
    with sqlite3.connect(path) as connection:
        connection.execute('UPDATE workflow_state SET body = \'{"tokens_spent": 0.0, "seq": 40}\', seq = 40')
    connection.close()
    assert await ledger.workflow_state("w") == before
    assert before.health.mode is Mode.QUARANTINED
    await ledger.close()


async def test_a_symbolic_link_leads_to_the_same_ledger_and_the_same_turns(
    path: Path, tmp_path: Path
) -> None:
    await filled(path)
    (tmp_path / "link.db").symlink_to(path)
    first, second = SqliteLedger(path), SqliteLedger(tmp_path / "link.db")
    await asyncio.gather(*(one.append(facts(into("run:a", note()))) for one in (first, second) * 10))
    assert await first.head("run:a") == 20
    assert not (tmp_path / "link.turn").exists()
    await first.close()
    await second.close()


def _tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return names


def _stored_attempts(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM attempts").fetchone()
    return int(count)


async def test_the_inbox_is_made_anew_from_the_events(path: Path) -> None:
    """Also what a probe elsewhere reported, and once where the ledger is that probe's own, too."""
    ledger = SqliteLedger(path)
    of_run = ev.Escalated(escalation_id="e-1", reason="x", hint="")
    own = ev.ProbeEscalated(
        event_id="dev:1", escalation_id="dev:api:1", phase=Phase.FAILED, reason="x", limit="final", hint=""
    )
    told = {
        "type": "Escalated",
        "escalation_id": "dev:api:1",
        "reason": "x",
        "lease_epoch": 1,
        "event_id": "a",
    }
    reported = [
        ev.ProbeReported(sender_epoch=1, digest="d", event={**told, "escalation_id": name, "event_id": name})
        for name in ("dev:api:1", "far:api:1")
    ]
    parts: list[tuple[str, ev.Payload, str | None]] = [
        ("run:r", of_run, "e-1"),
        ("probe:dev", own, "dev:api:1"),
        ("reported:dev", reported[0], None),
        ("reported:far", reported[1], "far~far:api:1"),
    ]
    for stream, payload, name in parts:
        fact = draft(payload)
        one = () if name is None else (Escalation(name, stream, "x", fact.payload),)
        await ledger.append(Append(at=START, streams=(StreamAppend(stream, (fact,)),), escalations=one))
    assigned = ev.EscalationAssigned(escalation_id="far~far:api:1", by="ada", reason="hers", assignee="bea")
    await ledger.append(facts(into("escalation:far~far:api:1", assigned)))
    await ledger.append(facts(into("run:r", ev.RunCancelled(reason="enough", actor="ada"))))
    before = await ledger.inbox()
    assert [one.state for one in before] == ["resolved", "open", "assigned"]
    await ledger.rebuild()
    assert await ledger.inbox() == before
    await ledger.close()


async def test_escalations_of_a_ledger_of_version_5_have_a_state(path: Path) -> None:
    ledger = SqliteLedger(path)
    for run_id, end in (("waits", None), ("went-on", ev.RunWaiting(reason="settled"))):
        fact = draft(ev.Escalated(escalation_id=f"e-{run_id}", reason="look", hint=""))
        one = Escalation(f"e-{run_id}", f"run:{run_id}", "look", fact.payload)
        stream = f"run:{run_id}"
        await ledger.append(facts(into(stream, submitted())))
        await ledger.append(Append(at=START, streams=(StreamAppend(stream, (fact,)),), escalations=(one,)))
        if end is not None:
            await ledger.append(facts(into(stream, end)))
    before = await ledger.inbox()
    await ledger.close()
    with sqlite3.connect(path) as connection:
        back_to_version_5(connection)
        connection.execute("PRAGMA user_version = 5")
    connection.close()
    ledger = SqliteLedger(path)
    assert await ledger.inbox() == before
    assert [one.state for one in before] == ["open", "resolved"]
    await ledger.close()
