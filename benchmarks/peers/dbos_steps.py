"""Durable trivial steps of DBOS on SQLite. Run by an environment that has DBOS; prints one JSON document."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from dbos import DBOS  # type: ignore[import-not-found]

folder = Path(sys.argv[1])
DBOS(
    config={
        "name": "bench",
        "system_database_url": f"sqlite:///{folder}/dbos.sqlite",
        "run_admin_server": False,
        "log_level": "ERROR",
    }
)


@DBOS.step()  # type: ignore[untyped-decorator]
def trivial(number: int) -> int:
    return number


@DBOS.workflow()  # type: ignore[untyped-decorator]
def plan(steps: int) -> int:
    return sum(trivial(number) for number in range(steps))


@DBOS.step()  # type: ignore[untyped-decorator]
async def trivial_async(number: int) -> int:
    return number


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def plan_async(steps: int) -> int:
    return sum([await trivial_async(number) for number in range(steps)])


def one(steps: int) -> float:
    began = time.perf_counter()
    plan(steps)
    return steps / (time.perf_counter() - began)


def many_in_threads(runs: int, steps: int) -> float:
    began = time.perf_counter()
    for handle in [DBOS.start_workflow(plan, steps) for _ in range(runs)]:
        handle.get_result()
    return runs * steps / (time.perf_counter() - began)


async def many_in_tasks(runs: int, steps: int) -> float:
    began = time.perf_counter()
    await asyncio.gather(*[plan_async(steps) for _ in range(runs)])
    return runs * steps / (time.perf_counter() - began)


DBOS.launch()
one(5)
single = one(100)
threads = many_in_threads(50, 20)
tasks = asyncio.run(many_in_tasks(50, 20))
print(json.dumps({"one": single, "many": max(threads, tasks)}))
DBOS.destroy()
