"""Workers that are killed and frozen on a database that is restarted; and a program that reads the history afterwards.

Each step writes a line to a file and a row to a table, with its run, step and attempt, so that what really happened can
be compared with what the ledger says.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from tests.keys import KEY

from recoup.documents.policy_file import read_policy
from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.model import events as ev
from recoup.simulation.invariants import Record, broken, cached_rows_equal_a_rebuild, read_record

if TYPE_CHECKING:
    from recoup.testing.postgres import PostgresServer

STEPS = 5
WORKFLOWS = 40
MARK = "RECOUP_CHAOS"
LEASE_S = 3.0
EVENTS_BETWEEN = 4
"""Recorded between two troubles, at the least."""
POLICY = """
step_max_attempts: 50
run_retries_max: 1000
takeovers_max: 1000
delivery_max: 100
unknown_retries_max: 100
retry_tokens: 100000
backoff_ms: 100
backoff_cap_ms: 500
step_no_progress_limit: 50
no_progress_window: 50
step_fail_streak_to_degraded: 200
workflow_fail_max_in_window: 200
workflow_fail_ratio: 1.0
"""
STEP = """
  - id: s{number}
    run: |
      row="'$RECOUP_RUN_ID', 's{number}', $RECOUP_ATTEMPT"
      {psql} -qAt -v ON_ERROR_STOP=1 -c "INSERT INTO chaos.effects (run, step, attempt) VALUES ($row)"
      echo "$RECOUP_RUN_ID s{number} $RECOUP_ATTEMPT" >> "$CHAOS_FILE"
      echo "made={number}-$RECOUP_RUN_ID" >> "$RECOUP_OUTPUT"
    outputs: {{made: {{}}}}
