"""The other ends of channels: real servers that a test stops, starts again under the same address, and makes silent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiohttp import WSMsgType, web

from recoup.documents.probe_file import parse_probe
from recoup.model import events as ev
from recoup.model.probe import Phase
from recoup.testing.probe import ProbeHouse


def house_of(root: Path, text: str) -> ProbeHouse:
    """Of a probe file, as people write it."""
    return ProbeHouse(root, *parse_probe(text, folder=root).resources)


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


async def runs(house: ProbeHouse, name: str) -> None:
    await house.until(lambda: house.phase(name) == Phase.RUNNING)


async def recovers(house: ProbeHouse, name: str) -> None:
    await house.until(lambda: house.phase(name) == Phase.RECOVERING)


def attempts(house: ProbeHouse, name: str) -> Sequence[ev.RecoveryAttempted]:
    return [one for one in house.facts(name) if isinstance(one, ev.RecoveryAttempted)]


def failures(house: ProbeHouse, name: str) -> Sequence[ev.RecoveryFailed]:
    return [one for one in house.facts(name) if isinstance(one, ev.RecoveryFailed)]


def last_fault(house: ProbeHouse, name: str) -> ev.PhaseChanged:
    changes = [one for one in house.facts(name) if isinstance(one, ev.PhaseChanged)]
    return next(one for one in reversed(changes) if one.phase == Phase.RECOVERING)


@dataclass(frozen=True)
class Below:
    """One process that rests on another."""

    pid: int
    argv: list[str]


def processes_below(pid: int) -> list[Below]:
    """Children, their children and so on."""
    parents, found = {}, [pid]
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = (folder / "stat").read_text()
            parents[int(folder.name)] = int(status.rpartition(")")[2].split()[1])
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return [Below(one, _argv(one)) for one in found[1:]]


def _argv(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    return []


class Peer(Protocol):
    """One server."""

    @property
    def opened(self) -> int:
        """How many connections it has seen."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """Nobody listens, and every connection is closed."""
        ...


class StreamPeer:
    """Takes connections over TCP, or over a unix socket, and says nothing."""

    def __init__(self, address: int | Path) -> None:
        self._address = address
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self.opened = 0

    async def start(self) -> None:
        if isinstance(self._address, int):
            self._server = await asyncio.start_server(self._take, "127.0.0.1", self._address)
        else:
            self._server = await asyncio.start_unix_server(self._take, self._address)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self._writers.append(writer)
        with contextlib.suppress(OSError):
            await reader.read()


class WebPeer:
    """HTTP at /, a WebSocket at /ws; `mute` makes it take everything and answer nothing."""

    def __init__(self, port: int, *, noisy: bool = False) -> None:
        """`noisy`: it says much of its own, and asks by pings of its own."""
        self._port = port
        self._noisy = noisy
        self._runner: web.AppRunner | None = None
        self._sockets: list[web.WebSocketResponse] = []
        self._transports: set[asyncio.Transport] = set()
        self.mute = asyncio.Event()
        self.asked = 0
        self.pongs = 0

    @property
    def opened(self) -> int:
        return len(self._transports)

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/", self._page)
        app.router.add_get("/ws", self._talk)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, keepalive_timeout=1_000)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def close_idle(self) -> None:
        """Closes every connection, as a server does that keeps none for long."""
        for transport in self._transports:
            transport.close()
        await asyncio.sleep(0.05)  # the loop closes them one after the other

    async def stop(self) -> None:
        for one in self._sockets:
            await one.close()
        self._sockets.clear()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _make_noise(self, talk: web.WebSocketResponse) -> None:
        await talk.send_str("x" * 200_000)
        await talk.send_bytes(bytes(1_000))
        await talk.ping(b"are you there?")

    async def _page(self, request: web.Request) -> web.Response:
        self._note(request)
        self.asked += 1
        while self.mute.is_set():
            await asyncio.sleep(0.05)
        return web.Response(text="here")

    def _note(self, request: web.Request) -> None:
        assert request.transport is not None, "it was just read from"
        self._transports.add(request.transport)

    async def _talk(self, request: web.Request) -> web.WebSocketResponse:
        talk = web.WebSocketResponse(autoping=False)
        await talk.prepare(request)
        self._note(request)
        self._sockets.append(talk)
        if self._noisy:
            await self._make_noise(talk)
        async for message in talk:
            self.asked += 1
            if self.mute.is_set():
                continue
            if message.type == WSMsgType.PONG:
                self.pongs += message.data == b"are you there?"
            elif message.type == WSMsgType.PING:
                await talk.pong(message.data)
            elif message.type == WSMsgType.TEXT:
                asked = message.json()
                await talk.send_json({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601}})
        return talk
