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
        return Instant(time.time_ns() // 1000, boot_us, self._boot_id)

    async def wait(self, wake: asyncio.Event, timeout_s: float | None) -> bool:
        if timeout_s is not None and timeout_s <= 0:
            return wake.is_set()
        try:
            async with asyncio.timeout(timeout_s):
                await wake.wait()
        except TimeoutError:
            return False
        return True
