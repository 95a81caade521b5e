"""The machine's own time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from recoup.model.instant import Instant

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """Wall time, and the boot clock, which no one can set and which counts while the machine sleeps."""

    def __init__(self) -> None:
        self._boot_id = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"
        self._boot_clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now(self) -> Instant:
        boot_us = time.clock_gettime_ns(self._boot_clock) // 1000
        return Instant(self._wall_us(boot_us), boot_us, self._boot_id)

    @property
    def ahead_s(self) -> float:
        return 0.0

    def _wall_us(self, boot_us: int) -> int:  # noqa: ARG002 - this machine's own clock counts
        return time.time_ns() // 1000

    async def wait(self, wake: asyncio.Event, timeout_s: float | None) -> bool:
        if timeout_s is not None and timeout_s <= 0:
            return wake.is_set()
        try:
            async with asyncio.timeout(timeout_s):
                await wake.wait()
        except TimeoutError:
            return False
        return True


class SharedClock(SystemClock):
    """The wall clock of the database, for all machines that share it: each reading is carried on by the boot clock, so
    that a wrong or jumping wall clock of one machine changes nothing for the others."""

    def __init__(self) -> None:
        super().__init__()
        self._reading: tuple[int, int] | None = None
        self._ahead_us = 0

    @property
    def ahead_s(self) -> float:
        return self._ahead_us / 1e6

    def follow(self, wall_us: int, boot_us: int) -> None:
        """The database showed `wall_us` when this machine's boot clock showed `boot_us`."""
        self._reading = (wall_us, boot_us)
        own_us = time.time_ns() // 1000
        self._ahead_us = own_us - self._wall_us(time.clock_gettime_ns(self._boot_clock) // 1000)

    def _wall_us(self, boot_us: int) -> int:
        if self._reading is None:
            return super()._wall_us(boot_us)
        wall_us, then_us = self._reading
        return wall_us + boot_us - then_us
