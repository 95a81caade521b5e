"""Time that moves when everybody waits."""

from __future__ import annotations

import asyncio
import heapq
import time
from itertools import count

from recoup.model.instant import Instant

_IDLE_S = 0.0005
"""Real time without a new wait after which virtual time moves on."""


class FakeClock:
    """Jumps to the earliest deadline as soon as nothing else happens, so that a night passes in milliseconds.

    `jump_wall` sets the wall clock as an operator or NTP would; the boot clock does not follow.
    """

    def __init__(self, start_s: float = 1_800_000_000, boot_s: float = 1000, boot_id: str = "boot-1") -> None:
        self._wall_us = round(start_s * 1e6)
        self._boot_us = round(boot_s * 1e6)
        self._boot_id = boot_id
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self.waited_s: list[float] = []
        """Every timeout that was asked for, in order."""

    def now(self) -> Instant:
        return Instant(self._wall_us, self._boot_us, self._boot_id)

    @property
    def ahead_s(self) -> float:
        """It is the one that all count by."""
        return 0.0

    def advance(self, seconds: float) -> None:
        self._wall_us += round(seconds * 1e6)
        self._boot_us += round(seconds * 1e6)
        self._wake_due()

    def jump_wall(self, seconds: float) -> None:
        self._wall_us += round(seconds * 1e6)

    def reboot(self, boot_id: str) -> None:
        self._boot_id, self._boot_us = boot_id, 0

    async def wait(self, wake: asyncio.Event, timeout_s: float | None) -> bool:
        if timeout_s is None:
            return await wake.wait()
        self.waited_s.append(timeout_s)
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self._boot_us + round(timeout_s * 1e6), next(self._order), due))
        self._rearm()
        woken = asyncio.ensure_future(wake.wait())
        woken.add_done_callback(lambda _: _finish(due))
        try:
            await due
        finally:
            woken.cancel()
            due.cancel()
        return wake.is_set()

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_IDLE_S, self._jump)

    def _jump(self) -> None:
        self._timer = None
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        if self._waiting:
            self.advance(max(0, self._waiting[0][0] - self._boot_us) / 1e6)
            self._rearm()

    def _wake_due(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._boot_us:
            _finish(heapq.heappop(self._waiting)[2])


class HandClock(FakeClock):
    """Moves when a test says so and not otherwise: beside real processes, which take real time.

    Its boot clock begins with the machine's, so that keepers, who look at that one, find its deadlines in the future.
    """

    def __init__(self, start_s: float = 1_800_000_000) -> None:
        super().__init__(start_s, boot_s=time.clock_gettime(time.CLOCK_BOOTTIME))

    def _rearm(self) -> None:
        """Nobody but the test moves it."""


def _finish(due: asyncio.Future[None]) -> None:
    if not due.done():
        due.set_result(None)
