"""Time that moves when everybody waits."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from recoup.model.instant import Instant

_IDLE_S = 0.0005
"""Real time without a new wait after which virtual time moves on."""
_THREADS_MAX_S = 5.0
"""Real time for which work in threads holds virtual time up: some threads wait for what only time brings."""


class ThreadWork:
    """Counts what an event loop has given to threads and not got back: on a busy machine that takes its time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.outstanding = 0
        self._run_in_executor = loop.run_in_executor
        loop.run_in_executor = self._run  # type: ignore[method-assign,assignment]

    def _run(self, executor: Any, work: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self._run_in_executor(executor, work, *args)
        self.outstanding += 1
        future.add_done_callback(self._done)
        return future

    def _done(self, _future: asyncio.Future[Any]) -> None:
        self.outstanding -= 1


_thread_work: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadWork] = WeakKeyDictionary()


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
        self._held_up_since_s: float | None = None
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
        loop = asyncio.get_running_loop()
        if loop not in _thread_work:
            _thread_work[loop] = ThreadWork(loop)
        self._timer = loop.call_later(_IDLE_S, self._jump)

    def _is_held_up(self) -> bool:
        if not _thread_work[asyncio.get_running_loop()].outstanding:
            self._held_up_since_s = None
            return False
        now_s = time.monotonic()
        if self._held_up_since_s is None:
            self._held_up_since_s = now_s
        return now_s - self._held_up_since_s < _THREADS_MAX_S

    def _jump(self) -> None:
        self._timer = None
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        if self._waiting:
            if not self._is_held_up():
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
