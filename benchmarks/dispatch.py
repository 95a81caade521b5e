"""From handing over to taking, and hints per second with two takers: Recoup beside pgqueuer, procrastinate and DBOS.

All on one PostgreSQL server, which syncs its log, each in a database of its own, each with two processes that take and
one that hands over; LocalDispatch in the same manner on SQLite. pgqueuer listens on a connection of its own; DBOS looks
every 50 ms. Recoup's hints are not synced, because the ledger knows the runs; what the peers carry is the only record.
Bars: 25 ms and 250 hints/s, which whole runs could not reach otherwise; ahead of DBOS in both.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue

from benchmarks.durable_steps import PLACE, dbos_python
from benchmarks.report import Figure, median, percentile
from recoup.testing.postgres import PostgresServer, postgres_server

SCRIPT = Path(__file__).parent / "peers" / "queues.py"
TAKERS = 2
ONE_BY_ONE = 150
FLOOD = 1_500
ROUNDS = 2
PATIENCE_S = 120.0


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
        Figure("Recoup, PostgreSQL: p50", median(mine.waits_ms), "ms", bar=25, at_most=True),
        Figure(f"Recoup, PostgreSQL: with {TAKERS} takers", median(mine.rates), "/s", bar=250),
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
        Contestant("Recoup, PostgreSQL", "recoup", mine, server.fresh_database()),
        Contestant("pgqueuer", "pgqueuer", mine, server.fresh_database()),
        Contestant("procrastinate", "procrastinate", mine, server.fresh_database()),
        Contestant("Recoup, SQLite", "recoup", mine, str(place / "ledger.db")),
    ]
    return [*every, Contestant("DBOS", "dbos", dbos, server.fresh_database())] if dbos else every


def measure(contestant: Contestant) -> None:
    with takers(contestant) as lines:
        times = handed(contestant, "give", ONE_BY_ONE, lines)
        contestant.waits_ms.extend((end - start) / 1e6 for start, end in times)
        times = handed(contestant, "flood", FLOOD, lines)
        first, last = min(start for start, _ in times), max(end for _, end in times)
        contestant.rates.append(len(times) / ((last - first) / 1e9))


def handed(contestant: Contestant, role: str, count: int, lines: Queue[str]) -> list[tuple[int, int]]:
    """When each was handed over and when it was taken, in nanoseconds."""
    giver = contestant.start(role, count)
    times: dict[str, tuple[int, int]] = {}
    while len(times) < count:
        id, _, end = lines.get(timeout=PATIENCE_S).partition(" ")
        times.setdefault(id, (int(id.partition("-")[0]), int(end)))
    ended(giver)
    return list(times.values())


@contextlib.contextmanager
def takers(contestant: Contestant) -> Iterator[Queue[str]]:
    lines: Queue[str] = Queue()
    children = [contestant.start("take") for _ in range(TAKERS)]
    for child in children:
        threading.Thread(target=read, args=(child, lines), daemon=True).start()
    try:
        for _ in children:
            assert lines.get(timeout=PATIENCE_S) == "ready"
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
