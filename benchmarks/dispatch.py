"""From submission to the start, and throughput with two workers: Recoup's whole one-step runs and its hints alone,
compared with jobs of pgqueuer and procrastinate and workflows of DBOS.

All use one PostgreSQL server, which syncs its log, each in its own database, each with two processes that take work
and one that submits it; LocalDispatch does the same on SQLite. pgqueuer listens on a separate connection; DBOS
polls every 50 ms. A run of Recoup is submitted, claimed, judged, started, ended and released in a synced ledger;
its no-op step runs inside the worker. Its hints are not synced, because the ledger knows the runs; the peers' jobs
are their only record. Bars, for whole runs: 25 ms from submission to the start of the step, 250 runs/s, faster than
DBOS in both.
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

from benchmarks.peers.environments import KEEPS, PLACE, python_with
from benchmarks.progress import doing
from benchmarks.report import Figure, LeftOut, Peer, Row, against, of_rounds, percentile, scaled, spread_of
from recoup.testing.postgres import PostgresServer, postgres_server

SCRIPT = Path(__file__).parent / "peers" / "queues.py"
TAKERS = 2
ONE_BY_ONE = scaled(150, 20)
FLOOD = scaled(1_500, 200)
ROUNDS = scaled(2, 1)
PATIENCE_S = 120.0
LOOK_S = 0.02
HINTS_KEEP = "nothing for sure: the ledger knows the runs"
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
    turns_ms: list[list[float]] = field(default_factory=list)
    """From handing over to the start, in each round."""
    rates: list[float] = field(default_factory=list)

    def start(self, role: str, count: int = 0) -> subprocess.Popen[str]:
        # Where the queue is may hold a password, which no list of processes shall show.
        environment = {**os.environ, "BENCH_QUEUE": self.where}
        command: list[str | Path] = [self.python, SCRIPT, self.system, role, str(count)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    @property
    def waits_ms(self) -> list[float]:
        return [wait for turn in self.turns_ms for wait in turn]

    def wait_ms(self, share: float) -> float:
        return percentile(self.waits_ms, share)


def run() -> list[Row]:
    PLACE.mkdir(exist_ok=True)
    dbos = python_with("DBOS")
    with folder() as place, postgres_server(durable=True, folder=place) as server:
        every = contestants(place, server, dbos)
        for contestant in every:
            ended(contestant.start("prepare"))
        for number in range(ROUNDS):
            for contestant in every:
                doing(f"{contestant.name}: round {number + 1} of {ROUNDS}")
                measure(contestant)
    whole, hints, on_sqlite, *others = every
    queues = [other for other in others if other.system != "dbos"]
    return [
        *figures("whole runs", whole, others, KEEPS["Recoup"], soon_bar_ms=25, rate_bar=250),
        *figures("hints alone", hints, queues, HINTS_KEEP),
        *figures("hints alone on SQLite", on_sqlite, [], HINTS_KEEP),
        *([dbos] if isinstance(dbos, LeftOut) else []),
    ]


def figures(
    name: str,
    ours: Contestant,
    others: list[Contestant],
    keeps: str,
    *,
    soon_bar_ms: float | None = None,
    rate_bar: float | None = None,
) -> list[Figure]:
    rates = [
        against(other.name, ours.rates, other.rates, floor=floor(other), keeps=KEEPS[other.name])
        for other in others
    ]
    return [
        wait_figure(f"{name}: from submission to the start, p50", 0.5, ours, others, keeps, soon_bar_ms),
        wait_figure(f"{name}: from submission to the start, p99", 0.99, ours, others, keeps),
        of_rounds(f"{name}: with {TAKERS} workers", ours.rates, "/s", rate_bar, peers=rates, keeps=keeps),
    ]


def wait_figure(
    name: str,
    share: float,
    ours: Contestant,
    others: list[Contestant],
    keeps: str,
    bar: float | None = None,
) -> Figure:
    """Of all rounds together; the spread is that of the rounds."""
    peers = tuple(
        Peer(
            other.name,
            other.wait_ms(share),
            other.wait_ms(share) / ours.wait_ms(share),
            floor(other) if share == 0.5 else None,
            spread_of([percentile(turn, share) for turn in other.turns_ms]),
            keeps=KEEPS[other.name],
        )
        for other in others
    )
    spread = spread_of([percentile(turn, share) for turn in ours.turns_ms])
    return Figure(name, ours.wait_ms(share), "ms", bar, True, spread, peers, keeps)


def floor(other: Contestant) -> float | None:
    """Ahead of DBOS, which keeps as much as we do; the queues keep less."""
    return 1 if other.system == "dbos" else None


def contestants(place: Path, server: PostgresServer, dbos: Path | LeftOut) -> list[Contestant]:
    """Ours first."""
    mine = Path(sys.executable)
    every = [
        Contestant("Recoup, whole runs", "recoup-runs", mine, server.fresh_database()),
        Contestant("Recoup, hints", "recoup", mine, server.fresh_database()),
        Contestant("Recoup, hints on SQLite", "recoup", mine, str(place / "ledger.db")),
        Contestant("pgqueuer", "pgqueuer", mine, server.fresh_database()),
        Contestant("procrastinate", "procrastinate", mine, server.fresh_database()),
    ]
    if isinstance(dbos, LeftOut):
        return every
    return [*every, Contestant("DBOS", "dbos", dbos, server.fresh_database())]


def measure(contestant: Contestant) -> None:
    """One after the other to idle workers; then a full queue, and how fast two workers get through it."""
    with takers(contestant) as lines:
        begun_ns = time.monotonic_ns()
        giver = contestant.start("give", ONE_BY_ONE)
        times = handed(ONE_BY_ONE, begun_ns, lines)
        ended(giver)
        contestant.turns_ms.append([(end - start) / 1e6 for start, end in times])
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
