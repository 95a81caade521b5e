"""Commands that begin while PostgreSQL is away: those that stay wait for it, the others say so and end with 75."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from tests.commands import Started
from tests.keys import TOKEN
from tests.scenario.conftest import Cli
from tests.scenario.fleets import QUICK, eventually
from tests.scenario.test_fleet import TWO

from recoup.errors import LedgerAway
from recoup.standing import when_there
from recoup.testing.postgres import PostgresServer, postgres_server

AWAY = 75


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresServer]:
    with postgres_server(own=True) as server:
        yield server


@pytest.fixture
def fleet(cli: Cli, mortal: PostgresServer) -> Cli:
    cli.env |= {"RECOUP_DATABASE": mortal.prepared_database(), "JOURNAL": "/dev/null", **QUICK}
    return cli


def line_with(words: str, process: Started, stream: str = "stderr") -> str:
    """The first line with these words. Waits for it."""
    for line in getattr(process, stream):
        if words in line:
            return str(line)
    raise AssertionError(f"it ended without a word of {words!r}")


@contextmanager
def silent_server() -> Iterator[int]:
    """Accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    kept.append(listening.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        for one in kept:
            one.close()


def test_a_worker_that_starts_before_its_database_waits_for_it(fleet: Cli, mortal: PostgresServer) -> None:
    run_id = fleet("submit", fleet.plan(TWO)).out.strip()
    mortal.kill()
    try:
        worker = fleet.start("worker")
        told = line_with("waiting", worker)
        assert "postgresql://" in told and "See that the server runs" in told
    finally:
        mortal.start()
    assert eventually(lambda: fleet("show", run_id, "--json").json["status"] == "succeeded", 90)


@pytest.mark.parametrize("command", [("worker",), ("serve", "--port", "0")], ids=["worker", "gateway"])
def test_what_waits_for_its_database_ends_at_once_when_it_is_told_to(
    fleet: Cli, mortal: PostgresServer, command: tuple[str, ...]
) -> None:
    mortal.kill()
    try:
        waiting = fleet.start(*command)
        line_with("waiting", waiting)
        waiting.terminate()
        assert waiting.wait(timeout=30) == 0
    finally:
        mortal.start()


def test_a_gateway_that_starts_before_its_database_waits_for_it(fleet: Cli, mortal: PostgresServer) -> None:
    mortal.kill()
    try:
        gateway = fleet.start("serve", "--port", "0")
        line_with("waiting", gateway)
    finally:
        mortal.start()
    line_with("serving on", gateway)


def test_a_probe_that_starts_before_its_database_waits_for_it(fleet: Cli, mortal: PostgresServer) -> None:
    file = fleet.plan(
        "{version: 1, id: p, resources: [{id: r, process: {command: [sh, -c, 'touch ran; exec sleep 99']}}]}",
        "probe.yaml",
    )
    mortal.kill()
    try:
        probe = fleet.start("probe", "run", file)
        line_with("waiting", probe)
        assert not (fleet.folder / "ran").exists()
    finally:
        mortal.start()
    assert eventually((fleet.folder / "ran").exists)


@pytest.mark.parametrize("how", [("--http", "--port", "0"), ()], ids=["http", "stdio"])
def test_mcp_that_starts_before_its_database_waits_for_it(
    fleet: Cli, mortal: PostgresServer, how: tuple[str, ...]
) -> None:
    fleet.env["RECOUP_TOKEN"] = TOKEN
    mortal.kill()
    try:
        server = fleet.start("mcp", *how)
        line_with("waiting", server)
    finally:
        mortal.start()
    if how:
        line_with("serving MCP on", server)
    else:
        assert server.wait(timeout=60) == 0, "it is served, and its client says nothing more"


def test_a_wait_with_a_limit_ends_with_the_last_error() -> None:
    """As over stdio, where a client waits for the first answer."""

    async def away() -> None:
        raise LedgerAway("away")

    with pytest.raises(LedgerAway):
        asyncio.run(when_there(away, (LedgerAway,), print, wait_max_s=0))


def test_a_worker_waits_for_a_server_without_a_free_connection(fleet: Cli, mortal: PostgresServer) -> None:
    url = fleet.env["RECOUP_DATABASE"]
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE ROLE busy LOGIN SUPERUSER")
        other.execute("ALTER ROLE busy NOSUPERUSER CONNECTION LIMIT 0")
        other.execute("GRANT postgres TO busy")
        worker = fleet.start("worker", env={"RECOUP_DATABASE": url.replace("postgres@", "busy@", 1)})
        assert "too many connections" in line_with("waiting", worker)
        other.execute("ALTER ROLE busy SUPERUSER CONNECTION LIMIT -1")
    line_with("started", worker)
    assert mortal.is_own


@pytest.mark.parametrize("command", ["submit", "runs", "run"])
def test_a_command_that_does_not_stay_ends_with_75(fleet: Cli, mortal: PostgresServer, command: str) -> None:
    plan = [] if command == "runs" else [fleet.plan(TWO)]
    mortal.kill()
    try:
        ended = fleet(command, *plan)
    finally:
        mortal.start()
    assert ended.code == AWAY, ended.err
    assert "See that the server runs and can be reached" in ended.err


def test_a_server_that_never_answers_is_described(fleet: Cli) -> None:
    with silent_server() as port:
        ended = fleet("runs", env={"RECOUP_DATABASE": f"postgresql://postgres@127.0.0.1:{port}/x"})
    assert ended.code == AWAY
    assert "no answer in time" in ended.err
    assert "see that it is PostgreSQL" in ended.err
    assert "TimeoutError" not in ended.err
