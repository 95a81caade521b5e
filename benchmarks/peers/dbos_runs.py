"""Runs of DBOS, in this process, on SQLite or PostgreSQL: `BENCH_DATABASE=URL dbos_runs`."""

from __future__ import annotations

import asyncio
import os

from dbos import DBOS  # type: ignore[import-not-found]

from benchmarks.peers.workload import measure, trivial

DBOS(
    config={
        "name": "bench",
        "system_database_url": os.environ["BENCH_DATABASE"],
        "run_admin_server": False,
        "log_level": "ERROR",
    }
)


@DBOS.step()  # type: ignore[untyped-decorator]
async def step(number: int) -> int:
    return trivial(number)


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def work(count: int) -> int:
    return sum([await step(number) for number in range(count)])


if __name__ == "__main__":
    DBOS.launch()
    asyncio.run(measure(lambda: work(1), work))
    DBOS.destroy()
