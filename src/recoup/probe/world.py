"""Everything a probe needs from outside, handed in at the door."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recoup.model.events import Event
from recoup.ports import Census, Clock, Keeper, Ledger, Redactor

LAUNCHES_AT_ONCE = 2 + 2 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class ProbeWorld:
    """What all resources of one probe share."""

    clock: Clock
    ledger: Ledger
    redactor: Redactor
    census: Census
    keeper: Keeper
    environ: Mapping[str, str]
    """Passed on to processes: without what is Recoup's own."""
    home: Path
    """Below it each probe has a private folder."""
    lease_ttl_s: float = 10
    heartbeat_s: float = 3
    control_poll_s: float = 0.25
    launching: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LAUNCHES_AT_ONCE))
    """To be held while a process is started: hundreds at once would all be too late."""
    chance: Callable[[], float] = random.random
    """From 0 to 1: what jitter is made of, and all the chance that there is."""
    seen: Callable[[Event], None] = lambda _event: None
    """Told of every fact after it is stored. Must not block."""
    alive: Callable[[], None] = lambda: None
    """Called whenever the lease was renewed: the probe is neither stuck nor forgotten."""
