"""Cost of a probe: how soon it detects a dead process, and what five hundred resources take of a core and of memory.

The resources are processes, the most expensive kind. The keeper and the anchor of each process, which ensure that
nothing outlives the probe, count as well. The processes themselves do not.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure, of_rounds, scaled
from recoup.clock import SystemClock
from recoup.model.probe import Budget, Phase, Resource, TcpCheck
from recoup.processes.process_table import process_of, process_table
from recoup.testing.probe import ProbeHouse, process

RESOURCES = scaled(500, 20)
DEATHS = scaled(20, 3)
WATCHED_S = scaled(20.0, 2.0)
LEASE_S = 9.0
"""Every third of it the keeper is told, for each tree, that the probe lives: as often as unless set otherwise."""


def run() -> list[Figure]:
    return [*asyncio.run(deaths()), *asyncio.run(many())]


async def deaths() -> list[Figure]:
    """From the kill to the recorded fault."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        pids = root / "pids"
        api = process(
            "api",
            "sh",
            "-c",
            f"echo $$ >> {pids}; exec sleep 1000",
            budget=Budget(max_retries=100, day_max=1000, delays_s=(0.01,)),
        )
        house = ProbeHouse(root, api, clock=SystemClock())
        taken_ms = []
        async with house.running():
            for number in range(DEATHS):
                await house.until(lambda: house.phase("api") == Phase.RUNNING)
                pid = int(pids.read_text().split()[-1])
                began = time.perf_counter()
                os.kill(pid, signal.SIGKILL)
                await house.until_told("api", "RecoveryPlanned", number + 1)
                taken_ms.append(1000 * (time.perf_counter() - began))
        await house.ledger.close()
    return [
        of_rounds("a dead process is detected and recorded, median", taken_ms, "ms", at_most=True),
        Figure(f"the same, slowest of {DEATHS}", max(taken_ms), "ms", bar=100, at_most=True),
    ]


async def many() -> list[Figure]:
    """Five hundred processes, each looked at by TCP every ten seconds."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1000)
        accepting = asyncio.create_task(_accept(listener))
        port = int(listener.getsockname()[1])
        house = ProbeHouse(Path(folder), *_resources(port), clock=SystemClock(), lease_s=LEASE_S)
        began = time.perf_counter()
        async with house.running():
            names = list(house.probe.minders)
            await house.until(
                lambda: all(house.phase(name) == Phase.RUNNING for name in names), patience_s=300
            )
            started_s = time.perf_counter() - began
            keepers = _keepers(house)
            share, keepers_share = await _shares_of_core(keepers)
            own_mb = _pss_mb(os.getpid())
            keepers_mb = sum(_pss_mb(pid) for pid in keepers)
            stopping = time.perf_counter()
        stopped_s = time.perf_counter() - stopping
        accepting.cancel()
        await house.ledger.close()
    return [
        Figure(f"{RESOURCES} processes are started and healthy after", started_s, "s"),
        Figure(f"{RESOURCES} resources, share of one core", share + keepers_share, "%", bar=5, at_most=True),
        Figure("of that, the keeper and the anchors", keepers_share, "%"),
        Figure(f"{RESOURCES} resources, memory", own_mb + keepers_mb, "MB", bar=150, at_most=True),
        Figure("of that, the keeper and the anchors", keepers_mb, "MB"),
        Figure(f"{RESOURCES} processes are stopped and proven gone after", stopped_s, "s"),
    ]


def _resources(port: int) -> list[Resource]:
    check = TcpCheck(host="127.0.0.1", port=port)
    return [
        process(
            f"r{number}",
            checks=(check,),
            start_period_s=300,
        )
        for number in range(RESOURCES)
    ]


async def _accept(listener: socket.socket) -> None:
    listener.setblocking(False)
    loop = asyncio.get_running_loop()
    while True:
        connection, _ = await loop.sock_accept(listener)
        connection.close()


async def _shares_of_core(keepers: list[int]) -> tuple[float, float]:
    """Of this process, with the other end of the checks in it, and of those that keep for it."""
    await asyncio.sleep(5)
    before, began = (_cpu_s(os.getpid()), _cpu_s(*keepers)), time.perf_counter()
    await asyncio.sleep(WATCHED_S)
    part = 100 / (time.perf_counter() - began)
    return part * (_cpu_s(os.getpid()) - before[0]), part * (_cpu_s(*keepers) - before[1])


def _cpu_s(*pids: int) -> float:
    rows = [process_of(pid) for pid in pids]
    return sum(row.cpu_ticks for row in rows if row is not None) / os.sysconf("SC_CLK_TCK")


def _keepers(house: ProbeHouse) -> list[int]:
    """The keeper and its anchors, or every keeper where each process has its own."""
    known = house.probe.state.resources.values()
    keepers = {one.keeper.pid for one in known if one.keeper is not None}
    table = process_table()
    if len(keepers) == RESOURCES:
        return list(keepers)
    return [*keepers, *(process.pid for process in table.values() if process.parent in keepers)]


def _pss_mb(pid: int) -> float:
    """What it takes, with its part of what it shares."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel tells no Pss")
