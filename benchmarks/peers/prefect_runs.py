"""Runs of Prefect: its server on SQLite in a process of its own, flows in this one. `prefect_runs FOLDER`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.restate_runs import free_ports
from benchmarks.peers.workload import measure, trivial

START_MAX_S = 120.0
LOOK_S = 0.1
AT_ONCE = 10
"""More at once make its server refuse some: SQLite has one writer."""


def main() -> None:
    with started(Path(sys.argv[1])) as url:
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

    await measure(lambda: work(1), work, at_once=AT_ONCE)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[str]:
    """The address of the server's API, when it answers."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/api"
    os.environ.update(
        PREFECT_HOME=str(folder / "prefect"),
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
        PREFECT_LOGGING_LEVEL="CRITICAL",
        PREFECT_LOGGING_TO_API_ENABLED="false",
        PREFECT_SERVER_UI_ENABLED="false",
        DO_NOT_TRACK="1",
    )
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until_healthy(url)
        yield url
    finally:
        child.terminate()
        child.wait(60)


def until_healthy(url: str) -> None:
    end = time.monotonic() + START_MAX_S
    while True:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
