"""Runs of Prefect: its server on SQLite in a process of its own, flows in this one. `prefect_runs FOLDER`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.servers import free_ports, serving, until_answered
from benchmarks.peers.workload import measure, trivial


def main() -> None:
    with started(Path(sys.argv[1]).resolve()) as url:
        os.environ["PREFECT_API_URL"] = url
        asyncio.run(ask())


async def ask() -> None:
    from prefect import flow, task  # type: ignore[import-not-found]

    @task  # type: ignore[untyped-decorator]
    async def step(number: int) -> int:
        return trivial(number)

    @flow  # type: ignore[untyped-decorator]
    async def work(count: int) -> int:
        return sum([await step(number) for number in range(count)])

    await measure(lambda: work(1), work)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[str]:
    """The address of the server's API, when it answers."""
    [port] = free_ports(1)
    os.environ.update(
        PREFECT_HOME=str(folder / "prefect"),
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
        PREFECT_LOGGING_LEVEL="CRITICAL",
        PREFECT_LOGGING_TO_API_ENABLED="false",
        PREFECT_SERVER_UI_ENABLED="false",
        DO_NOT_TRACK="1",
    )
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with serving(command, folder / "server.log", os.environ):
        until_answered(f"http://127.0.0.1:{port}/api/health")
        yield f"http://127.0.0.1:{port}/api"


if __name__ == "__main__":
    main()
