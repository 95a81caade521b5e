"""From handing over to the start, and how many per second with two workers: Recoup's whole one-step runs, and its hints
alone, beside jobs of pgqueuer and procrastinate and workflows of DBOS.

All on one PostgreSQL server, which syncs its log, each in a database of its own, each with two processes that take and
one that hands over; LocalDispatch in the same manner on SQLite. pgqueuer listens on a connection of its own; DBOS looks
every 50 ms. A run of Recoup is submitted, claimed, judged, begun, ended and released in a synced ledger; its step does
nothing, inside the worker. Its hints are not synced, because the ledger knows the runs; what the peers carry is their
only record. Bars, for whole runs: 25 ms from submission to the start of the step, 250 runs/s, ahead of DBOS in both.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import LiteralString

import psycopg

from benchmarks.durable_steps import PLACE, dbos_python
from benchmarks.report import Figure, median, percentile
from recoup.testing.postgres import PostgresServer, postgres_server

SCRIPT = Path(__file__).parent / "peers" / "queues.py"
TAKERS = 2
ONE_BY_ONE = 150
FLOOD = 1_500
ROUNDS = 2
PATIENCE_S = 120.0
LOOK_S = 0.02
DONE: dict[str, LiteralString] = {
    "recoup-runs": "SELECT count(*) FROM recoup.runs WHERE status <> 'succeeded'",
    "pgqueuer": "SELECT count(*) FROM pgqueuer",
    "procrastinate": "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'",
    "dbos": "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'",
}
"""How many are not done yet, by the system's own record."""


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    system: str
    python: Path
    """The interpreter that has it."""
    where: str
    waits_ms: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def start(self, role: str, count: int = 0) -> subprocess.Popen[str]:
        # Where the queue is may hold a password, which no list of processes shall show.
        environment = {**os.environ, "BENCH_QUEUE": self.where}
        command: list[str | Path] = [self.python, SCRIPT, self.system, role, str(count)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def figures(self) -> list[Figure]:
        return [
            Figure(f"{self.name}: handed over to taken, p50", median(self.waits_ms), "ms"),
            Figure(f"{self.name}: handed over to taken, p99", percentile(self.waits_ms, 0.99), "ms"),
            Figure(f"{self.name}: with {TAKERS} takers", median(self.rates), "/s"),
        ]


def run() -> list[Figure]:
    PLACE.mkdir(exist_ok=True)
    with folder() as place, postgres_server(durable=True, folder=place) as server:
        every = contestants(place, server)
        for contestant in every:
            ended(contestant.start("prepare"))
        for _ in range(ROUNDS):
            for contestant in every:
                measure(contestant)
    figures = [figure for contestant in every for figure in contestant.figures()]
    mine, *others = every
    figures += [
        Figure("Recoup, whole runs: p50", median(mine.waits_ms), "ms", bar=25, at_most=True),
        Figure(f"Recoup, whole runs: with {TAKERS} workers", median(mine.rates), "/s", bar=250),
    ]
    for dbos in [other for other in others if other.system == "dbos"]:
        sooner = median(dbos.waits_ms) / median(mine.waits_ms)
        figures += [
            Figure("Recoup over DBOS, sooner", sooner, "times", bar=1),
            Figure("Recoup over DBOS, more", median(mine.rates) / median(dbos.rates), "times", bar=1),
        ]
    return figures


def contestants(place: Path, server: PostgresServer) -> list[Contestant]:
    mine, dbos = Path(sys.executable), dbos_python()
    every = [
        Contestant("Recoup, whole runs", "recoup-runs", mine, server.fresh_database()),
        Contestant("Recoup, hints", "recoup", mine, server.fresh_database()),
        Contestant("pgqueuer", "pgqueuer", mine, server.fresh_database()),
        Contestant("procrastinate", "procrastinate", mine, server.fresh_database()),
        Contestant("Recoup, hints on SQLite", "recoup", mine, str(place / "ledger.db")),
    ]
    return [*every, Contestant("DBOS", "dbos", dbos, server.fresh_database())] if dbos else every


def measure(contestant: Contestant) -> None:
    """One after the other to idle workers; then a full queue, and how fast two workers get through it."""
    with takers(contestant) as lines:
        begun_ns = time.monotonic_ns()
        giver = contestant.start("give", ONE_BY_ONE)
        times = handed(ONE_BY_ONE, begun_ns, lines)
        ended(giver)
        contestant.waits_ms.extend((end - start) / 1e6 for start, end in times)
    begun_ns = time.monotonic_ns()
    ended(contestant.start("flood", FLOOD))
    with takers(contestant) as lines:
        contestant.rates.append(rate(contestant, begun_ns, lines))


def rate(contestant: Contestant, begun_ns: int, lines: Queue[str]) -> float:
    """Between the first and the last tenth, when both are at work: recorded as done, where there is a record."""
    first, last = FLOOD // 10, FLOOD - FLOOD // 10
    if contestant.system not in DONE:
        ends = sorted(end for _, end in handed(FLOOD, begun_ns, lines))
        return (last - first) / ((ends[last] - ends[first]) / 1e9)
    seen: list[tuple[float, int]] = []
    with psycopg.connect(contestant.where, autocommit=True) as connection:
        while not seen or seen[-1][1] < FLOOD:
            (undone,) = connection.execute(DONE[contestant.system]).fetchone() or (FLOOD,)
            seen.append((time.monotonic(), FLOOD - undone))
            time.sleep(LOOK_S)
    within = [(at, count) for at, count in seen if first <= count <= last]
    return (within[-1][1] - within[0][1]) / (within[-1][0] - within[0][0])


def handed(count: int, begun_ns: int, lines: Queue[str]) -> list[tuple[int, int]]:
    """When each was handed over and when it was taken, in nanoseconds."""
    times: dict[str, tuple[int, int]] = {}
    while len(times) < count:
        id, _, end = lines.get(timeout=PATIENCE_S).partition(" ")
        start_ns = int(id.partition("-")[0])
        if start_ns >= begun_ns:  # not one that was handed back when an earlier round ended
            times.setdefault(id, (start_ns, int(end)))
    return list(times.values())


@contextlib.contextmanager
def takers(contestant: Contestant) -> Iterator[Queue[str]]:
    lines: Queue[str] = Queue()
    children = [contestant.start("take") for _ in range(TAKERS)]
    for child in children:
        threading.Thread(target=read, args=(child, lines), daemon=True).start()
    try:
        early: list[str] = []
        while len(early) - sum(line != "ready" for line in early) < len(children):
            early.append(lines.get(timeout=PATIENCE_S))
        for line in early:
            if line != "ready":
                lines.put(line)
        yield lines
    finally:
        for child in children:
            assert child.stdin
            child.stdin.close()
        for child in children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def ended(child: subprocess.Popen[str]) -> None:
    child.communicate(timeout=PATIENCE_S)
    if child.returncode:
        raise RuntimeError(f"a process of the benchmark failed: {child.args!r}")


def read(child: subprocess.Popen[str], lines: Queue[str]) -> None:
    assert child.stdout
    for line in child.stdout:
        lines.put(line.rstrip("\n"))


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """On the disk of the project: /tmp may be memory, where a commit costs nothing."""
    place = Path(tempfile.mkdtemp(dir=PLACE))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
