"""Durable trivial steps per second: Recoup beside bare SQLite and beside DBOS on SQLite, interleaved, medians.

Recoup runs its real engine, ledger and redaction with a no-op runtime inside the process. Bare SQLite commits one row
per step, of as many bytes as Recoup stores for one, with the same pragmas. Bars: one run of 100 steps at 0.6 of bare,
50 runs of 20 steps at 3,000/s, and ahead of DBOS in both.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.report import Figure, median
from recoup.clock import SystemClock
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import ScriptedRuntime

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".bench"
ROUNDS = 7
PAIRS = 3


def run() -> list[Figure]:
    PLACE.mkdir(exist_ok=True)
    dbos = dbos_python()
    row_bytes = in_folder(lambda folder: asyncio.run(bytes_per_step(folder)))
    bare: list[float] = []
    one: list[float] = []
    many: list[float] = []
    peer: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        for _ in range(PAIRS):
            bare.append(in_folder(lambda folder: bare_commits(folder, row_bytes)))
            recoup_one, recoup_many = in_folder(lambda folder: asyncio.run(recoup_steps(folder)))
            one.append(recoup_one)
            many.append(recoup_many)
        if dbos is not None:
            peer.append(in_folder(lambda folder: dbos_steps(dbos, folder)))
            os.sync()  # what the peer left to be written must not slow down what follows
    ratio = median([mine / theirs for mine, theirs in zip(one, bare, strict=True)])
    figures = [
        Figure("what Recoup stores for a step", row_bytes, "bytes"),
        Figure("bare SQLite, one commit per step", median(bare), "steps/s"),
        Figure("Recoup, one run of 100 steps", median(one), "steps/s"),
        Figure("Recoup, one run, as a share of bare", ratio, "", bar=0.6),
        Figure("Recoup, 50 runs of 20 steps", median(many), "steps/s", bar=3000),
    ]
    if peer:
        peer_one, peer_many = median([p["one"] for p in peer]), median([p["many"] for p in peer])
        figures += [
            Figure("DBOS on SQLite, one workflow of 100 steps", peer_one, "steps/s"),
            Figure("DBOS on SQLite, 50 workflows of 20 steps", peer_many, "steps/s"),
            Figure("Recoup over DBOS, one run", median(one) / peer_one, "times", bar=1),
            Figure("Recoup over DBOS, 50 runs", median(many) / peer_many, "times", bar=1),
        ]
    return figures


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


def dbos_python() -> Path | None:
    """A throw-away environment with DBOS; None where it cannot be had."""
    python = PLACE / "dbos" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PLACE / "dbos"], check=True)
        got = subprocess.run([python, "-m", "pip", "install", "-q", "dbos"], capture_output=True, text=True)
        if got.returncode:
            shutil.rmtree(PLACE / "dbos")
            print("DBOS could not be installed, so it is not compared:", got.stderr.strip().splitlines()[-1])
            return None
    return python


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
