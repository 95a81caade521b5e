"""The last means: find the processes of a tree whose keeper is gone by the marks in their environment."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.model.process import Abandoned
from recoup.processes.identity import boot_id, host_id, is_alive, wait_dead
from recoup.processes.marks import driver_of
from recoup.processes.orphans import bury_orphans, table_with_orphans
from recoup.processes.process_table import Process, descendants, process_of, process_table, send

KEEPER_MARK: Final = "RECOUP_KEEPER"
RUN_MARK: Final = "RECOUP_RUN_ID"
ROUNDS_MAX: Final = 100
ROUND_PAUSE_S: Final = 0.02
DEATH_S: Final = 5.0
PIDS_NAMED_MAX: Final = 20
_MARKS: Final = (f"{KEEPER_MARK}=".encode(), f"{RUN_MARK}=".encode())

Environment = frozenset[bytes]


async def sweep_marked(marker: str, sessions: Collection[int | None] = ()) -> int:
    """Kill what one keeper's commands left behind: the marked, their sessions, what was handed to this process when
    the keeper died, and all below them."""
    entry = f"{KEEPER_MARK}={marker}".encode()
    return await _sweep(lambda process: process.session in sessions or entry in _environment(process))


async def sweep_run(run_id: str) -> int:
    """Kill what any keeper's command of this run left on this host. Only when no driver has the run.

    Somebody's shell may well hold the id of a run; it does not hold a keeper's mark as well.
    """
    entry, kept = f"{RUN_MARK}={run_id}".encode(), f"{KEEPER_MARK}=".encode()
    return await _sweep(lambda process: _holds(_environment(process), entry, kept))


def abandoned() -> list[Abandoned]:
    """Drivers that are proven dead, with the runs of which they have left processes of this user here."""
    found = {_abandoned_with(process) for process in _with_marks()}
    return sorted((one for one in found if one is not None), key=lambda one: one.run_id)


async def sweep_abandoned(left: Abandoned) -> int:
    """Kill what a dead driver has left of a run. Whatever another driver has begun of it since stays."""
    return await _sweep(lambda process: _abandoned_with(process) == left, adopted=False)


def is_marked(marker: str) -> bool:
    """Whether any process that can be seen from here has this mark."""
    entry = f"{KEEPER_MARK}={marker}".encode()
    return any(entry in _environment(process) for process in _with_marks())


def _with_marks() -> Iterator[Process]:
    """All that are marked. Read without further ado: it is asked often, and hardly ever is there one."""
    for name in os.listdir("/proc"):  # noqa: PTH208 as in the process table
        if name.isdigit() and _MARKS[0] in _raw_environment(name):
            process = process_of(int(name))
            if process is not None:
                yield process


def _abandoned_with(process: Process) -> Abandoned | None:
    marks = dict(entry.partition(b"=")[::2] for entry in _environment(process) if entry.startswith(_MARKS))
    driver = driver_of(marks.get(KEEPER_MARK.encode(), b"").decode("ascii", "replace"))
    if driver is None or not _is_own(process) or is_alive(driver) is not False:
        return None
    return Abandoned(driver, marks.get(RUN_MARK.encode(), b"").decode("ascii", "replace"))


def _is_own(process: Process) -> bool:
    """Root sees the processes of all users."""
    try:
        return Path(f"/proc/{process.pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False


async def _sweep(belongs: Callable[[Process], bool], *, adopted: bool = True) -> int:
    """Kill in rounds until two found nobody: during an exec a process shows no environment for a moment. `adopted`:
    with what was handed to this process."""
    killed: set[tuple[int, int]] = set()
    clean_rounds = 0
    for _ in range(ROUNDS_MAX):
        found = _find(belongs, adopted)
        clean_rounds = 0 if found else clean_rounds + 1
        if clean_rounds == 2:
            bury_orphans()
            return len(killed)
        killed.update(process.key for process in found)
        await _kill(found)
        await asyncio.sleep(ROUND_PAUSE_S)
    raise cannot_be_killed(process.pid for process in _find(belongs, adopted))


def _find(belongs: Callable[[Process], bool], adopted: bool) -> list[Process]:
    table, orphans = table_with_orphans() if adopted else (process_table(), set[int]())
    spared = _self_and_ancestors(table)
    roots = [
        process
        for process in table.values()
        if process.pid not in spared and (process.pid in orphans or belongs(process))
    ]
    family = {
        process.pid: process for process in [*roots, *descendants(table, *(root.pid for root in roots))]
    }
    return [process for process in family.values() if process.state not in "ZX"]


def _self_and_ancestors(table: dict[int, Process]) -> set[int]:
    line = {0, 1}
    pid = os.getpid()
    while pid in table and pid not in line:
        line.add(pid)
        pid = table[pid].parent
    return line


async def _kill(processes: list[Process]) -> None:
    for process in processes:
        send(process, signal.SIGKILL)
    end_s = time.monotonic() + DEATH_S
    survivors = [p for p in processes if not await wait_dead(_identity(p), max(0, end_s - time.monotonic()))]
    if survivors:
        raise cannot_be_killed(process.pid for process in survivors)


def _identity(process: Process) -> ProcessIdentity:
    return ProcessIdentity(host_id(), boot_id(), process.pid, process.start_ticks)


def cannot_be_killed(pids: Iterable[int | str]) -> KeeperError:
    hint = "They belong to another user or hang in the kernel. End them by hand. Then: recoup resume RUN"
    named = ", ".join(str(pid) for pid in islice(pids, PIDS_NAMED_MAX))
    return KeeperError(f"processes of the command cannot be killed: {named}", hint=hint)


def _environment(process: Process) -> Environment:
    return frozenset(_raw_environment(str(process.pid)).split(b"\0"))


def _raw_environment(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 pathlib takes twice as long
            return file.read()
    except OSError:
        return b""


def _holds(environment: Environment, entry: bytes, kept: bytes) -> bool:
    return entry in environment and any(other.startswith(kept) for other in environment)
