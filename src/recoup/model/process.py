"""A process tree to be kept: what to start, and how it ended."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from recoup.model.ids import ProcessIdentity
from recoup.model.policy import IdleBy


class EndedBy(StrEnum):
    """Why a process tree is gone."""

    EXIT = "exit"
    WALL_TIMEOUT = "wall_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    STOPPED = "stopped"
    LIFELINE = "lifeline"
    SPAWN_FAILED = "spawn_failed"
    PROCESSES_MAX = "processes_max"
    MEMORY_MAX = "memory_max"


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to start and its limits."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    wall_timeout_s: float
    idle_timeout_s: float | None
    idle_by: IdleBy = IdleBy.OUTPUT
    grace_s: float = 5
    stdin: bytes = b""
    """What it can read there, then the end of it. Held in memory only: arguments and environments are less private."""
    processes_max: int | None = None
    """How many processes the tree may have at once. None: nobody counts them."""
    memory_max_bytes: int | None = None
    """How much memory they may take together. None: nobody looks. 0: nearly all that this machine has for us."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a process tree ended. When this exists no process of the tree does."""

    ended_by: EndedBy
    exit_code: int | None = None
    signal: int | None = None
    duration_ms: int = 0
    idle_ms: int = 0
    """Between the last progress and the end."""
    cpu_ms: int = 0
    killed: int = 0
    """How many processes had to be killed after the main one was gone or told to stop."""
    out_of_memory: bool = False
    """Its command was killed, or one of its children, while the kernel killed somebody for want of memory."""
    seen: int = 0
    """For `processes_max` and `memory_max`: how many processes or bytes there were at least."""
    limit: int = 0
    """How many there might be."""
    errno: int = 0
    """For `spawn_failed`: the number of the operating system's error; 0 if there is none."""
    detail: str = ""
    """For `spawn_failed`: the operating system's words. For a tree whose keeper was killed: that it was."""


class Abandoned(msgspec.Struct, frozen=True):
    """Processes of a run that outlived the driver that began them."""

    driver: ProcessIdentity
    run_id: str
