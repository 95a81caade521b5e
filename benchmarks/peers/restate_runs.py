"""Runs of Restate: its server, a service in a process of its own, a client over HTTP. `restate_runs FOLDER SERVER`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.servers import free_ports, serving, until_answered
from benchmarks.peers.workload import AT_ONCE, measure, trivial


def main() -> None:
    if sys.argv[1] == "serve":
        asyncio.run(serve(int(sys.argv[2])))
    else:
        with started(Path(sys.argv[1]).resolve(), Path(sys.argv[2])) as port:
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
    config.h2_max_concurrent_streams = 2**31 - 1  # as its documents have it for production
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
def started(folder: Path, server: Path) -> Iterator[int]:
    """The port at which runs are submitted, when the server knows the service."""
    ingress, admin, node, service = free_ports(4)
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
    served = [sys.executable, "-m", "benchmarks.peers.restate_runs", "serve", str(service)]
    address = json.dumps({"uri": f"http://127.0.0.1:{service}"}).encode()
    register = urllib.request.Request(
        f"http://127.0.0.1:{admin}/deployments", address, {"Content-Type": "application/json"}
    )
    with (
        serving([server, "--no-logo"], folder / "server.log", {**os.environ, **settings}),
        serving(served, folder / "service.log", os.environ),
    ):
        until_answered(register)
        yield ingress


if __name__ == "__main__":
    main()
