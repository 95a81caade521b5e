"""A process that claims runs and gives them back: `LEDGER=WHERE MET=FILE claim_child.py RUNS TIMES`, one after the other.
The first one is held until another process was refused it, which makes the file: otherwise they might never meet.

Says for every request `WORD RUN EPOCH BEGAN ENDED` on the machine's own clock, once all are made: `granted`, `refused` (epoch 0),
`released`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from recoup.clock import SystemClock
from recoup.ledger.sqlite import SqliteLedger
from recoup.ports import Ledger
from recoup.processes.identity import own_identity

LEASE_S = 3_600.0
"""Nobody shall lose one here: only who gives it back lets another in."""
MEET_S = 60.0


async def opened(where: str) -> Ledger:
    if "://" not in where:
        return SqliteLedger(Path(where), busy_max_s=60)
    from recoup.ledger.postgres.ledger import PostgresLedger

    return await PostgresLedger.open(where)


async def until_made(file: Path) -> None:
    deadline_s = time.monotonic() + MEET_S
    while not file.exists() and time.monotonic() < deadline_s:
        await asyncio.sleep(0.001)


async def main(runs: int, times: int) -> None:
    ledger, clock, me = await opened(os.environ["LEDGER"]), SystemClock(), own_identity()
    said: list[tuple[object, ...]] = []
    met = Path(os.environ["MET"])
    # One order for all, so that they meet; who goes ahead is caught up with when it is refused.
    wanted = [number for _ in range(times) for number in range(runs)]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for number in wanted:
        run_id, began = f"run-{number}", time.monotonic_ns()
        lease = await ledger.claim(run_id, me, LEASE_S, clock.now())
        said.append(
            (
                "granted" if lease else "refused",
                number,
                lease.epoch if lease else 0,
                began,
                time.monotonic_ns(),
            )
        )
        if lease is None:
            met.touch()
            continue
        await until_made(met)
        began = time.monotonic_ns()
        await ledger.release(lease)
        said.append(("released", number, lease.epoch, began, time.monotonic_ns()))
    await ledger.close()
    sys.stdout.write("".join(f"{' '.join(map(str, words))}\n" for words in said))


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
