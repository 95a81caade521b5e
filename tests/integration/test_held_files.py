"""SQLite's locks survive whatever this process is asked to read; and a file that was replaced is noticed."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoup.errors import LedgerError, StateError
from recoup.files import named
from recoup.files.held import COMPANIONS, HeldDatabase, Replaced, Truncated, is_held
from recoup.files.named import DatabaseInUse, NotRegular, open_named, read_named, require_no_database
from recoup.gateway.book import Book
from recoup.ledger.opened import OpenedFile
from recoup.ledger.sqlite import SqliteLedger
from recoup.testing.ledger_suite import facts, into, note

COUNTED = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM rows").fetchone()[0])
connection.execute("INSERT INTO rows VALUES (0)")
connection.commit()
connection.close()
"""
"""Another process: it closes the last connection, as far as it can know."""


class Database:
    """A database that this process has open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self.held = HeldDatabase(path)
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("CREATE TABLE rows (id INTEGER)")
        self.held.opened()
        self.log = path.with_name(f"{path.name}-wal")

    def is_believed_open(self) -> bool:
        """By another process, which removes the log otherwise."""
        before = self.log.stat().st_ino
        subprocess.run([sys.executable, "-c", COUNTED, str(self.path)], check=True, capture_output=True)
        return self.log.exists() and self.log.stat().st_ino == before

    def close(self) -> None:
        self.connection.close()
        self.held.release()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    one = Database(tmp_path / "one.db")
    yield one
    one.close()


def test_closing_any_descriptor_of_a_database_drops_its_locks(database: Database) -> None:
    """What all of this is about; a system that behaves otherwise needs none of it."""
    os.close(os.open(database.path, os.O_RDONLY))
    assert not database.is_believed_open()


def test_closing_a_handle_without_access_drops_no_lock(database: Database) -> None:
    os.close(os.open(database.path, os.O_PATH))
    assert database.is_believed_open()


LINKS: dict[str, Callable[[Path, Path], object]] = {
    "name": lambda link, file: file,
    "symbolic": lambda link, file: link.symlink_to(file),
    "hard": lambda link, file: link.hardlink_to(file),
}


@pytest.mark.parametrize("handles", [True, False], ids=["handles", "without handles"])
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("link", LINKS)
def test_no_file_of_an_open_database_is_read_by_any_name(
    database: Database, link: str, suffix: str, handles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named, "_HAS_HANDLES", handles)
    file = database.path.with_name(database.path.name + suffix)
    LINKS[link](tmp_path / "link", file)
    name = file if link == "name" else tmp_path / "link"
    for read in (open_named, read_named, require_no_database):
        with pytest.raises(DatabaseInUse, match="a database that Recoup has open"):
            read(name)
    assert database.is_believed_open()


@pytest.mark.parametrize("handles", [True, False], ids=["handles", "without handles"])
def test_other_files_are_read_and_pipes_and_folders_are_not(
    database: Database, handles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named, "_HAS_HANDLES", handles)
    (tmp_path / "text").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(tmp_path / "text")
    os.mkfifo(tmp_path / "pipe")
    assert read_named(tmp_path / "link", 4) == b"0123"
    assert read_named(os.fsencode(tmp_path / "text")) == b"0123456789"
    refusals: dict[str, type[OSError]] = {
        "pipe": NotRegular,
        "": IsADirectoryError,
        "none": FileNotFoundError,
    }
    for name, kind in refusals.items():
        with pytest.raises(kind) as refusal:
            open_named(tmp_path / name)
        assert refusal.value.filename == str(tmp_path / name)
    with pytest.raises(OSError, match="symbolic links"):
        open_named(tmp_path / "link", follow_links=False)
    assert database.is_believed_open()


def test_a_database_that_was_closed_is_a_file_like_any_other(tmp_path: Path) -> None:
    one = Database(tmp_path / "one.db")
    one.close()
    assert read_named(one.path, 6) == b"SQLite"
    assert not any(is_held(path.stat()) for path in tmp_path.iterdir())


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.booleans(), max_size=12))
def test_a_file_is_held_as_long_as_one_connection_is_open(
    tmp_path_factory: pytest.TempPathFactory, moves: list[bool]
) -> None:
    path = tmp_path_factory.mktemp("held") / "one.db"
    path.touch()
    holders: list[HeldDatabase] = []
    for opens in moves:
        if opens:
            holders.append(HeldDatabase(path))
        elif holders:
            holders.pop().release()
        assert is_held(path.stat()) == bool(holders)
    for holder in holders:
        holder.release()
        holder.release()
    assert not is_held(path.stat())


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_that_was_removed_or_replaced_is_noticed(
    database: Database, suffix: str, is_replaced: bool
) -> None:
    database.held.require_in_place()
    file = database.path.with_name(database.path.name + suffix)
    file.rename(file.with_name("away"))
    if is_replaced:
        file.write_bytes(file.with_name("away").read_bytes() if suffix == "-wal" else b"")
    with pytest.raises(Replaced, match=file.name):
        database.held.require_in_place()
    file.with_name("away").replace(file)
    database.held.require_in_place()


@pytest.mark.parametrize(
    ("left_bytes", "grows"), [(0, False), (0, True), (32, False), (32, True), (4_152, True), (-1, False)]
)
def test_a_log_that_was_truncated_is_noticed(database: Database, left_bytes: int, grows: bool) -> None:
    """Also when it is as long as before again: what was there is zeros then."""
    for number in range(20):
        database.connection.execute("INSERT INTO rows VALUES (?)", (number,))
    database.held.require_in_place()
    size_bytes = database.log.stat().st_size
    os.truncate(database.log, left_bytes % size_bytes)
    if grows:
        os.truncate(database.log, size_bytes)
    for ask in (database.held.require_in_place, database.held.require_log):
        with pytest.raises(Truncated, match=database.log.name):
            ask()


@pytest.mark.parametrize("mode", ["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
def test_a_log_that_was_copied_into_the_database_is_in_place(database: Database, mode: str) -> None:
    for number in range(20):
        database.connection.execute("INSERT INTO rows VALUES (?)", (number,))
        database.connection.execute(f"PRAGMA wal_checkpoint({mode})")
        database.held.require_in_place()
        database.held.require_log()


COMMITTING = """
import random, sqlite3, sys
from pathlib import Path
from recoup.files.held import HeldDatabase
path, seed, commits = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
held = HeldDatabase(path)
connection = sqlite3.connect(path, isolation_level=None, timeout=60)
connection.execute("PRAGMA synchronous = OFF")
connection.execute("PRAGMA wal_autocheckpoint = 7")
connection.execute("PRAGMA journal_size_limit = 20000")
connection.execute("SELECT * FROM rows").fetchone()
held.opened()
for number in range(commits):
    held.require_in_place()
    connection.execute("INSERT INTO rows VALUES (zeroblob(?))", (chance.choice((1, 5_000)),))
    held.require_log()
    if number % 5 == 0:
        connection.execute("PRAGMA wal_checkpoint(%s)" % chance.choice(("PASSIVE", "FULL", "RESTART", "TRUNCATE")))
        held.require_in_place()
