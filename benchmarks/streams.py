"""A thousand watchers of one gateway: how soon an event reaches them, and their cost while nothing happens.

A quarter of them follows one run, the others all events, the console's stream and the list of runs, each over its own
connection to a server in a separate process. The time runs from before the append until half of them, and the last of
them, have the event. This one process plays all of them and takes its part of that time.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.integration.gateway_house import Gateway, gateway
from tests.integration.stream_house import all_are_told, cpu_s, crowd

from benchmarks.progress import doing, rounds
from benchmarks.report import Figure, of_rounds, scaled
from recoup.ledger.sqlite import SqliteLedger

WATCH = scaled(1_000, 100)
ROUNDS = scaled(5, 1)
QUIET_S = scaled(10, 1)


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, gateway(Path(folder, "home"), "--workers", "1") as served:
        told = [asyncio.run(_told(served)) for _ in rounds(ROUNDS, f"{WATCH:,} watch")]
        half = [1_000 * took_s[len(took_s) // 2] for _, took_s in told]
        last = [took_s[-1] for _, took_s in told]
        yield of_rounds(f"an event, until half of {WATCH:,} have it", half, "ms", 150, at_most=True)
        yield of_rounds(f"an event, until the last of {WATCH:,} has it", last, "s", 1, at_most=True)
        # Later ones find the room that the first have left.
        yield Figure("memory per watcher", told[0][0] / 1_000, "KB", 60, at_most=True)
        doing("nothing happens")
        share = asyncio.run(_quiet_share(served))
        yield Figure(f"{WATCH:,} watch and nothing happens, of one core", share, "%", 10, at_most=True)


async def _told(served: Gateway) -> tuple[float, list[float]]:
    ledger = SqliteLedger(served.home / "ledger.db")
    try:
        return await all_are_told(served, ledger, WATCH)
    finally:
        await ledger.close()


async def _quiet_share(served: Gateway) -> float:
    async with crowd(served) as watching:
        await watching.join(WATCH, "/api/stream")
        before_s = cpu_s(served.process.pid)
        await asyncio.sleep(QUIET_S)
        return 100 * (cpu_s(served.process.pid) - before_s) / QUIET_S
