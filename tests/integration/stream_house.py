"""Many clients of streams in one process, on bare sockets; and a writer into the same ledger, as another process is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.integration.gateway_house import Gateway

from recoup.gateway.serving import PLACES
from recoup.model import events as ev
from recoup.model.ids import run_stream
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.ports import Ledger
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.ledger_suite import START

TINY = "{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}"
AT_ONCE = PLACES.unproven_of_sender_max // 2
"""So many come before the first of them was answered: of more that have shown no token yet, a slow gateway drops some."""
seal = SecretRedactor().seal


class Client(asyncio.Protocol):
    """One who watches. Keeps what came, and when; or nothing, if it is told to stop reading."""

    def __init__(self, request: bytes, seen: Callable[[Client, str, str, Any], None]) -> None:
        self._request, self._seen = request, seen
        self._rest = b""
        self.status = 0
        self.last = ""
        self.open = asyncio.Event()
        self.gone = asyncio.Event()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.status = self.status or int(data.split()[1])
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        for one in whole:
            self._take(one)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open.set()
        self.gone.set()

    def _take(self, raw: bytes) -> None:
        self.open.set()
        told = dict(line.split(": ", 1) for line in raw.decode().splitlines() if ": " in line)
        if "id" in told:
            self.last = told["id"]
            self._seen(self, told["event"], told["id"], json.loads(told["data"]))


@dataclass
class Crowd:
    """Who watches one gateway."""

    gateway: Gateway
    clients: list[Client] = field(default_factory=list)

    async def join(
        self,
        count: int,
        path: str,
        seen: Callable[[Client, str, str, Any], None] = lambda *_: None,
        last: str | None = None,
        role: str = "operator",
    ) -> list[Client]:
        came: list[Client] = []
        while len(came) < count:
            group = [await self._one(path, seen, last, role) for _ in range(min(AT_ONCE, count - len(came)))]
            async with asyncio.timeout(60):
                for one in group:
                    await one.open.wait()
            statuses = Counter(one.status for one in group)
            assert statuses == {200: len(group)}, f"after {len(self.clients)}: {statuses}"
            came += group
        return came

    async def _one(self, path: str, seen: Callable[..., None], last: str | None, role: str) -> Client:
        place = urlsplit(self.gateway.url)
        assert place.hostname and place.port
        again = "" if last is None else f"Last-Event-ID: {last}\r\n"
        token = self.gateway.tokens[role]
        head = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}\r\n{again}\r\n"
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(
            lambda: Client(head.encode(), seen), place.hostname, place.port
        )
        self.clients.append(made)
        return made

    def leave(self) -> None:
        for one in self.clients:
            one.transport.abort()
        self.clients.clear()


@contextlib.asynccontextmanager
async def crowd(gateway: Gateway) -> AsyncIterator[Crowd]:
    made = Crowd(gateway)
    try:
        yield made
    finally:
        made.leave()


async def write(ledger: Ledger, run_id: str, count: int, words: str = "") -> None:
    """So many facts more of a run that nobody drives."""
    fact = Draft(ev.RunInterrupted.TYPE, seal(ev.RunInterrupted(epoch=1, reason=words)))
    while count > 0:
        drafts = (fact,) * min(count, 500)
        await ledger.append(Append(at=START, streams=(StreamAppend(run_stream(run_id), drafts),)))
        count -= len(drafts)


def rss_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / 100


async def a_run(house: Gateway) -> str:
    """That nobody drives."""
    return await asyncio.to_thread(lambda: house.submit(TINY, queue="nobody"))


async def until(happened: Any, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not happened():
            await asyncio.sleep(0.005)


async def all_are_told(house: Gateway, ledger: Ledger, count: int) -> tuple[float, list[float]]:
    """Bytes for each who watches, and how long each of a few events took to each of them."""
    run_id = await a_run(house)
    paths = [f"/api/runs/{run_id}/events/stream", "/api/events/stream", "/api/stream", "/api/runs/stream"]
    told: Counter[Client] = Counter()
    took_s: list[float] = []
    sent_s = time.monotonic()

    def seen(client: Client, event: str, _place: str, data: Any) -> None:
        if event != "place" and run_id in (data.get("runId"), data.get("run")):
            told[client] += 1
            took_s.append(time.monotonic() - sent_s)

    async with crowd(house) as watching:
        place = await asyncio.to_thread(last_place, house)
        # With another token, where there is one: the others may be as many as one token may have.
        await watching.join(2, "/api/stream", role="viewer" if "viewer" in house.tokens else "operator")
        before = rss_bytes(house.process.pid)
        for path in paths:
            begin = "1" if "/events/stream" in path and "runs" in path else place
            await watching.join(count // len(paths), path, seen, begin)
        each = (rss_bytes(house.process.pid) - before) / count
        await asyncio.sleep(0.2)
        for _ in range(3):
            told.clear()
            took_s.clear()
            sent_s = time.monotonic()
            await write(ledger, run_id, 1)
            await until(lambda: len(told) == count)
            await asyncio.sleep(0.15)
    return each, sorted(took_s)


def last_place(house: Gateway) -> str:
    """Of the event that came last."""
    with house.client() as client, client.stream("GET", "/api/stream") as answer:
        line = next(line for line in answer.iter_lines() if line.startswith("id: "))
    return line.removeprefix("id: ")
