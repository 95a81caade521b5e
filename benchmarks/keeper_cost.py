"""What keeping a process tree costs over starting the process plainly."""

from __future__ import annotations

import asyncio
import os
import time

from benchmarks.report import Figure, median
from recoup.clock import SystemClock
from recoup.engine.lease import LeaseLifeline
from recoup.model.ids import ProcessIdentity
from recoup.model.process import EndedBy, ProcessSpec
from recoup.processes.keeper import LinuxKeeper

ROUNDS = 40


def run() -> list[Figure]:
    return asyncio.run(measure())


async def measure() -> list[Figure]:
    kept, plain = [], []
    for _ in range(ROUNDS):
        kept.append(await kept_ms())
        plain.append(await plain_ms())
    cost = median([k - p for k, p in zip(kept, plain, strict=True)])
    return [
        Figure("a plain subprocess", median(plain), "ms"),
        Figure("the same, kept", median(kept), "ms"),
        Figure("the keeper's cost", cost, "ms", bar=60, at_most=True),
    ]


async def kept_ms() -> float:
    spec = ProcessSpec(argv=("true",), cwd="/", env=dict(os.environ), wall_timeout_s=60, idle_timeout_s=60)
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
