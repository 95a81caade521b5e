"""The same work for every system: one-step runs one after the other, many at once, and one run of many steps.

Runs in the environment of the system that is measured, which need not have Recoup: the standard library only. Each part
ends after so many runs or so many seconds, whichever comes first: the systems are far apart. Says `ready` when the
first run is done, which ends the start-up, and one JSON document in the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable

AT_ONCE = 50
STEPS = 100
ROUNDS_MAX = 5
ONE_BY_ONE_MAX = 200
FLOOD_MAX = 1_000
PART_S = float(os.environ.get("BENCH_PART_S", "4"))
WARM_UP = 5

Once = Callable[[], Awaitable[object]]
"""One run of one step that does nothing: from submitting it until its end is known."""
Many = Callable[[int], Awaitable[object]]
"""One run of so many such steps."""


async def measure(once: Once, many: Many | None) -> None:
    await once()
    print("ready", flush=True)
    for _ in range(WARM_UP):
        await once()
    said = {"one_ms": await one_by_one(once), "rates": [await flood(once)]}
    if many is not None:
        said["step_ms"] = await steps(many)
    print(json.dumps(said), flush=True)


async def one_by_one(once: Once) -> list[float]:
    taken: list[float] = []
    until = time.perf_counter() + PART_S
    while len(taken) < ONE_BY_ONE_MAX and (not taken or time.perf_counter() < until):
        began = time.perf_counter()
        await once()
        taken.append(1000 * (time.perf_counter() - began))
    return taken


async def flood(once: Once) -> float:
    """Runs per second while fifty are under way; what ends after the time counts with the time it took."""
    began = time.perf_counter()
    done, left = 0, FLOOD_MAX

    async def giver() -> None:
        nonlocal done, left
        while left > 0 and time.perf_counter() - began < PART_S:
            left -= 1
            await once()
            done += 1

    await asyncio.gather(*[giver() for _ in range(AT_ONCE)])
    return done / (time.perf_counter() - began)


async def steps(many: Many) -> list[float]:
    """Milliseconds for a step, over calling what it calls."""
    taken: list[float] = []
    until = time.perf_counter() + PART_S
    while len(taken) < ROUNDS_MAX and (not taken or time.perf_counter() < until):
        began = time.perf_counter()
        await many(STEPS)
        taken.append(1000 * (time.perf_counter() - began) / STEPS - bare_ms())
    return taken


def bare_ms() -> float:
    """What one call of a function costs that does nothing."""
    began = time.perf_counter()
    for number in range(STEPS):
        trivial(number)
    return 1000 * (time.perf_counter() - began) / STEPS


def trivial(number: int) -> int:
    return number
