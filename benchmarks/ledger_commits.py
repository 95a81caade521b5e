"""Cost of an append compared with a bare SQLite commit of the same bytes, and the gain from many concurrent appends.

Both run in one process, alternating, on files in the same folder; figures are medians of the rounds. "Fresh" starts
each round with a new file, as a short run does; "lasting" keeps one, as a worker does. Next to a greedy writer,
another process that appends without a pause, the longest append counts: no writer may starve.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.peers.environments import PLACE, ROOT
from benchmarks.progress import doing, rounds
from benchmarks.report import Figure, against, of_rounds, scaled, spread_of
from recoup.ledger.connection import open_writer
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.events import AttemptFinished, AttemptStarted, Payload, RunSubmitted, WorkflowStepResult
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import Plan
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.redaction.redactor import SecretRedactor

ROUNDS = scaled(15, 2)
STEPS = 100
RUNS_AT_ONCE = 50
STEPS_EACH = 20
FLOORS = {"fresh": 0.75, "lasting": None}
AT_ONCE_BAR = 4000.0
BESIDE_APPENDS = scaled(200, 20)
BESIDE_PAUSE_S = 0.005
BESIDE_BAR_MS = 500.0
GREEDY_AT_ONCE = 20

_REDACTOR = SecretRedactor()
_OWNER = ProcessIdentity("bench", "0f8fad5b-d9cb-469f-a165-70867728950e", 4242, 123_456)
_DIGEST = "sha256:" + "ab" * 32


def run() -> list[Figure]:
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        rates = asyncio.run(_measure(Path(folder)))
        beside_ms = _beside_a_greedy_writer(Path(folder) / "beside" / "ledger.db")
    figures = [
        of_rounds(
            f"appends to a {kind} file",
            rates[f"ledger, {kind}"],
            "/s",
            peers=[
                against(
                    "bare SQLite, as many bytes",
                    rates[f"ledger, {kind}"],
                    rates[f"bare, {kind}"],
                    floor=floor,
                    bare=True,
                )
            ],
        )
        for kind, floor in FLOORS.items()
    ]
    at_once = of_rounds("appends of 50 runs at once", rates["ledger, at once"], "/s", AT_ONCE_BAR)
    return [*figures, at_once, _longest(beside_ms)]


def _longest(waits_ms: list[float]) -> Figure:
    name = f"longest of {len(waits_ms)} appends beside a greedy writer"
    return Figure(name, max(waits_ms), "ms", BESIDE_BAR_MS, at_most=True, spread=spread_of(waits_ms))


async def _measure(folder: Path) -> dict[str, list[float]]:
    lasting_bare = _bare_table(folder / "lasting-bare.db")
    lasting = SqliteLedger(folder / "lasting" / "ledger.db")
    rates: dict[str, list[float]] = {}
    for number in rounds(ROUNDS, "bare commits and appends by turns"):
        bare = _bare_table(folder / f"bare-{number}.db")
        ledger = SqliteLedger(folder / f"fresh-{number}" / "ledger.db")
        rates.setdefault("bare, fresh", []).append(_bare_rate(bare))
        rates.setdefault("ledger, fresh", []).append(await _rate(ledger, f"r{number}"))
        rates.setdefault("bare, lasting", []).append(_bare_rate(lasting_bare))
        rates.setdefault("ledger, lasting", []).append(await _rate(lasting, f"r{number}"))
        rates.setdefault("ledger, at once", []).append(await _rate_at_once(ledger))
        bare.close()
        await ledger.close()
    lasting_bare.close()
    await lasting.close()
    return rates


def _bare_table(path: Path) -> sqlite3.Connection:
    connection = open_writer(path)
    connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, body TEXT)")
    return connection


def _bare_rate(connection: sqlite3.Connection) -> float:
    body = "".join(draft.payload.text for part in _step("r", 1, None).streams for draft in part.drafts)
    begin = time.perf_counter()
    for _ in range(STEPS):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO bare (body) VALUES (?)", (body,))
        connection.execute("COMMIT")
    return STEPS / (time.perf_counter() - begin)


async def _rate(ledger: SqliteLedger, run_id: str) -> float:
    lease = await _submitted(ledger, run_id)
    appends = [_step(run_id, index, lease) for index in range(1, STEPS + 1)]
    begin = time.perf_counter()
    for append in appends:
        await ledger.append(append)
    return STEPS / (time.perf_counter() - begin)


async def _rate_at_once(ledger: SqliteLedger) -> float:
    leases = [await _submitted(ledger, f"many-{number}") for number in range(RUNS_AT_ONCE)]
    work = [[_step(lease.run_id, index, lease) for index in range(1, STEPS_EACH + 1)] for lease in leases]
    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for appends in work:
            group.create_task(_append_all(ledger.append, appends))
    return RUNS_AT_ONCE * STEPS_EACH / (time.perf_counter() - begin)


async def _append_all(append: Callable[[Append], Awaitable[object]], appends: list[Append]) -> None:
    for one in appends:
        await append(one)


def _beside_a_greedy_writer(path: Path) -> list[float]:
    doing("appends beside a greedy writer")
    with _greedy_writer(path) as greedy:
        waits_ms = asyncio.run(_waits_ms(path))
        assert greedy.poll() is None, "the greedy writer ended too early to be in anybody's way"
    return waits_ms


@contextlib.contextmanager
def _greedy_writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.ledger_commits", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "writing\n", "the greedy writer did not begin"
            yield child
        finally:
            child.kill()


async def _waits_ms(path: Path) -> list[float]:
    ledger, waits_ms = SqliteLedger(path), []
    lease = await _submitted(ledger, "patient")
    for index in range(1, BESIDE_APPENDS + 1):
        append, begin = _step("patient", index, lease), time.perf_counter()
        await ledger.append(append)
        waits_ms.append(1000 * (time.perf_counter() - begin))
        await asyncio.sleep(BESIDE_PAUSE_S)
    await ledger.close()
    return waits_ms


async def _write_for_ever(path: Path) -> None:
    """In a process of its own, until it is killed."""
    ledger = SqliteLedger(path)
    leases = [await _submitted(ledger, f"greedy-{number}") for number in range(GREEDY_AT_ONCE)]
    print("writing", flush=True)
    async with asyncio.TaskGroup() as group:
        for lease in leases:
            group.create_task(_append_for_ever(ledger, lease))


async def _append_for_ever(ledger: SqliteLedger, lease: Lease) -> None:
    for index in count(1):
        await ledger.append(_step(lease.run_id, index, lease))


async def _submitted(ledger: SqliteLedger, run_id: str) -> Lease:
    lease = await ledger.claim(run_id, _OWNER, 10, _now())
    assert lease is not None
    submitted = RunSubmitted(
        workflow="bench",
        plan_digest=_DIGEST,
        plan=Plan(name="bench", steps=()),
        plan_redacted=False,
        inputs={},
        policy_digest=_DIGEST,
    )
    drafts = (_draft(submitted), _draft(_started(0)))
    await ledger.append(Append(at=_now(), streams=(StreamAppend(f"run:{run_id}", drafts),), lease=lease))
    return lease


def _step(run_id: str, index: int, lease: Lease | None) -> Append:
    drafts = (_draft(_finished(index - 1)), _draft(_started(index)))
    result = WorkflowStepResult(run_id=run_id, step_id=f"step-{index}", result="passed", attempts=1)
    streams = (StreamAppend(f"run:{run_id}", drafts), StreamAppend("workflow:bench", (_draft(result),)))
    return Append(at=_now(), streams=streams, lease=lease)


def _started(index: int) -> AttemptStarted:
    return AttemptStarted(
        step_id=f"step-{index}",
        step_index=index,
        attempt=1,
        policy_digest=_DIGEST,
        delivery=1,
        kind="run",
        args_digest=_DIGEST,
        pre_state=None,
        workspace=None,
        inline=True,
    )


def _finished(index: int) -> AttemptFinished:
    return AttemptFinished(
        step_id=f"step-{index}",
        step_index=index,
        attempt=1,
        policy_digest=_DIGEST,
        verdict="passed",
        duration_ms=1,
        exit_code=0,
        outputs={"count": "3"},
        evidence=(_DIGEST,),
    )


def _draft(payload: Payload) -> Draft:
    return Draft(payload.TYPE, _REDACTOR.seal(payload))


def _now() -> Instant:
    return Instant(time.time_ns() // 1000, time.monotonic_ns() // 1000, _OWNER.boot_id)


if __name__ == "__main__":
    asyncio.run(_write_for_ever(Path(sys.argv[1])))
