"""A process that uses a ledger on PostgreSQL: `python postgres_child.py MODE URL NAME COUNT`.

Every line that it prints stands for something that has happened.
"""

from __future__ import annotations

import asyncio
import random
import sys

from recoup.errors import Conflict
from recoup.ledger.postgres.ledger import PostgresLedger
from recoup.testing.ledger_suite import facts, into, note, result, submitted

SHARED = ("run:shared-a", "run:shared-b", "workflow:shared", "policy")


def say(*words: object) -> None:
    print(*words, flush=True)


async def append_mixed(url: str, name: str, wanted: int) -> None:
    """To streams that others write, too, in any order within one append; several tasks at once."""
    ledger = await PostgresLedger.open(url, busy_max_s=20)
    chance = random.Random(name)

    async def go_on(task: int) -> None:
        for number in range(wanted):
            token = f"{name}-{task}-{number}"
            streams = chance.sample(SHARED, k=chance.randint(1, 4))
            payload = {"workflow:shared": result("passed")}
            parts = [into(stream, payload.get(stream, note(token))) for stream in streams]
            own = into(f"run:{token}", submitted(), note(token))
            appended = await ledger.append(facts(*parts, own))
            say(token, *(f"{at.stream}={at.seq}" for at in appended.positions))

    await asyncio.gather(*(go_on(task) for task in range(4)))
    await ledger.close()


async def compete(url: str, name: str, wanted: int) -> None:
    """Appends only where it expects the end, and reads again when somebody was faster."""
    ledger = await PostgresLedger.open(url, busy_max_s=20)
    for number in range(wanted):
        while True:
            head = await ledger.head("run:race")
            try:
                await ledger.append(facts(into("run:race", note(f"{name}-{number}"), expected_seq=head)))
            except Conflict:
                continue
            say(f"{name}-{number}", head + 1)
            break
    await ledger.close()


async def open_only(url: str, _name: str, _wanted: int) -> None:
    ledger = await PostgresLedger.open(url)
    say("opened", await ledger.head("run:a"))
    await ledger.close()


if __name__ == "__main__":
    mode, url, name, wanted = sys.argv[1:]
    asyncio.run({"mixed": append_mixed, "compete": compete, "open": open_only}[mode](url, name, int(wanted)))