held.close(connection, may_remove_log=False)
"""
"""A process that commits, and empties the log or begins again at its start whenever it can."""


def test_no_process_takes_the_checkpoints_of_others_for_a_loss(database: Database) -> None:
    commits = 2_000
    others = [
        subprocess.Popen(
            [sys.executable, "-c", COMMITTING, str(database.path), str(seed), str(commits)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(2)
    ]
    looks = 0
    while any(other.poll() is None for other in others):
        database.held.require_in_place()
        database.held.require_log()
        looks += 1
    assert [other.communicate()[1] for other in others] == ["", ""]
    assert looks > commits
    (count,) = database.connection.execute("SELECT count(*) FROM rows").fetchone()
    assert count == 2 * commits


def test_looking_at_the_index_drops_no_lock(database: Database) -> None:
    """Its descriptor is closed with the last connection of this process, not with the one that opened it."""
    second = HeldDatabase(database.path)
    connection = sqlite3.connect(database.path)
    connection.execute("SELECT * FROM rows").fetchone()
    second.opened()
    second.require_in_place()
    database.held.require_in_place()
    connection.close()
    second.release()
    assert database.is_believed_open()
    database.held.require_in_place()


def test_an_index_that_was_made_again_is_the_one_that_is_looked_at(tmp_path: Path) -> None:
    """The last connection removes it, while the next one of this process is about to be made."""
    one = Database(tmp_path / "one.db")
    one.held.require_in_place()
    held = HeldDatabase(one.path)
    one.close()
    connection = sqlite3.connect(one.path, isolation_level=None)
    connection.execute("INSERT INTO rows VALUES (1)")
    held.opened()
    held.require_in_place()
    os.truncate(one.log, 0)
    with pytest.raises(Truncated):
        held.require_in_place()
    connection.close()
    held.release()
    assert not any(is_held(path.stat()) for path in tmp_path.iterdir())


def read_apart(path: Path) -> bytes:
    """By another process: this one would drop its locks."""
    return subprocess.run(["cat", path], check=True, capture_output=True).stdout


@pytest.mark.parametrize("left_bytes", [0, 8_192])
async def test_nothing_is_acknowledged_once_the_log_of_the_ledger_was_truncated(
    tmp_path: Path, left_bytes: int
) -> None:
    """Nor is the rest of it copied into the database, however much is written."""
    path, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:a", note())))
    assert await ledger.head("run:a") == 1
    before, whole = read_apart(path), read_apart(log)
    os.truncate(log, left_bytes)
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"ledger\.db-wal was truncated while in use") as refusal:
            await ledger.append(facts(into("run:a", *[note("x" * 20_000)] * 400)))
        assert "recoup doctor" in refusal.value.hint
        with pytest.raises(LedgerError, match="was truncated"):
            await ledger.head("run:a")
    await ledger.close()
    assert path.read_bytes() == before
    log.write_bytes(whole)
    ledger = SqliteLedger(path)
    assert await ledger.head("run:a") == 1, "what is put back is read again"
    await ledger.close()


TRUNCATED_INDEX = """
import asyncio, os, sys
from pathlib import Path
from recoup.errors import LedgerError
from recoup.ledger.sqlite import SqliteLedger
from recoup.testing.ledger_suite import facts, into, note