"""


@dataclass
class Chaos:
    """One storm of real processes."""

    server: PostgresServer
    root: Path
    psql: Path
    runs: int
    workers: int = 4
    seed: int = 1
    restart_s: float = 20.0
    kill_s: tuple[float, float] = (1.0, 2.0)
    patience_s: float = 600.0
    """How long nothing may be recorded before the storm is given up."""
    url: str = ""
    troubles: Counter[str] = field(default_factory=Counter)
    _living: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _frozen: dict[int, float] = field(default_factory=dict)
    _homes: int = 0

    def rage(self) -> list[str]:
        """Everything that is wrong with what is left, in words."""
        self.url = self.server.fresh_database()
        self._prepare()
        self._submit_all()
        try:
            self._trouble_until_done()
        finally:
            self._end_workers()
        return self._found()

    # Setting the stage

    def _prepare(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA chaos")
            connection.execute(
                "CREATE TABLE chaos.effects (id bigserial PRIMARY KEY, run text, step text, attempt int,"
                " at timestamptz DEFAULT clock_timestamp())"
            )
        (self.root / "policy.yaml").write_text(POLICY)
        read_policy(self.root / "policy.yaml")  # what cannot be used would not be followed
        (self.root / "effects").touch()

    def _environ(self, home: str) -> dict[str, str]:
        own = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **own,
            MARK: str(self.root),
            "RECOUP_HOME": str(self.root / home),
            "RECOUP_DATABASE": self.url,
            "RECOUP_KEY": KEY,
            "RECOUP_POLICY": str(self.root / "policy.yaml"),
            "RECOUP_LEASE_S": str(LEASE_S),
            "RECOUP_HEARTBEAT_S": "0.8",
            "CHAOS_FILE": str(self.root / "effects"),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.server.port),
            "PGUSER": "postgres",
            "PGDATABASE": self.url.rpartition("/")[2],
        }

    def _submit_all(self) -> None:
        """In one process, through the application: a command for each would take longer than the storm."""
        script = self.root / "submit.py"
        script.write_text(_SUBMIT)
        steps = "".join(STEP.format(number=number, psql=self.psql) for number in range(1, STEPS + 1))
        (self.root / "steps.yaml").write_text(textwrap.dedent(steps))
        command = [sys.executable, str(script), str(self.root), str(self.runs), str(WORKFLOWS)]
        subprocess.run(command, env=self._environ("submitter"), check=True, cwd=self.root)

    # Trouble

    def _start_worker(self) -> None:
        self._homes += 1
        with (self.root / "workers.log").open("ab") as log:
            self._living.append(
                subprocess.Popen(
                    [sys.executable, "-m", "recoup.cli.main", "worker", "--json", "--concurrency", "4"],
                    env=self._environ(f"home-{self._homes}"),
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    cwd=self.root,
                )
            )

    def _trouble_until_done(self) -> None:
        chance = random.Random(self.seed)
        for _ in range(self.workers):
            self._start_worker()
        deadline_s = time.monotonic() + self.patience_s
        restart_at, harmed_at = (
            0.0,
            0,
        )  # the first restart comes with the first trouble: a quick machine is soon done
        while self._open_runs() and time.monotonic() < deadline_s:
            time.sleep(chance.uniform(*self.kill_s))
            self._wake(time.monotonic())
            # On a slow machine whoever is harmed by the clock alone never gets to work.
            worked = self._events()
            if worked - harmed_at < EVENTS_BETWEEN:
                continue
            harmed_at, deadline_s = worked, time.monotonic() + self.patience_s
            if time.monotonic() >= restart_at:
                self.server.restart()
                self.troubles["restart of the database"] += 1
                restart_at = time.monotonic() + self.restart_s
            awake = [worker for worker in self._living if worker.pid not in self._frozen]
            if len(awake) > 1:
                self._harm(chance, chance.choice(awake))

    def _harm(self, chance: random.Random, worker: subprocess.Popen[bytes]) -> None:
        if chance.random() < 0.5:
            worker.send_signal(signal.SIGSTOP)
            self._frozen[worker.pid] = time.monotonic() + chance.uniform(0.5, 2.5 * LEASE_S)
            self.troubles["freeze"] += 1
            return
        worker.kill()
        worker.wait()
        self._living.remove(worker)
        self._start_worker()
        self.troubles["kill"] += 1

    def _wake(self, now_s: float) -> None:
        for worker in self._living:
            if worker.pid in self._frozen and self._frozen[worker.pid] <= now_s:
                worker.send_signal(signal.SIGCONT)
                del self._frozen[worker.pid]

    def _open_runs(self) -> int:
        ended = "('succeeded', 'failed', 'cancelled', 'dead_letter', 'escalated')"
        return self._count(f"recoup.runs WHERE status NOT IN {ended} OR wants_driver = 1")

    def _events(self) -> int:
        return self._count("recoup.events")

    def _count(self, rows: str) -> int:
        for _ in range(100):
            try:
                with psycopg.connect(self.url, autocommit=True) as connection:
                    row = connection.execute(f"SELECT count(*) FROM {rows}".encode()).fetchone()
                    return int(row[0]) if row else 0
            except psycopg.OperationalError:
                time.sleep(0.2)
        raise AssertionError("the database does not come back")

    def _end_workers(self) -> None:
        self._wake(float("inf"))
        for worker in self._living:
            worker.terminate()
        for worker in self._living:
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
                self.troubles["worker that did not drain"] += 1

    # The history

    def _found(self) -> list[str]:
        import asyncio

        record, found = asyncio.run(self._read())
        effects = self._effects()
        found += every_run_succeeded(record, self.runs)
        found += every_effect_belongs_to_an_attempt(record, effects)
        found += every_step_left_its_output(record, effects, self._lines())
        found += nobody_wrote_after_the_next_one_began(record, effects)
        found += [f"a process is left: {words}" for words in orphans(str(self.root))]
        if self.troubles["worker that did not drain"]:
            found.append("a worker did not drain in time")
        return found

    async def _read(self) -> tuple[Record, list[str]]:
        ledger = await PostgresLedger.open(self.url)
        try:
            record = await read_record(ledger)
            return record, broken(record) + await cached_rows_equal_a_rebuild(ledger, record)
        finally:
            await ledger.close()

    def _effects(self) -> list[tuple[str, str, int, float]]:
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(
                "SELECT run, step, attempt, extract(epoch FROM at)::float8 FROM chaos.effects ORDER BY id"
            ).fetchall()
        return [(run, step, attempt, at) for run, step, attempt, at in rows]

    def _lines(self) -> set[tuple[str, ...]]:
        return {tuple(line.split()) for line in (self.root / "effects").read_text().splitlines()}


def every_run_succeeded(record: Record, runs: int) -> list[str]:
    if len(record.runs) != runs:
        return [f"{len(record.runs)} of {runs} runs are in the ledger"]
    return [
        f"run {run_id} ended with {events[-1].event.type}: {events[-1].event.raw[:300]!r}"
        for run_id, events in record.runs.items()
        if not any(isinstance(one.event.payload, ev.RunSucceeded) for one in events)
    ]


def every_effect_belongs_to_an_attempt(
    record: Record, effects: list[tuple[str, str, int, float]]
) -> list[str]:
    """Nothing was executed that the ledger does not know of."""
    launched = {
        (run_id, one.event.payload.step_id, one.event.payload.attempt)
        for run_id, events in record.runs.items()
        for one in events
        if isinstance(one.event.payload, ev.AttemptLaunched)
    }
    return [f"{effect[:3]} was never launched" for effect in effects if effect[:3] not in launched]


def every_step_left_its_output(
    record: Record, effects: list[tuple[str, str, int, float]], lines: set[tuple[str, ...]]
) -> list[str]:
    """Of the attempt that the ledger calls finished, the row and the line are there, once."""
    times = Counter(effect[:3] for effect in effects)
    found = []
    for run_id, events in record.runs.items():
        for one in events:
            done = one.event.payload
            if not isinstance(done, ev.AttemptFinished):
                continue
            key = (run_id, done.step_id, done.attempt or 0)
            if times[key] != 1 or (run_id, done.step_id, str(done.attempt)) not in lines:
                found.append(f"{key} is finished, with {times[key]} rows")
            if done.outputs.get("made") != f"{done.step_id[1:]}-{run_id}":
                found.append(f"{key} has lost its output: {done.outputs}")
    return found


def nobody_wrote_after_the_next_one_began(
    record: Record, effects: list[tuple[str, str, int, float]]
) -> list[str]:
    """A frozen worker's step must be gone before another worker begins the same one."""
    begun: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for run_id, events in record.runs.items():
        for one in events:
            start = one.event.payload
            if isinstance(start, ev.AttemptStarted):
                begun[run_id, start.step_id].append((start.attempt or 0, one.event.at.wall_us / 1e6))
    return [
        f"{run_id} {step}: attempt {attempt} wrote {at - later:.3f} s after attempt {number} had begun"
        for run_id, step, attempt, at in effects
        for number, later in begun[run_id, step]
        if number > attempt and at > later
    ]


