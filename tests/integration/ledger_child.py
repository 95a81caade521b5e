"""A process that uses a ledger until it is told otherwise or killed: `python ledger_child.py MODE PATH …`.

Every line that it prints stands for something that has happened.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import signal
import sqlite3
import sys
from itertools import count
from pathlib import Path

from recoup.errors import Conflict, LedgerError
from recoup.ledger.sqlite import SqliteLedger
from recoup.testing.ledger_suite import facts, into, note, submitted

STREAM = "run:shared"


def say(*words: object) -> None:
    print(*words, flush=True)


async def append_for_ever(path: Path, name: str, tasks: int) -> None:
    """Says token and sequence of each append as soon as it is acknowledged."""
    ledger = SqliteLedger(path)

    async def go_on(task: int) -> None:
        for number in count():
            token = f"{name}-{task}-{number}"
            appended = await ledger.append(facts(into(STREAM, note(token)), into(f"run:{name}", submitted())))
            say(token, appended.positions[0].seq)

    await asyncio.gather(*(go_on(task) for task in range(tasks)))


async def compete(path: Path, name: str, wanted: int) -> None:
    """Appends only where it expects the end, and reads again when somebody was faster."""
    ledger = SqliteLedger(path)
    for number in range(wanted):
        while True:
            head = await ledger.head(STREAM)
            try:
                await ledger.append(facts(into(STREAM, note(f"{name}-{number}"), expected_seq=head)))
            except Conflict:
                continue
            say(f"{name}-{number}", head + 1)
            break
    await ledger.close()


async def append_some(path: Path, name: str, wanted: int) -> None:
    """Says which appends were acknowledged and which were refused."""
    ledger = SqliteLedger(path)
    for number in range(wanted):
        token = f"{name}-{number}"
        try:
            appended = await ledger.append(facts(into(STREAM, note(token))))
        except LedgerError as error:
            say("refused", token, type(error).__name__)
        else:
            say("acknowledged", token, appended.positions[0].seq)
    await ledger.close()


async def run_into_a_limit(path: Path, limit_bytes: int) -> None:
    """No file may grow beyond the limit, until an append was refused."""
    ledger = SqliteLedger(path)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    for number in count():
        try:
            await ledger.append(facts(into(STREAM, note(f"before-{number} " + "x" * 20_000))))
        except LedgerError as error:
            say("refused", number, str(error).replace("\n", " "))
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    appended = await ledger.append(facts(into(STREAM, note("after"))))
    say("acknowledged", appended.positions[0].seq)
    await ledger.close()


def freeze_with_the_turnstile(path: Path) -> None:
    locks = [os.open(path.with_suffix(suffix), os.O_RDWR) for suffix in (".turn", ".write")]
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX)
    say("frozen")
    os.kill(os.getpid(), signal.SIGSTOP)


def hold_the_database(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    say("released")
    sys.stdin.readline()


def main(mode: str, path: Path, *rest: str) -> None:
    match mode:
        case "append":
            asyncio.run(append_for_ever(path, rest[0], int(rest[1])))
        case "compete":
            asyncio.run(compete(path, rest[0], int(rest[1])))
        case "some":
            asyncio.run(append_some(path, rest[0], int(rest[1])))
        case "limit":
            asyncio.run(run_into_a_limit(path, int(rest[0])))
        case "freeze":
            freeze_with_the_turnstile(path)
        case "hold":
            hold_the_database(path)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
