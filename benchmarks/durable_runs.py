"""Durable one-step runs: duration, throughput, cost of a step over a bare call, and start-up time.

All systems do the same work: a run of one no-op step, from submission until its end is known, one at a time and fifty
at once; a run of a hundred such steps; and the time from an empty disk to the end of the first run. Each system runs in
its fastest form: Recoup and DBOS in one process, Prefect flows in one process beside its server, Restate as a server, a
service and a client. Jobs of pgqueuer and procrastinate, submitted and taken in one process, are done when their
function has run. Recoup's start-up is that of `recoup run`, with a real process as its step. All use one disk and
alternate. The table says what each makes durable.
There are no bars here: those against DBOS are in `durable_steps` and `dispatch`. PostgreSQL is started beforehand.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.durable_steps import in_folder
from benchmarks.peers.environments import KEEPS, PLACE, ROOT, last_words, python_with, restate_server
from benchmarks.progress import doing
from benchmarks.report import Figure, LeftOut, Peer, Row, against, median, of_rounds, percentile, scaled
from benchmarks.start_up import PLAN, seconds
from recoup.testing.postgres import PostgresServer, postgres_server

ROUNDS = scaled(3, 1)
PART_S = scaled(3.0, 1.0)
PATIENCE_S = 300.0


class Told(msgspec.Struct):
    """What a script of `peers/` says in the end."""

    one_ms: list[float]
    rates: list[float]
    step_ms: list[float] = []


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    system: str
    python: Path
    module: str
    arguments: tuple[str | Path, ...] = ()
    on_postgres: bool = False
    starts_s: list[float] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)

    def values(self, what: str) -> list[float]:
        """One for each round."""
        if what == "rate":
            return [median(each.rates) for each in self.told]
        if what == "step":
            return [median(each.step_ms) for each in self.told if each.step_ms]
        return [percentile(each.one_ms, 0.99 if what == "p99" else 0.5) for each in self.told]


def run() -> Iterator[Row]:
    PLACE.mkdir(exist_ok=True)
    every, missing = contestants()
    yield from missing
    ours_s: list[float] = []
    with postgres_server(durable=True, folder=PLACE) as server:
        for number in range(ROUNDS):
            ours_s.append(in_folder(command_s))
            for one in list(every):
                doing(f"{one.name}: round {number + 1} of {ROUNDS}")
                failed = measure(one, server)
                if failed is not None:
                    every.remove(one)
                    yield failed
    yield from compared("in files", [one for one in every if not one.on_postgres])
    yield from compared("on PostgreSQL", [one for one in every if one.on_postgres])
    yield start_ups(ours_s, [one for one in every if one.system != "Recoup"])


def contestants() -> tuple[list[Contestant], list[LeftOut]]:
    """Ours first, of each kind."""
    mine = Path(sys.executable)
    every = [
        Contestant("Recoup on SQLite", "Recoup", mine, "recoup_runs"),
        Contestant("Recoup on PostgreSQL", "Recoup", mine, "recoup_runs", on_postgres=True),
        Contestant("pgqueuer", "pgqueuer", mine, "queue_runs", ("pgqueuer",), on_postgres=True),
        Contestant(
            "procrastinate", "procrastinate", mine, "queue_runs", ("procrastinate",), on_postgres=True
        ),
    ]
    dbos, prefect, restate = (python_with(name) for name in ("DBOS", "Prefect", "Restate"))
    server = restate if isinstance(restate, LeftOut) else restate_server()
    if isinstance(dbos, Path):
        every += [
            Contestant("DBOS on SQLite", "DBOS", dbos, "dbos_runs"),
            Contestant("DBOS on PostgreSQL", "DBOS", dbos, "dbos_runs", on_postgres=True),
        ]
    if isinstance(prefect, Path):
        every.append(Contestant("Prefect", "Prefect", prefect, "prefect_runs"))
    if isinstance(restate, Path) and isinstance(server, Path):
        every.append(Contestant("Restate", "Restate", restate, "restate_runs", (server,)))
    return every, [got for got in (dbos, prefect, server) if isinstance(got, LeftOut)]


def measure(one: Contestant, server: PostgresServer) -> LeftOut | None:
    """None when all went well. One that does not run here must not keep the others from it."""
    failed = in_folder(lambda folder: _measure(one, folder, server))
    os.sync()  # what it left to be written must not slow down what follows
    return LeftOut(one.name, f"it failed: {failed}") if failed else None


def _measure(one: Contestant, folder: Path, server: PostgresServer) -> str:
    where = f"sqlite:///{folder}/dbos.sqlite" if one.system == "DBOS" else ""
    if one.on_postgres:
        prepared = one.system == "Recoup"
        where = server.prepared_database() if prepared else server.fresh_database()
    # Where the database is may hold a password, which no list of processes shall show.
    environment = {**os.environ, "BENCH_DATABASE": where, "BENCH_PART_S": str(PART_S)}
    command: list[str | Path] = [one.python, "-m", f"benchmarks.peers.{one.module}", folder, *one.arguments]
    began = time.perf_counter()
    child = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    overdue = threading.Timer(PATIENCE_S, child.kill)
    overdue.start()
    assert child.stdout
    ready = child.stdout.readline().strip() == "ready"
    start_s = time.perf_counter() - began
    said, errors = child.communicate()
    overdue.cancel()
    if child.returncode or not ready:
        return last_words(errors)
    one.starts_s.append(start_s)
    one.told.append(msgspec.json.decode(said.strip().splitlines()[-1], type=Told))
    return ""


def command_s(folder: Path) -> float:
    """A one-step run of the command line, in a home that is not there yet."""
    plan = folder / "plan.yaml"
    plan.write_text(PLAN)
    return seconds(str(folder), "run", str(plan), "--quiet")


def compared(where: str, some: Sequence[Contestant]) -> Iterator[Figure]:
    ours, *others = some
    assert ours.system == "Recoup", f"ours did not run {where}"
    for what, name, unit in (
        ("p50", "a one-step run, p50", "ms"),
        ("p99", "a one-step run, p99", "ms"),
        ("rate", "one-step runs at once", "runs/s"),
        ("step", "a step, over a bare call", "ms"),
    ):
        at_most = unit == "ms"
        peers = [peer(ours, other, what, at_most) for other in others if other.values(what)]
        values, keeps = ours.values(what), KEEPS["Recoup"]
        yield of_rounds(f"{where}: {name}", values, unit, at_most=at_most, peers=peers, keeps=keeps)


def peer(ours: Contestant, other: Contestant, what: str, at_most: bool) -> Peer:
    keeps = KEEPS[other.system]
    return against(other.name, ours.values(what), other.values(what), at_most=at_most, keeps=keeps)


def start_ups(ours_s: list[float], others: Sequence[Contestant]) -> Figure:
    peers = [
        against(other.name, ours_s, other.starts_s, at_most=True, keeps=KEEPS[other.system])
        for other in others
        if other.starts_s
    ]
    return of_rounds(
        "from an empty disk to the end of the first run",
        ours_s,
        "s",
        at_most=True,
        peers=peers,
        keeps=KEEPS["Recoup"],
    )
