"""What a killed keeper leaves is handed to its parent by the kernel, if that parent asked for it, and ended there.

A command that kills its own keeper would otherwise get away: in a session of its own, with an empty environment, under
the first process of the machine. Only for processes that are ours from end to end (the commands): another
program may have children that we know nothing of, so there nothing is adopted and nothing is ended.
"""

from __future__ import annotations

import os
from contextlib import suppress

from recoup import children
from recoup.processes.keeper_main import PR_SET_CHILD_SUBREAPER, prctl
from recoup.processes.process_table import Process, children_pids, process_of, process_table

_adopting_pid: list[int] = []
"""The process that asked for them: a fork of it does not inherit that."""


def adopt() -> None:
    """From now on orphans below this process become its children. Nothing where the kernel refuses."""
    with suppress(OSError):
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        _adopting_pid[:] = [os.getpid()]


def table_with_orphans() -> tuple[dict[int, Process], set[int]]:
    """All processes, and those that were handed to this one. Children that we started are registered, or in our own
    session, which a process of a command can never be in."""
    if not _adopts():
        return process_table(), set()
    with children.starting() as own:
        table = process_table()
        ours = {process.pid for process in table.values() if process.parent == os.getpid()} - own
    session = os.getsid(0)
    return table, {pid for pid in ours if table[pid].session != session}


def bury_orphans() -> None:
    """Those that have ended; without this they would stay in the process table."""
    if not _adopts():
        return
    session = os.getsid(0)
    with children.starting() as own:
        dead = [process_of(pid) for pid in children_pids(os.getpid()) if pid not in own]
        for process in dead:
            if process is not None and process.state == "Z" and process.session != session:
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)


def _adopts() -> bool:
    return _adopting_pid == [os.getpid()]