async def main(path):
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:a", note())))
    await ledger.head("run:a")
    os.truncate(f"{path}-shm", 0)
    for asked in (ledger.append(facts(into("run:a", note()))), ledger.head("run:a")):
        try:
            await asked
        except LedgerError as error:
            print(str(error).splitlines()[0])
    await ledger.close()

asyncio.run(main(Path(sys.argv[1])))
"""


def test_an_index_that_was_truncated_is_refused_before_it_kills_the_process(tmp_path: Path) -> None:
    """SQLite has it mapped: to read what is gone is SIGBUS."""
    path = tmp_path / "ledger.db"
    ended = subprocess.run(
        [sys.executable, "-c", TRUNCATED_INDEX, str(path)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [f"the ledger's file {path}-shm was truncated while in use"] * 2


async def test_nothing_is_acknowledged_once_the_log_of_the_ledger_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:a", note())))
    assert await ledger.head("run:a") == 1
    log = path.with_name("ledger.db-wal")
    log.unlink()
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"ledger\.db-wal was removed or replaced") as refusal:
            await ledger.append(facts(into("run:a", note())))
        assert "recoup doctor" in refusal.value.hint
        with pytest.raises(LedgerError, match="removed or replaced"):
            await ledger.head("run:a")
    await ledger.close()


async def test_a_log_without_a_name_is_not_copied_into_the_database(tmp_path: Path) -> None:
    """Others have written to the database since; SQLite copies a large log at the end of a commit."""
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:a", note())))
    (tmp_path / "ledger.db-wal").unlink()
    before = path.stat().st_mtime_ns, path.stat().st_size
    with pytest.raises(LedgerError, match="removed or replaced"):
        await ledger.append(facts(into("run:a", *[note("x" * 20_000)] * 400)))
    assert (path.stat().st_mtime_ns, path.stat().st_size) == before
    await ledger.close()
    assert (path.stat().st_mtime_ns, path.stat().st_size) == before


async def test_a_log_that_another_process_made_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """SQLite would copy its own log into the database when it closes, and then delete that of the other one by name."""
    path, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:a", note())))
    before = path.read_bytes()
    log.unlink()
    log.write_bytes(b"another log")
    await ledger.close()
    assert log.read_bytes() == b"another log"
    assert path.read_bytes() == before


async def test_the_log_stays_for_a_process_that_has_lost_its_locks(tmp_path: Path) -> None:
    """Code of a plan's author that runs in the driver's process can open any file."""
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path)
    await ledger.append(facts(into("run:a", note())))
    for suffix in ("", *COMPANIONS[:1]):
        os.close(os.open(f"{path}{suffix}", os.O_RDONLY))
    other = (
        "import asyncio, pathlib, sys; from recoup.ledger.sqlite import SqliteLedger\n"
        "asyncio.run(SqliteLedger(pathlib.Path(sys.argv[1])).close())"
    )
    subprocess.run([sys.executable, "-c", other, str(path)], check=True)
    await ledger.append(facts(into("run:a", note())))
    assert await ledger.head("run:a") == 2
    await ledger.close()
    assert not path.with_name("ledger.db-wal").exists(), "the last one removes it"
    ledger = SqliteLedger(path)
    assert await ledger.head("run:a") == 2
    await ledger.close()


def test_the_gateways_own_database_is_noticed_to_be_gone(tmp_path: Path) -> None:
    book = Book(tmp_path / "gateway.db", lambda: 0.0)
    (tmp_path / "gateway.db-wal").unlink()
    with pytest.raises(StateError, match=r"gateway\.db-wal was removed or replaced"):
        book.tokens()
    book.close()


@pytest.mark.parametrize("sign", ["gateway.db-wal", "webhooks/hook-1"])
def test_a_gateway_database_that_was_lost_is_not_replaced(tmp_path: Path, sign: str) -> None:
    (tmp_path / sign).parent.mkdir(exist_ok=True)
    (tmp_path / sign).write_bytes(b"kept")
    with pytest.raises(StateError, match="there was one") as refusal:
        Book(tmp_path / "gateway.db", lambda: 0.0)
    assert "Restore it" in refusal.value.hint
    assert (tmp_path / sign).read_bytes() == b"kept"
    assert not (tmp_path / "gateway.db").exists()


def test_two_connections_to_the_gateways_database_keep_its_locks(tmp_path: Path) -> None:
    path, now_s = tmp_path / "gateway.db", lambda: 0.0
    first, second = Book(path, now_s), Book(path, now_s)
    other = "import pathlib, sys; from recoup.gateway.book import Book\nBook(pathlib.Path(sys.argv[1]), float).close()"
    subprocess.run([sys.executable, "-c", other, str(path)], check=True)
    assert first.tokens() == second.tokens() == []
    first.close()
    second.close()


def test_a_second_connection_that_cannot_be_opened_is_told_as_trouble_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor was left for it. The first connection is closed."""
    path = tmp_path / "ledger.db"

    def fail(_held: HeldDatabase) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(HeldDatabase, "guard", fail)
    with pytest.raises(LedgerError, match="unable to open database file"):
        OpenedFile(path)
    assert str(path) not in open_files()


def open_files() -> Iterator[str]:
    """What the descriptors of this process stand for; the one that lists them is gone by then."""
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            yield str(one.readlink())
