"""How much memory there is, and whether a killed process was killed for want of it. Nobody is told: the kernel only
counts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from recoup.model.process import Ended, EndedBy

_BY_A_SHELL = 128 + signal.SIGKILL
"""How a shell, and most others, tell that a child of theirs was killed."""

_SHARE: Final = 0.9
"""A tree that has taken so much of it is about to be killed by the kernel, or others in its place: the driver, the
ledger's database, a neighbour. Nobody who gets along with the machine as it is comes so far."""


def nearly_all_memory(root: Path = Path("/")) -> int:
    """What one process tree may take where nobody said how much, in bytes: most of what the machine has, or the group
    of processes that we are in. 0 where the kernel does not say."""
    most = min((size for size in (_of_machine(root), *_of_groups(root)) if size > 0), default=0)
    return int(most * _SHARE)


def _of_machine(root: Path) -> int:
    lines = _lines(root / "proc/meminfo")
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemTotal:")), 0)


def _of_groups(root: Path) -> Iterator[int]:
    """Ours and those above it: each limits what is below."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            yield from _limits_up_from(root / "sys/fs/cgroup", group, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits_up_from(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes")


def _limits_up_from(top: Path, group: str, name: str) -> Iterator[int]:
    """In a container the group may be told as its host sees it: then only the topmost is to be found."""
    below = Path(group.lstrip("/"))
    for folder in (below, *below.parents):
        yield from (int(line) for line in _lines(top / folder / name) if line.isdigit())


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def kills_for_memory(counters: Path = Path("/proc/vmstat")) -> int:
    """Since the machine was started, by any limit of memory. 0 where the kernel does not say."""
    lines = _lines(counters)
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def with_reason(ended: Ended, kills_before: int) -> Ended:
    """The count is the machine's: only who was killed himself may be among them."""
    is_killed = ended.signal == signal.SIGKILL or ended.exit_code == _BY_A_SHELL
    if ended.ended_by is not EndedBy.EXIT or not is_killed or kills_for_memory() <= kills_before:
        return ended
    return msgspec.structs.replace(ended, out_of_memory=True)
