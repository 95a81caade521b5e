"""Cost of a million old runs for new ones: a full database compared with an empty one, as ratios.

The rows are what the ledger would have left: a stream, three events, a row, an attempt and a released lease for each
run, and one result for each in the streams of fifty workflows. The same work and the same queries then run on the full
and the empty database, alternating, in one process; each figure is the median of the ratios. Bar: 1.2 for each. At the
end some of the runs are deleted, as `recoup prune` does it.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from benchmarks.durable_steps import in_folder
from benchmarks.peers.environments import PLACE
from benchmarks.progress import doing
from benchmarks.report import Figure, of_rounds, scaled
from recoup.clock import SystemClock
from recoup.kernel.canonical import digest
from recoup.ledger.folds import STATE_LAG_EVENTS, encode_state
from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.ledger.sqlite import SqliteLedger
from recoup.model import events as ev
from recoup.model.ids import ProcessIdentity, run_stream, workflow_stream
from recoup.model.plan import Plan
from recoup.model.run import WorkflowState
from recoup.model.storage import Append, Draft, RunFilter, StreamAppend
from recoup.ports import Ledger
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.house import House, plan_of
from recoup.testing.postgres import postgres_server
from recoup.testing.runtime import ScriptedRuntime

RUNS = int(os.environ.get("RECOUP_BENCH_RUNS") or scaled(1_000_000, 5_000))
WORKFLOWS = 50
ROUNDS = scaled(41, 3)
STEPS = 100
OPEN = 50
BAR = 1.2
FORGOTTEN = 2_000
OLD_US = 1_700_000_000_000_000
OWNER = ProcessIdentity("bench", "boot", 1, 1)
REDACTOR = SecretRedactor(pattern_set(default_cache(os.environ)))

Work = Callable[[], Awaitable[object]]


def run() -> list[Figure]:
    PLACE.mkdir(exist_ok=True)
    figures = in_folder(lambda folder: asyncio.run(on_sqlite(folder)))
    with postgres_server(durable=True, folder=PLACE) as server:
        urls = (server.prepared_database(), server.prepared_database())
        figures += in_folder(lambda folder: asyncio.run(on_postgres(folder, *urls)))
    return figures


async def on_sqlite(folder: Path) -> list[Figure]:
    full, empty = folder / "full" / "ledger.db", folder / "empty" / "ledger.db"
    for path in (full, empty):
        await SqliteLedger(path).close()
    doing(f"SQLite: making {RUNS:,} finished runs")
    began_s = time.perf_counter()
    fill_sqlite(full)
    took_s = time.perf_counter() - began_s

    async def opened(is_full: bool) -> Ledger:
        return SqliteLedger(full if is_full else empty)

    return await side_by_side("SQLite", folder, opened, took_s)


async def on_postgres(folder: Path, full: str, empty: str) -> list[Figure]:
    doing(f"PostgreSQL: making {RUNS:,} finished runs")
    began_s = time.perf_counter()
    fill_postgres(full)
    took_s = time.perf_counter() - began_s

    async def opened(is_full: bool) -> Ledger:
        return await PostgresLedger.open(full if is_full else empty)

    return await side_by_side("PostgreSQL", folder, opened, took_s)


async def side_by_side(
    name: str, folder: Path, opened: Callable[[bool], Awaitable[Ledger]], took_s: float
) -> list[Figure]:
    for is_full in (True, False):
        ledger = await opened(is_full)
        await open_runs(ledger)
        await ledger.close()
    ratios: dict[str, list[float]] = {}
    for number in range(-2, ROUNDS):
        doing(f"{name}, a full database and an empty one by turns: round {number + 3} of {ROUNDS + 2}")
        sides = [number % 2 == 0, number % 2 != 0]
        found: dict[bool, dict[str, float]] = {}
        for is_full in sides:
            ledger = await opened(is_full)
            found[is_full] = await measured(ledger, folder / f"{name}-{is_full}-{number}", number)
            await ledger.close()
        for what, seconds in found[True].items():
            if number >= 0:
                ratios.setdefault(what, []).append(seconds / found[False][what])
    figures = [Figure(f"{name}: {RUNS:,} finished runs created in", took_s, "s")]
    figures += [
        of_rounds(f"{name}: {what}, full / empty", many, "times", bar=BAR, at_most=True)
        for what, many in ratios.items()
    ]
    ledger = await opened(True)
    figures += [Figure(f"{name}: runs pruned", await forgotten_per_s(ledger), "runs/s")]
    await ledger.close()
    return figures


async def open_runs(ledger: Ledger) -> None:
    """Runs of a queue that want a driver; half of them have one. And the workflows that are asked about."""
    clock = SystemClock()
    for number in range(OPEN):
        fact = ev.RunSubmitted(
            workflow="open",
            plan_digest="p",
            plan=Plan(name="open", steps=()),
            plan_redacted=False,
            inputs={},
            policy_digest="q",
            queue="q",
        )
        await append(ledger, run_stream(f"20270101-open-{number:03}"), fact)
        if number % 2:
            await ledger.claim(f"20270101-open-{number:03}", OWNER, 3600.0, clock.now())
        result = ev.WorkflowStepResult(run_id="r", step_id="s", result="passed", attempts=1, tokens=0)
        await append(ledger, workflow_stream(f"w{number}"), result, 2 * STATE_LAG_EVENTS)


async def append(ledger: Ledger, stream: str, fact: ev.Payload, times: int = 1) -> None:
    draft = Draft(fact.TYPE, REDACTOR.seal(fact))
    await ledger.append(Append(at=SystemClock().now(), streams=(StreamAppend(stream, (draft,) * times),)))


async def measured(ledger: Ledger, folder: Path, number: int) -> dict[str, float]:
    clock = SystemClock()

    async def claim_and_release() -> None:
        for one in range(20):
            lease = await ledger.claim(f"20270102-claim-{number}-{one}", OWNER, 60.0, clock.now())
            assert lease is not None
            await ledger.release(lease)

    async def wanting() -> None:
        assert len(await ledger.wanting()) >= OPEN // 2

    async def held() -> None:
        assert len(await ledger.held(clock.now())) == OPEN // 2

    async def newest() -> None:
        assert len((await ledger.runs(limit=20)).rows) == 20

    async def of_status() -> None:
        await ledger.runs(RunFilter(statuses=("running",)), limit=20)

    async def by_prefix() -> None:
        assert len(await ledger.find_runs("20270101-open-0", 3)) == 3

    async def states() -> None:
        for one in range(WORKFLOWS):
            await ledger.workflow_state(f"w{one}")

    house = House(folder, ScriptedRuntime(), clock, redactor=REDACTOR, ledger=ledger)
    run_id = f"20270103-steps-{number:03}"
    await house.submit(plan_of(*[f"s{step}" for step in range(STEPS)]), run_id)
    driver = await house.driver(run_id)
    found = {"one run of 100 steps": await timed(driver.drive)}
    found["state of a workflow, reloaded"] = await timed(states)
    for what, work, times in (
        ("claim and release", claim_and_release, 1),
        ("wanting, 50 open runs", wanting, 20),
        ("held, 50 open runs", held, 20),
        ("the newest 20 runs", newest, 20),
        ("runs by status", of_status, 20),
        ("find a run", by_prefix, 20),
    ):
        found[what] = await timed(work, times)
    return found


async def timed(work: Work, times: int = 1) -> float:
    if times > 1:
        await work()
    began_s = time.perf_counter()
    for _ in range(times):
        await work()
    return time.perf_counter() - began_s


async def forgotten_per_s(ledger: Ledger) -> float:
    clock, note = SystemClock(), ev.LedgerPruned(before_us=OLD_US * 2)
    before_us = OLD_US + 2_000_000_000_000
    began_s, gone, after = time.perf_counter(), 0, ""
    while gone < FORGOTTEN:
        page = await ledger.ended(before_us, after, 200)
        run_ids = [one.run_id for one in page]
        gone += len(
            await ledger.forget(run_ids, before_us, clock.now(), Draft(note.TYPE, REDACTOR.seal(note)))
        )
        after = run_ids[-1]
    return gone / (time.perf_counter() - began_s)


# What the ledger would have left


def texts() -> tuple[str, str, str, str]:
    """The payloads of three events of a run, and of a result in its workflow."""
    plan = plan_of("fetch", "build", "publish")
    submitted = ev.RunSubmitted(
        workflow="w",
        plan_digest=digest(msgspec.to_builtins(plan)),
        plan=plan,
        plan_redacted=False,
        inputs={},
        policy_digest=digest("policy"),
        queue="q",
    )
    started = ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest=digest("policy"))
    ended = ev.RunSucceeded(reason="all 3 steps are done", known_good_prefix_length=3)
    result = ev.WorkflowStepResult(run_id="r", step_id="s", result="passed", attempts=1, tokens=0)
    first, second, third, fourth = (
        REDACTOR.seal(fact).data.decode() for fact in (submitted, started, ended, result)
    )
    return first, second, third, fourth


def state() -> str:
    return encode_state(WorkflowState(seq=RUNS // WORKFLOWS))


KINDS = (ev.RunSubmitted.TYPE, ev.RunStarted.TYPE, ev.RunSucceeded.TYPE)


def fill_sqlite(path: Path) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")
    database.execute("PRAGMA temp_store = FILE")
    run_id = "printf('20231114-%07d-%06x', n, (n * 7919) % 16777216)"
    series = f"WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {RUNS})"
    first, second, third, fourth = texts()
    at = f"{OLD_US} + n * 1000000"
    payload = "CASE seq WHEN 1 THEN ?1 WHEN 2 THEN ?2 ELSE ?3 END"
    kind = "CASE seq WHEN 1 THEN ?4 WHEN 2 THEN ?5 ELSE ?6 END"
    statements: list[tuple[str, tuple[Any, ...]]] = [
        (f"INSERT INTO streams (id, name) {series} SELECT n, 'run:' || {run_id} FROM s", ()),
        (
            f"INSERT INTO streams (id, name) {series} SELECT {RUNS} + n, 'workflow:w' || (n - 1) FROM s"
            f" WHERE n <= {WORKFLOWS}",
            (),
        ),
        (
            f"INSERT INTO events (place, wall_us, boot_us, boot_id, type, payload) {series},"
            f" q (seq) AS (VALUES (1), (2), (3)) SELECT (n << 32) + seq, {at}, 1, 'boot', {kind}, {payload}"
            " FROM s CROSS JOIN q",
            (first, second, third, *KINDS),
        ),
        (
            f"INSERT INTO events (place, wall_us, boot_us, boot_id, type, payload) {series}"
            f" SELECT (({RUNS} + 1 + n % {WORKFLOWS}) << 32) + (n + {WORKFLOWS - 1}) / {WORKFLOWS}, {at}, 1, 'boot',"
            " ?1, ?2 FROM s",
            (ev.WorkflowStepResult.TYPE, fourth),
        ),
        (
            "INSERT INTO runs (run_id, workflow, status, delivery, submitted_at_us, reason, attempts_seq, queue,"
            f" wants_driver) {series} SELECT {run_id}, 'w' || (n % {WORKFLOWS}), 'succeeded', 1, {at},"
            " 'all 3 steps are done', 3, 'q', 0 FROM s",
            (),
        ),
        (
            "INSERT INTO attempts (run_id, step_index, step_id, attempt, delivery, state, verdict, started_at_us,"
            f" ended_at_us) {series} SELECT {run_id}, 0, 'fetch', 1, 1, 'finished', 'passed', {at}, {at} FROM s",
            (),
        ),
        (
            f"INSERT INTO leases (run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s) {series}"
            f" SELECT {run_id}, 1, NULL, {at}, 1, 'boot', 10 FROM s",
            (),
        ),
        (
            f"INSERT INTO workflow_state (workflow, seq, body) {series}"
            f" SELECT 'w' || (n - 1), {RUNS // WORKFLOWS}, ? FROM s WHERE n <= {WORKFLOWS}",
            (state(),),
        ),
    ]
    for statement, values in statements:
        database.execute(statement, values)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    os.sync()


def fill_postgres(url: str) -> None:
    first, second, third, fourth = texts()
    series = f"generate_series(1, {RUNS}) AS n"
    run_id = (
        "'20231114-' || lpad(n::text, 7, '0') || '-' || lpad(to_hex((n::bigint * 7919) % 16777216), 6, '0')"
    )
    at = f"{OLD_US} + n::bigint * 1000000"
    payload = "CASE seq WHEN 1 THEN %s WHEN 2 THEN %s ELSE %s END"
    kind = "CASE seq WHEN 1 THEN %s WHEN 2 THEN %s ELSE %s END"
    statements: list[tuple[str, tuple[Any, ...]]] = [
        (
            "INSERT INTO streams (id, name, last_seq) OVERRIDING SYSTEM VALUE"
            f" SELECT n, 'run:' || {run_id}, 3 FROM {series}",
            (),
        ),
        (
            "INSERT INTO streams (id, name, last_seq) OVERRIDING SYSTEM VALUE"
            f" SELECT {RUNS} + n, 'workflow:w' || (n - 1), {RUNS // WORKFLOWS}"
            f" FROM generate_series(1, {WORKFLOWS}) AS n",
            (),
        ),
        (f"ALTER TABLE streams ALTER COLUMN id RESTART WITH {RUNS + WORKFLOWS + 1}", ()),
        (
            "INSERT INTO events (number, stream_id, seq, wall_us, boot_us, boot_id, type, payload)"
            f" SELECT n::bigint * 4 + seq, n, seq, {at}, 1, 'boot', {kind}, {payload}"
            f" FROM {series} CROSS JOIN generate_series(1, 3) AS seq",
            (*KINDS, first, second, third),
        ),
        (
            "INSERT INTO events (number, stream_id, seq, wall_us, boot_us, boot_id, type, payload)"
            f" SELECT n::bigint * 4 + 4, {RUNS} + 1 + n %% {WORKFLOWS}, (n + {WORKFLOWS - 1}) / {WORKFLOWS}, {at}, 1,"
            f" 'boot', %s, %s FROM {series}",
            (ev.WorkflowStepResult.TYPE, fourth),
        ),
        (
            "INSERT INTO runs (run_id, workflow, status, delivery, submitted_at_us, reason, attempts_seq, queue,"
            f" wants_driver) SELECT {run_id}, 'w' || (n %% {WORKFLOWS}), 'succeeded', 1, {at},"
            f" 'all 3 steps are done', 3, 'q', 0 FROM {series}",
            (),
        ),
        (
            "INSERT INTO attempts (run_id, step_index, step_id, attempt, delivery, state, verdict, started_at_us,"
            f" ended_at_us) SELECT {run_id}, 0, 'fetch', 1, 1, 'finished', 'passed', {at}, {at} FROM {series}",
            (),
        ),
        (
            "INSERT INTO leases (run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s, expires_at)"
            f" SELECT {run_id}, 1, NULL, {at}, 1, 'boot', 10, to_timestamp(({at}) / 1e6) FROM {series}",
            (),
        ),
        (
            "INSERT INTO workflow_state (workflow, seq, body)"
            f" SELECT 'w' || (n - 1), {RUNS // WORKFLOWS}, %s FROM generate_series(1, {WORKFLOWS}) AS n",
            (state(),),
        ),
        ("ANALYZE", ()),
        ("CHECKPOINT", ()),
    ]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = recoup")
        connection.execute("SET synchronous_commit = off")
        for statement, values in statements:
            if values:
                connection.execute(statement.encode(), values)
            else:
                connection.execute(statement.replace("%%", "%").encode())
