"""A process that exports until it is told otherwise or killed: `python audit_child.py MODE LEDGER AUDIT …`.

Every line that it prints stands for something that has happened.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import shutil
import sys
from pathlib import Path

from recoup.audit.exporting import export
from recoup.errors import StateError
from recoup.ledger.sqlite import SqliteLedger
from recoup.testing.dying import die_at
from recoup.testing.ledger_suite import START, facts, into, note

FILE_BYTES_MAX = 20_000
CALLS_MAX = 200
LONG_CHARS = 9_000
"""More than a pipe or a page takes at once: two such lines would interleave if nobody took turns."""


def say(*words: object) -> None:
    print(*words, flush=True)


async def export_for_ever(path: Path, root: Path) -> None:
    ledger = SqliteLedger(path)
    while True:
        done = await export(ledger, root, START, file_bytes_max=FILE_BYTES_MAX)
        say("busy" if done.busy else done.n)


async def append_and_export(path: Path, root: Path, name: str, rounds: int) -> None:
    """As a driver does it at the end of each run."""
    ledger = SqliteLedger(path)
    for number in range(rounds):
        await ledger.append(facts(into(f"run:{name}-{number}", note(), note("x" * LONG_CHARS))))
        done = await export(ledger, root, START, file_bytes_max=FILE_BYTES_MAX)
        say("busy" if done.busy else done.n)
    await ledger.close()


async def run_into_a_limit(path: Path, root: Path, limit_bytes: int) -> None:
    """No file may grow beyond the limit until an export was refused. The ledger must not mind."""
    ledger = SqliteLedger(path)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    for _ in range(2):
        try:
            await export(ledger, root, START)
        except StateError as error:
            say("refused", str(error).replace("\n", " "))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await ledger.append(facts(into("run:a", note("after"))))
    say("appended")
    await ledger.close()


def die_at_every_call(path: Path, prepared: Path) -> None:
    """For each call that writes: a copy of the audit, and a process that dies in the midst of this call."""
    for number in range(1, CALLS_MAX):
        root = prepared.with_name(f"{prepared.name}-{number}")
        shutil.copytree(prepared, root)
        child = os.fork()
        if child == 0:
            die_at(number, CUTS)
            asyncio.run(_export_once(path, root))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return
        say(root.name)


async def _export_once(path: Path, root: Path) -> None:
    ledger = SqliteLedger(path)
    await export(ledger, root, START, file_bytes_max=FILE_BYTES_MAX)
    await ledger.close()


CUTS = {"write": 1, "pwrite": 1, "fsync": None, "ftruncate": None, "rename": None, "replace": None}


def hold_the_lock(root: Path) -> None:
    folder = os.open(root, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    say("held")
    sys.stdin.readline()


def main(mode: str, path: Path, root: Path, *rest: str) -> None:
    match mode:
        case "export":
            asyncio.run(export_for_ever(path, root))
        case "both":
            asyncio.run(append_and_export(path, root, rest[0], int(rest[1])))
        case "limit":
            asyncio.run(run_into_a_limit(path, root, int(rest[0])))
        case "die":
            die_at_every_call(path, root)
        case "hold":
            hold_the_lock(root)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
