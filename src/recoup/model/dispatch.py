"""Hints that a run may be worth driving, and what is known of those that wait."""

from __future__ import annotations

import re

import msgspec

PRIORITY_MAX = 1_000_000
NEEDS_MAX = 16
RUN_ID_CHARS_MAX = 200
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""How a queue and a capability may be called."""


class Hint(msgspec.Struct, frozen=True):
    """A run may be worth driving. Whoever drives it needs its lease: a hint is no claim."""

    run_id: str
    queue: str = "default"
    priority: int = 0
    """Higher first, then oldest."""
    needs: tuple[str, ...] = ()
    """Capabilities that a worker must have, sorted."""

    def __post_init__(self) -> None:
        if not 0 < len(self.run_id) <= RUN_ID_CHARS_MAX or "\0" in self.run_id:
            raise ValueError(f"a run's id has 1 to {RUN_ID_CHARS_MAX} characters")
        if abs(self.priority) > PRIORITY_MAX:
            raise ValueError(f"a priority lies between -{PRIORITY_MAX} and {PRIORITY_MAX}")
        for name in (self.queue, *self.needs):
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a queue or capability: letters, digits, _ . - only")
        if len(self.needs) > NEEDS_MAX or list(self.needs) != sorted(set(self.needs)):
            raise ValueError(f"needs are at most {NEEDS_MAX} different capabilities, sorted")


class Taken(msgspec.Struct, frozen=True):
    """A hint that its taker has for a while."""

    hint: Hint
    token: str
    """Known to this taking alone: what another one holds has another token."""


class QueueDepth(msgspec.Struct, frozen=True):
    """How many hints one queue has."""

    queue: str
    waiting: int
    """Due: a worker that meets their needs may take them."""
    delayed: int
    taken: int
    oldest_s: float | None
    """For how long the first of the waiting ones has been due. None: none waits."""
