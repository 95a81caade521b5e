"""The file of hints on one machine. It is not the truth: whoever deletes it, or finds it damaged, gets an empty one."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from recoup.dispatch.queries import queries, sql_file
from recoup.errors import DispatchError, hint_for
from recoup.files.folders import make_folder
from recoup.files.held import HeldDatabase
from recoup.files.named import open_own
from recoup.machine import shortage
from recoup.model.instant import Instant

BUSY_MAX_MS = 5_000
WAL_KEPT_BYTES = 4 << 20
APPLICATION_ID = 0x52435148
SCHEMA_VERSION = 1

_Q = queries("local.sql")
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_GONE = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_COMPANIONS = ("-wal", "-shm")
_RETRY_S = 0.005
_ATTEMPTS_MAX = 10
_TURN_MAX_S = 1.0
T = TypeVar("T")


class QueueFile:
    """One connection to it, made anew when the file was replaced. Used by one thread at a time."""

    def __init__(self, path: Path, busy_max_ms: int = BUSY_MAX_MS) -> None:
        self._path = path
        self._busy_max_ms = busy_max_ms
        self._connection: sqlite3.Connection | None = None
        self._held: HeldDatabase | None = None
        self._identity: tuple[tuple[int, ...], ...] = ()
        self.openings = 0

    def ask(self, now: Instant, question: Callable[[sqlite3.Connection], T]) -> T:
        """Raises DispatchError."""
        deadline_s = time.monotonic() + self._busy_max_ms / 1000
        for attempt in itertools.count(1):
            try:
                return question(self._usable(now))
            except sqlite3.Error as error:
                self.close()
                if time.monotonic() >= deadline_s or not self._can_be_mended(error, attempt):
                    raise self._error(error) from error
            except OSError as error:
                raise self._error(error) from error
            time.sleep(_RETRY_S)
        raise AssertionError("it is tried until the deadline")

    def transact(self, now: Instant, work: Callable[[sqlite3.Connection], T]) -> T:
        """All of it or nothing."""
        return self.ask(now, lambda connection: _transacted(connection, work))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        held, self._held = self._held, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if held is not None:
            held.release()

    def _usable(self, now: Instant) -> sqlite3.Connection:
        # Somebody deleted the file: what is written to the one that has no name any more nobody else would see.
        if self._connection is not None and not self._is_the_one_there():
            self._leave()
        if self._connection is None:
            with _alone(self._path, self._busy_max_ms > 0):
                self._connection = _opened_or_anew(self._path, self._busy_max_ms, now)
                self._identity = _identity(self._path)
                self._held = _held(self._path)
            self.openings += 1
        return self._connection

    def _leave(self) -> None:
        """What was made while somebody deleted the rest may stand on a log or an index without a name. To open it again
        would not help: SQLite shares its index among all connections of a process, and others have another one by now.
        So it is set aside, and everybody follows to a new one."""
        with _alone(self._path, self._busy_max_ms > 0):
            now = _identity(self._path)
            if self._identity != now and self._identity[0] and self._identity[0] == now[0]:
                _set_aside(self._path)
        self.close()

    def _can_be_mended(self, error: sqlite3.Error, attempt: int) -> bool:
        """By opening it again: it was damaged, replaced meanwhile, or somebody makes it at this moment (two processes
        that switch a new file to WAL at once: SQLite refuses one of them without waiting)."""
        if _is_damage(error):
            with contextlib.suppress(OSError), _alone(self._path, self._busy_max_ms > 0):
                # Its log is gone by now, if nobody else has it open.
                if self._identity[:1] == (_place(self._path),):
                    _set_aside(self._path)
            return True
        if _code(error) == sqlite3.SQLITE_BUSY:
            return True
        # Also what happens while somebody deletes it; what stays so is the disk's fault.
        return _code(error) in _GONE and (attempt < _ATTEMPTS_MAX or not self._is_the_one_there())

    def _is_the_one_there(self) -> bool:
        return all(self._identity) and self._identity == _identity(self._path)

    def _error(self, error: sqlite3.Error | OSError) -> DispatchError:
        what = (
            hint_for(error) if isinstance(error, OSError) else "Make its folder writable and free some space."
        )
        words = shortage(self._path.parent) or str(error)
        return DispatchError(
            f"the queue {self._path} cannot be used: {words}",
            hint=f"{what} The file may be deleted at any time: a new one is made.",
        )


def _transacted(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        value = work(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return value


@contextlib.contextmanager
def _alone(path: Path, waits: bool) -> Iterator[None]:
    """Among those who make the file or put it away. Raises BlockingIOError where nobody may wait."""
    make_folder(path.parent)
    lock = open_own(_beside(path, ".lock"))
    deadline_s = time.monotonic() + _TURN_MAX_S
    try:
        # Who holds it for long is frozen: then SQLite's own locks must do.
        while not _is_locked(lock, waits) and time.monotonic() < deadline_s:
            time.sleep(_RETRY_S)
        yield
    finally:
        os.close(lock)


def _is_locked(lock: int, waits: bool) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not waits:
            raise
        return False
    return True


def _opened_or_anew(path: Path, busy_max_ms: int, now: Instant) -> sqlite3.Connection:
    try:
        return _opened(path, busy_max_ms, now)
    except sqlite3.Error as error:
        if not _is_damage(error):
            raise
        _set_aside(path)
    return _opened(path, busy_max_ms, now)


def _opened(path: Path, busy_max_ms: int, now: Instant) -> sqlite3.Connection:
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=busy_max_ms / 1000,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        _prepare(connection, now)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, now: Instant) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A power cut may take the last hints with it: the sweeper finds the runs in the ledger.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
    if not _is_current(connection, now):
        _transacted(connection, lambda _: _make(connection, now))


def _is_current(connection: sqlite3.Connection, now: Instant) -> bool:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    boot: object = connection.execute(_Q["boot"]).fetchone() if version == SCHEMA_VERSION else None
    return boot == (now.boot_id,)


def _make(connection: sqlite3.Connection, now: Instant) -> None:
    """Asked again under the lock: another process may have made it meanwhile."""
    if _is_current(connection, now):
        return
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        connection.execute(_Q["rebooted"], {"wall_us": now.wall_us, "boot_us": now.boot_us})
        connection.execute(_Q["set_boot"], (now.boot_id,))
        return
    # Of another version: its hints are not worth a migration.
    for table in ("hints", "marks"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    for statement in sql_file("local_schema.sql").split(";\n"):
        connection.execute(statement)
    # From a number of its own: whoever remembers one of an older file must not find the same here.
    connection.execute(_Q["begin_marks"], (now.boot_id, secrets.randbits(48)))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _held(path: Path) -> HeldDatabase | None:
    """None if the file was deleted at this moment; the next call notices that."""
    try:
        held = HeldDatabase(path)
    except OSError:
        return None
    held.opened()
    return held


def _identity(path: Path) -> tuple[tuple[int, ...], ...]:
    """Of the file, its log and its index: with another of them it is another database. Empty: one that is missing."""
    return _place(path), *(_place(_beside(path, suffix)) for suffix in _COMPANIONS)


def _place(path: Path) -> tuple[int, ...]:
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_dev, stat.st_ino


def _set_aside(path: Path) -> None:
    """One such file is kept, for whoever wants to know."""
    with contextlib.suppress(OSError):
        path.replace(_beside(path, ".damaged"))
    for suffix in _COMPANIONS:
        with contextlib.suppress(OSError):
            _beside(path, suffix).unlink()


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _is_damage(error: sqlite3.Error) -> bool:
    # Somebody deleted its log, and with it the pages that were not copied yet: it is too short, or lacks a table.
    too_short = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ
    return too_short or str(error).startswith("no such table") or _code(error) in _DAMAGED


def _code(error: sqlite3.Error) -> int:
    # Extended codes keep the primary one in the low byte; the module's own errors carry none.
    code: int = getattr(error, "sqlite_errorcode", 0) or 0
    return code & 0xFF
