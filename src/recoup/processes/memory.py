"""Whether a killed process was killed for want of memory. Nobody is told: the kernel only counts."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec

from recoup.model.process import Ended, EndedBy

_BY_A_SHELL = 128 + signal.SIGKILL
"""How a shell, and most others, tell that a child of theirs was killed."""


def kills_for_memory(counters: Path = Path("/proc/vmstat")) -> int:
    """Since the machine was started, by any limit of memory. 0 where the kernel does not say."""
    try:
        lines = counters.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def with_reason(ended: Ended, kills_before: int) -> Ended:
    """The count is the machine's: only who was killed himself may be among them."""
    is_killed = ended.signal == signal.SIGKILL or ended.exit_code == _BY_A_SHELL
    if ended.ended_by is not EndedBy.EXIT or not is_killed or kills_for_memory() <= kills_before:
        return ended
    return msgspec.structs.replace(ended, out_of_memory=True)
