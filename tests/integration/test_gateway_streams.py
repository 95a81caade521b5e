"""Many who watch, on a real server: everybody is told, nobody misses anything, and nobody makes it grow."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.integration.gateway_house import Gateway, gateway
from tests.integration.stream_house import Client, Crowd, a_run, all_are_told, crowd, rss_bytes, until, write
from tests.keys import KEY, TOKEN

from recoup.gateway.access import Role
from recoup.gateway.book import Book
from recoup.gateway.limits import STREAMS_MAX
from recoup.gateway.serving import CONNECTIONS_MAX, OTHER_FILES_MAX, few_streams, streams_for
from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.ledger.sqlite import SqliteLedger
from recoup.ports import Ledger
from recoup.testing.postgres import PostgresServer

STREAM_BYTES_MAX = 60_000
"""Of memory, for one who only watches; measured: 27,000."""
BURST = 20_000


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("streams") / "home", "--workers", "1") as served:
        yield served


@pytest.fixture
async def ledger(house: Gateway) -> AsyncIterator[Ledger]:
    made = SqliteLedger(house.home / "ledger.db")
    yield made
    await made.close()


@pytest.fixture
async def watching(house: Gateway) -> AsyncIterator[Crowd]:
    async with crowd(house) as made:
        yield made


async def test_an_event_reaches_everybody_soon_and_each_costs_little(house: Gateway, ledger: Ledger) -> None:
    each_bytes, took_s = await all_are_told(house, ledger, 200)
    assert each_bytes < STREAM_BYTES_MAX
    assert took_s[len(took_s) // 2] < 0.5, "measured: 0.03"


@pytest.mark.soak
async def test_a_thousand_watch_and_all_are_told(house: Gateway, ledger: Ledger) -> None:
    """How soon, and what they cost while nothing happens, is measured by the benchmark `streams`."""
    each_bytes, took_s = await all_are_told(house, ledger, 1_000)
    assert each_bytes < STREAM_BYTES_MAX
    assert len(took_s) >= 1_000
    with house.client() as client:
        assert client.get("/api/runs").status_code == 200


async def test_a_burst_arrives_completely_and_in_order_while_consoles_hear_little_of_it(
    house: Gateway, ledger: Ledger, watching: Crowd
) -> None:
    run_id = await a_run(house)
    events: list[int] = []
    heard: list[dict[str, Any]] = []
    await watching.join(
        1,
        f"/api/runs/{run_id}/events/stream",
        lambda _c, _e, place, data: events.append(data["seq"] * (int(place) == data["seq"])),
    )

    def hear(_client: Client, event: str, _place: str, data: Any) -> None:
        if event == "arrivals":
            heard.append(data)

    await watching.join(1, "/api/stream", hear)
    await watching.join(1, f"/api/stream?run={run_id}")
    before = rss_bytes(house.process.pid)
    began_s = time.monotonic()
    await write(ledger, run_id, BURST)
    await until(lambda: len(events) == BURST + 1 and heard[-1]["seq"] == BURST + 1, 60)
    took_s = time.monotonic() - began_s
    assert events == list(range(1, BURST + 2))
    about = [one for one in heard if one["run"] == run_id]
    assert len(about) <= took_s / 0.1 + 2
    assert sum(one["count"] for one in about) in (BURST, BURST + 1)
    assert {one["workflow"] for one in about} == {"tiny"}
    assert about[-1]["type"] == "task.run.interrupted"
    assert rss_bytes(house.process.pid) - before < 60_000_000
    await until(lambda: watching.clients[-1].last == watching.clients[-2].last)


async def test_a_console_may_hear_of_one_run_alone_and_comes_back_where_it_was(
    house: Gateway, ledger: Ledger, watching: Crowd
) -> None:
    one, other = await a_run(house), await a_run(house)
    heard: list[tuple[str, str]] = []

    def seen(_client: Client, event: str, _place: str, data: Any) -> None:
        heard.append((event, data.get("run", "")))

    (console,) = await watching.join(1, f"/api/stream?run={one}", seen)
    await until(lambda: console.last)
    assert heard[0] == ("place", ""), "it begins at the present, and says where that is"
    begun = len(heard)  # a slow gateway may still tell how the run began
    await write(ledger, other, 3)
    await write(ledger, one, 1)
    await until(lambda: ("arrivals", one) in heard[begun:])
    assert ("arrivals", other) not in heard
    console.transport.abort()
    await write(ledger, one, 2)
    heard.clear()
    (back,) = await watching.join(1, f"/api/stream?run={one}", seen, console.last)
    await until(lambda: heard)
    assert heard[0] == ("arrivals", one) and int(back.last) > int(console.last)


async def test_who_does_not_read_is_dropped_and_comes_back_without_loss(tmp_path: Path) -> None:
    child = "tests.integration.impatient_gateway_child"
    with gateway(tmp_path / "home", module=child) as house:
        run_id = await a_run(house)
        ledger = SqliteLedger(house.home / "ledger.db")
        path = f"/api/runs/{run_id}/events/stream"
        before, open_before = rss_bytes(house.process.pid), sockets(house.process.pid)
        async with crowd(house) as watching, contextlib.AsyncExitStack() as closing:
            deaf = [closing.enter_context(unread(house, path)) for _ in range(20)]
            events: list[int] = []
            await watching.join(1, path, lambda _c, _e, _p, data: events.append(data["seq"]))
            await write(ledger, run_id, 5_000, "x" * 400)
            await until(lambda: len(events) == 5_001)
            grown = rss_bytes(house.process.pid) - before
            assert grown < 60_000_000, "the ring, and a buffer for each"
            # Whoever does not read is not told either: the gateway has only that of the other one left.
            await until(lambda: sockets(house.process.pid) <= open_before + 1)
            seen = [await asyncio.to_thread(read_all, one) for one in deaf]
            assert all(0 < len(one) < 5_001 for one in seen), "each was cut off"
            rest: list[int] = []
            await watching.join(1, path, lambda _c, _e, p, _d: rest.append(int(p)), str(seen[0][-1]))
            await until(lambda: rest and rest[-1] == 5_001)
            assert seen[0] + rest == list(range(1, 5_002))
        await ledger.close()


def sockets(pid: int) -> int:
    """How many a process has open."""
    found = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += str(one.readlink()).startswith("socket:")
    return found


def unread(house: Gateway, path: str) -> socket.socket:
    place = urlsplit(house.url)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.connect((place.hostname, place.port))
    token = house.tokens["operator"]
    made.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    return made


def read_all(one: socket.socket) -> list[int]:
    """The places of all messages that came whole, until it is cut off."""
    one.settimeout(10)
    raw = bytearray()
    with one, contextlib.suppress(ConnectionError):
        while piece := one.recv(1 << 20):
            raw += piece
    whole = raw.decode().split("\n\n")[:-1]
    found = [line for message in whole for line in message.splitlines() if line.startswith("id: ")]
    return [int(line.removeprefix("id: ")) for line in found]


async def test_a_restart_in_between_loses_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    events: list[int] = []
    numbers: list[int] = []
    with gateway(home) as house:
        run_id = await a_run(house)
        tokens = house.tokens
        path = f"/api/runs/{run_id}/events/stream"
        ledger = SqliteLedger(home / "ledger.db")
        async with crowd(house) as watching:
            (one,) = await watching.join(1, path, lambda _c, _e, _p, data: events.append(data["seq"]))
            (other,) = await watching.join(
                1, "/api/events/stream", lambda _c, _e, place, _d: numbers.append(int(place))
            )
            await write(ledger, run_id, 700)
            await until(lambda: len(events) > 300)
            house.process.kill()
            await one.gone.wait()
            await other.gone.wait()
    await write(ledger, run_id, 700)
    with gateway(home) as house:
        house.tokens.update(tokens)
        async with crowd(house) as watching:
            await watching.join(1, path, lambda _c, _e, _p, data: events.append(data["seq"]), one.last)
            await watching.join(
                *(1, "/api/events/stream"),
                lambda _c, _e, place, _d: numbers.append(int(place)),
                other.last,
            )
            await write(ledger, run_id, 10)
            await until(lambda: events[-1] == 1_411)
            came = [one.number for one in await ledger.arrivals()]
            await until(lambda: numbers[-1] == came[-1])
    await ledger.close()
    assert events == list(range(1, 1_412))
    assert numbers == came


async def test_a_log_is_told_as_it_grows_to_many(house: Gateway, watching: Crowd) -> None:
    plan = "{version: 1, name: talk, steps: [{id: a, run: 'echo one; sleep 0.4; echo two'}]}"
    run_id = await asyncio.to_thread(lambda: house.submit(plan))
    pieces: dict[Client, str] = {}
    ended: set[Client] = set()

    def seen(client: Client, event: str, _place: str, data: Any) -> None:
        pieces[client] = pieces.get(client, "") + data.get("log", "")
        if event == "end":
            ended.add(client)

    came = await watching.join(20, f"/api/runs/{run_id}/logs/a/stream", seen)
    await until(lambda: len(ended) == len(came))
    with house.client() as client:
        whole = client.get(f"/api/runs/{run_id}/logs/a").json()["log"]
    assert set(pieces.values()) == {whole} and "two" in whole


async def test_it_is_as_quick_on_postgresql(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.prepared_database()
    env = {"RECOUP_DATABASE": url, "RECOUP_TOKEN": TOKEN, "RECOUP_KEY": KEY}
    with gateway(tmp_path / "home", env=env) as house:
        house.tokens["operator"] = env["RECOUP_TOKEN"]
        ledger = await PostgresLedger.open(url)
        _, took_s = await all_are_told(house, ledger, 40)
        assert took_s[len(took_s) // 2] < 0.5, "measured: 0.03"
        await ledger.close()


def test_where_few_files_may_be_open_there_are_fewer_streams() -> None:
    assert streams_for(CONNECTIONS_MAX + OTHER_FILES_MAX) == STREAMS_MAX
    assert streams_for(1_024) == 1_024 - OTHER_FILES_MAX - (CONNECTIONS_MAX - STREAMS_MAX)
    assert streams_for(100) == 0
    assert CONNECTIONS_MAX - STREAMS_MAX >= 300, "streams leave ordinary requests their room"
    assert not few_streams(STREAMS_MAX) and "ulimit" in few_streams(224)


def test_a_process_that_stays_raises_its_limit_of_files_where_it_may() -> None:
    code = (
        "import resource as r; n = r.RLIMIT_NOFILE; r.setrlimit(n, (300, {hard})); "
        "from recoup.standing import room_for_files; print(room_for_files({wanted}), r.getrlimit(n)[0])"
    )
    wanted = CONNECTIONS_MAX + OTHER_FILES_MAX
    for hard, told in (("r.getrlimit(n)[1]", wanted), ("700", 700)):
        argv = [sys.executable, "-c", code.format(hard=hard, wanted=wanted)]
        printed = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
        assert printed.split() == [str(told)] * 2


async def test_who_comes_when_nobody_watched_misses_nothing(
    house: Gateway, ledger: Ledger, watching: Crowd
) -> None:
    """The tail rests meanwhile, and what it remembers is old."""
    run_id = await a_run(house)
    (first,) = await watching.join(1, "/api/stream")
    await until(lambda: first.last)
    for number, path in enumerate((f"/api/stream?run={run_id}", "/api/events/stream"), 2):
        watching.leave()
        await asyncio.sleep(0.1)
        await write(ledger, run_id, 1)
        heard: list[int] = []
        await watching.join(1, path, lambda _c, _e, _p, data, h=heard: h.append(data.get("seq")), first.last)  # type: ignore[misc]
        await until(lambda h=heard: number in h)  # noqa: B023


@pytest.mark.parametrize("by", ["token", "session"])
async def test_nothing_is_told_to_whoever_may_not_look_any_more(
    house: Gateway, ledger: Ledger, by: str
) -> None:
    run_id = await a_run(house)
    with contextlib.closing(Book(house.home / "gateway.db", time.time)) as book, house.client(None) as client:
        token = book.make(Role.VIEWER, "board", "2026-11-16T00:00:00Z", f"tok-{by}")
        csrf = ""
        if by == "token":
            client.headers["Authorization"] = f"Bearer {token}"
        else:
            csrf = client.post("/api/session", json={"token": token}).json()["csrf"]
        with client.stream("GET", f"/api/runs/{run_id}/events/stream?after=1") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "retry: 1000"
            if by == "token":
                book.revoke("tok-token", "2026-11-17T00:00:00Z")
            else:
                assert client.post("/api/session/end", headers={"X-CSRF-Token": csrf}).status_code == 200
            await write(ledger, run_id, 1)
            assert not "".join(lines), "it ends, and says nothing"