def orphans(root: str, patience_s: float = 10.0) -> list[str]:
    """Processes of the storm that are still there."""
    deadline_s = time.monotonic() + patience_s
    while (left := _marked(root)) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    return left


def _marked(root: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={root}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(f"{path.name} {(path / 'cmdline').read_bytes()[:200]!r}")
        except OSError:
            continue
    return found


def told(root: Path) -> Counter[str]:
    """What the workers said, by kind."""
    counts: Counter[str] = Counter()
    for line in (root / "workers.log").read_text().splitlines():
        try:
            notice: Any = json.loads(line)
        except ValueError:
            counts["other"] += 1
        else:
            counts[notice.get("event", "other")] += 1
    return counts


_SUBMIT = """
import asyncio, os, pathlib, sys
from recoup.app import open_app
from recoup.documents.plan_file import read_plan
from recoup.fleet.queued import Queued
from recoup.model.policy import Policy
from recoup.operations.submission import enqueue
from recoup.settings import read_settings

root, runs, workflows = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
steps = (root / "steps.yaml").read_text()
plans = []
for number in range(min(runs, workflows)):
    path = root / f"plan-{number}.yaml"
    path.write_text(f"version: 1\\nname: flow-{number}\\nsteps:\\n{steps}")
    plans.append(read_plan(path, Policy()))

async def main():
    async with open_app(read_settings(os.environ, root), os.environ) as app:
        for number in range(runs):
            await enqueue(app, plans[number % len(plans)], {}, None, Queued(priority=number % 3))

asyncio.run(main())
"""
