"""Cost of supervising a process tree, compared with starting the process plainly."""

from __future__ import annotations

import asyncio
import os
import time

from benchmarks.report import Figure, against, of_rounds, scaled
from recoup.clock import SystemClock
from recoup.engine.lease import LeaseLifeline
from recoup.model.ids import ProcessIdentity
from recoup.model.process import EndedBy, ProcessSpec
from recoup.processes.keeper import LinuxKeeper

ROUNDS = scaled(40, 5)


def run() -> list[Figure]:
    return asyncio.run(measure())


async def measure() -> list[Figure]:
    kept, plain = [], []
    for _ in range(ROUNDS):
        kept.append(await kept_ms())
        plain.append(await plain_ms())
    costs = [k - p for k, p in zip(kept, plain, strict=True)]
    bare = against("a plain subprocess", kept, plain, at_most=True, bare=True)
    return [
        of_rounds("a supervised process that does nothing", kept, "ms", at_most=True, peers=[bare]),
        of_rounds("the keeper's cost", costs, "ms", bar=60, at_most=True),
    ]


async def kept_ms() -> float:
    spec = ProcessSpec(
        argv=("true",),
        cwd="/",
        env=dict(os.environ),
        wall_timeout_s=60,
        idle_timeout_s=60,
        processes_max=4_096,
        memory_max_bytes=0,
    )
    lifeline = LeaseLifeline(SystemClock().now().boot_us / 1e6 + 60)
    began = time.perf_counter()
    ended = await LinuxKeeper().keep(
        spec, before_exec=at_once, lifeline=lifeline, output=lambda _name, _chunk: None, stop=asyncio.Event()
    )
    assert ended.ended_by is EndedBy.EXIT
    return 1000 * (time.perf_counter() - began)


async def plain_ms() -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    return 1000 * (time.perf_counter() - began)


async def at_once(_keeper: ProcessIdentity) -> None:
    """Nothing to record."""
