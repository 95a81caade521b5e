"""The audit: exporting and verifying 100,000 events, and the cost of an export at the end of a run."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure, of_rounds, scaled
from recoup.audit.exporting import export
from recoup.audit.verifying import verify
from recoup.ledger.sqlite import SqliteLedger
from recoup.testing.ledger_suite import START, facts, into, note, submitted

EVENTS = scaled(100_000, 5_000)
STREAM_EVENTS = 1_000
ROUNDS = 50


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_figures(Path(folder)))


async def _figures(folder: Path) -> list[Figure]:
    ledger, root = SqliteLedger(folder / "ledger.db"), folder / "audit"
    for number in range(EVENTS // STREAM_EVENTS):
        notes = [note("x" * 300) for _ in range(STREAM_EVENTS - 1)]
        await ledger.append(facts(into(f"run:{number}", submitted(), *notes)))
    began = time.perf_counter()
    assert (await export(ledger, root, START)).events == EVENTS
    exported_s = time.perf_counter() - began
    began = time.perf_counter()
    assert (await verify(root, ledger)).intact
    verified_s = time.perf_counter() - began
    small_ms = [await _small_ms(ledger, root) for _ in range(ROUNDS)]
    await ledger.close()
    return [
        Figure(f"{EVENTS:,} events exported", exported_s, "s", bar=10, at_most=True),
        Figure(f"{EVENTS:,} events verified against the ledger", verified_s, "s"),
        of_rounds("the 20 events of a run exported", small_ms, "ms", at_most=True),
    ]


async def _small_ms(ledger: SqliteLedger, root: Path) -> float:
    await ledger.append(facts(into("run:last", *(note() for _ in range(20)))))
    began = time.perf_counter()
    await export(ledger, root, START)
    return (time.perf_counter() - began) * 1000
