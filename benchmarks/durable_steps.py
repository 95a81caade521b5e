"""Durable trivial steps per second: Recoup, bare SQLite and DBOS on SQLite, interleaved, medians.

Recoup runs its real engine, ledger and redaction with a no-op runtime in the same process. Bare SQLite commits one row
per step, with as many bytes as Recoup stores, and the same pragmas. Bars: one run of 100 steps at 0.6 of bare SQLite,
50 runs of 20 steps at 3,000/s, and faster than DBOS in both.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.peers.environments import KEEPS, PLACE, python_with
from benchmarks.progress import rounds
from benchmarks.report import Figure, LeftOut, Peer, Row, against, of_rounds, scaled
from recoup.clock import SystemClock
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import ScriptedRuntime

T = TypeVar("T")
ROUNDS = scaled(7, 1)
PAIRS = 3


def run() -> list[Row]:
    PLACE.mkdir(exist_ok=True)
    dbos = python_with("DBOS")
    row_bytes = in_folder(lambda folder: asyncio.run(bytes_per_step(folder)))
    bare: list[float] = []
    one: list[float] = []
    many: list[float] = []
    peer: list[dict[str, float]] = []
    for _ in rounds(ROUNDS, "bare SQLite, Recoup and DBOS by turns"):
        for _ in range(PAIRS):
            bare.append(in_folder(lambda folder: bare_commits(folder, row_bytes)))
            recoup_one, recoup_many = in_folder(lambda folder: asyncio.run(recoup_steps(folder)))
            one.append(recoup_one)
            many.append(recoup_many)
        if not isinstance(dbos, LeftOut):
            peer.append(in_folder(lambda folder: dbos_steps(dbos, folder)))
            os.sync()  # what the peer left to be written must not slow down what follows
    beside_one, beside_many = beside_dbos(one, peer, "one"), beside_dbos(many, peer, "many")
    kept = KEEPS["Recoup"]
    floor = against("bare SQLite, one commit per step", one, bare, floor=0.6, bare=True, paired=True)
    return [
        Figure("what Recoup stores for a step", row_bytes, "bytes"),
        of_rounds("one run of 100 steps", one, "steps/s", peers=[floor, *beside_one], keeps=kept),
        of_rounds("50 runs of 20 steps", many, "steps/s", 3000, peers=beside_many, keeps=kept),
        *([dbos] if isinstance(dbos, LeftOut) else []),
    ]


def beside_dbos(ours: list[float], peer: list[dict[str, float]], what: str) -> list[Peer]:
    rates = [rate[what] for rate in peer]
    return [against("DBOS on SQLite", ours, rates, floor=1, keeps=KEEPS["DBOS"])] if rates else []


async def bytes_per_step(folder: Path) -> int:
    """In the rows of its events, so that the bare commits write as much."""
    house = House(folder, ScriptedRuntime(), SystemClock())
    await house.run(plan_of(*[f"s{number}" for number in range(100)]))
    await house.ledger.close()
    database = sqlite3.connect(folder / "ledger.db")
    columns = "length(boot_id) + length(type) + length(payload) + 24"
    (stored,) = database.execute(f"select sum({columns}) from events where type like '%.step.%'").fetchone()
    database.close()
    return int(stored) // 100


def bare_commits(folder: Path, row_bytes: int) -> float:
    database = sqlite3.connect(folder / "bare.db", isolation_level=None)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("create table step (number integer primary key, payload text)")
    payload = "x" * row_bytes
    began = time.perf_counter()
    for _ in range(100):
        database.execute("begin immediate")
        database.execute("insert into step (payload) values (?)", (payload,))
        database.execute("commit")
    rate = 100 / (time.perf_counter() - began)
    database.close()
    return rate


async def recoup_steps(folder: Path) -> tuple[float, float]:
    redactor = SecretRedactor(pattern_set(default_cache(os.environ)))
    house = House(folder, ScriptedRuntime(), SystemClock(), redactor=redactor)
    await house.submit(plan_of("warm", "up"), "warm-up")
    await (await house.driver("warm-up")).drive()
    one = await timed(house, 1, 100)
    many = await timed(house, 50, 20)
    await house.ledger.close()
    return one, many


async def timed(house: House, runs: int, steps: int) -> float:
    plan = plan_of(*[f"s{number}" for number in range(steps)])
    drivers = []
    for number in range(runs):
        run_id = f"{runs}-{number}"
        await house.submit(plan, run_id)
        drivers.append(await house.driver(run_id))
    began = time.perf_counter()
    ended = await asyncio.gather(*[driver.drive() for driver in drivers])
    seconds = time.perf_counter() - began
    assert all(state.status == "succeeded" for state in ended)
    return runs * steps / seconds


def dbos_steps(python: Path, folder: Path) -> dict[str, float]:
    script = Path(__file__).parent / "peers" / "dbos_steps.py"
    done = subprocess.run([python, script, folder], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def in_folder(work: Callable[[Path], T]) -> T:
    """On the disk of the project: /tmp may be memory, where a commit costs nothing."""
    folder = Path(tempfile.mkdtemp(dir=PLACE))
    try:
        return work(folder)
    finally:
        shutil.rmtree(folder)
