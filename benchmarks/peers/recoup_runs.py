"""Our own runs, driven in this process: real engine, ledger and redaction, a runtime that does nothing.

`[BENCH_DATABASE=URL] recoup_runs FOLDER`: on PostgreSQL where an address is given, else on SQLite in the folder.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from benchmarks.peers.workload import measure
from recoup.clock import SystemClock
from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.ledger.sqlite import SqliteLedger
from recoup.ports import Ledger
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import ScriptedRuntime


async def main(folder: Path, where: str) -> None:
    ledger: Ledger = await PostgresLedger.open(where) if where else SqliteLedger(folder / "ledger.db")
    redactor = SecretRedactor(pattern_set(default_cache(os.environ)))
    house = House(folder, ScriptedRuntime(), SystemClock(), redactor=redactor, ledger=ledger)
    numbers = itertools.count()

    async def work(count: int) -> None:
        run_id = f"run-{next(numbers)}"
        await house.submit(plan_of(*[f"s{number}" for number in range(count)]), run_id)
        ended = await (await house.driver(run_id)).drive()
        assert ended.status == "succeeded"

    await measure(lambda: work(1), work)
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), os.environ.get("BENCH_DATABASE", "")))
