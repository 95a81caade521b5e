"""Runs of Restate: its server, a service in a process of its own, and a client over HTTP. `restate_runs SERVER FOLDER`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.workload import AT_ONCE, measure, trivial

START_MAX_S = 60.0
LOOK_S = 0.05


def main() -> None:
    if sys.argv[1] == "serve":
        asyncio.run(serve(int(sys.argv[2])))
    else:
        with started(Path(sys.argv[1]), Path(sys.argv[2])) as port:
            asyncio.run(ask(port))


async def serve(port: int) -> None:
    import hypercorn.asyncio  # type: ignore[import-not-found]
    import restate  # type: ignore[import-not-found]

    service = restate.Service("bench")

    @service.handler()  # type: ignore[untyped-decorator]
    async def work(context: Any, count: int) -> int:
        return sum([await context.run_typed("step", trivial, number=number) for number in range(count)])

    config = hypercorn.Config()
    config.bind, config.loglevel = [f"127.0.0.1:{port}"], "ERROR"
    config.h2_max_concurrent_streams = 2**31 - 1
    await hypercorn.asyncio.serve(restate.app(services=[service]), config)


async def ask(port: int) -> None:
    lines: asyncio.Queue[Line] = asyncio.Queue()
    for _ in range(AT_ONCE):
        lines.put_nowait(Line(*await asyncio.open_connection("127.0.0.1", port)))

    async def steps(count: int) -> None:
        line = await lines.get()
        await line.post("/bench/work", count)
        lines.put_nowait(line)

    await measure(lambda: steps(1), steps)


class Line:
    """A connection that is kept, with as little work for the client as possible: it shares the machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def post(self, path: str, document: object) -> None:
        body = json.dumps(document).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        said = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        assert b" 200 " in said[:20], said
        [length] = [line for line in said.split(b"\r\n") if line.startswith(b"content-length")]
        await self._reader.readexactly(int(length.split(b":")[1]))


@contextlib.contextmanager
def started(server: Path, folder: Path) -> Iterator[int]:
    """The port at which runs are submitted, when the server knows the service."""
    ports = free_ports(4)
    ingress, admin, node, service = ports
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    settings = {
        "RESTATE_BASE_DIR": str(folder / "restate"),
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_BIND_PORT": str(node),
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "error",
        "DO_NOT_TRACK": "1",
    }
    module = ["-m", "benchmarks.peers.restate_runs", "serve", str(service)]
    children = [
        subprocess.Popen([server, "--no-logo"], cwd=folder, env={**os.environ, **settings}, **quiet),  # type: ignore[call-overload]
        subprocess.Popen([sys.executable, *module], **quiet),  # type: ignore[call-overload]
    ]
    try:
        until_open(service)
        until_registered(admin, service)
        yield ingress
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(30)


def until_registered(admin: int, service: int) -> None:
    until_open(admin)
    body = json.dumps({"uri": f"http://127.0.0.1:{service}"}).encode()
    asked = urllib.request.Request(
        f"http://127.0.0.1:{admin}/deployments", body, {"Content-Type": "application/json"}
    )
    end = time.monotonic() + START_MAX_S
    while True:
        try:
            urllib.request.urlopen(asked, timeout=START_MAX_S).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK_S)


def until_open(port: int) -> None:
    end = time.monotonic() + START_MAX_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK_S)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


if __name__ == "__main__":
    main()
