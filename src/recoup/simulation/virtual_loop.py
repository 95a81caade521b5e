"""Time and order that depend on nothing outside: the same tasks run in the same order, whatever the machine does."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

from recoup.model.instant import Instant

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Stalled(RuntimeError):
    """Everybody waits for something that nobody will do."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """An event loop without a world: first come, first served, and when nobody is ready time moves on.

    Its queue is its own: nothing can look at it and act upon how busy the loop is, as the ledger's group commit does.
    """

    def __init__(self) -> None:
        self._queue: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._order = count()
        self._now_us = 0
        self._running = False
        self._closed = False
        self.unhandled: list[dict[str, Any]] = []
        """What no task has taken care of."""

    @property
    def now_us(self) -> int:
        return self._now_us

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        asyncio._set_running_loop(self)
        self._running = True
        try:
            task: asyncio.Task[T] = self.create_task(main)
            while not task.done():
                self._turn()
            return task.result()
        finally:
            self._running = False
            asyncio._set_running_loop(None)

    def _turn(self) -> None:
        if not self._queue:
            self._move_on()
        handle = self._queue.popleft()
        if not handle.cancelled():
            handle._run()

    def _move_on(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise Stalled("nothing is ready, and nothing waits for a time")
        self._now_us = max(self._now_us, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now_us:
            self._queue.append(heapq.heappop(self._timers)[2])

    # What tasks, futures and locks ask of a loop

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._queue.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at_us(self._now_us + round(delay * 1e6), callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at_us(round(when * 1e6), callback, args, context)

    def _call_at_us(
        self, due_us: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(due_us / 1e6, callback, args, self, context)
        heapq.heappush(self._timers, (due_us, next(self._order), handle))
        return handle

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """It is passed by when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def time(self) -> float:
        return self._now_us / 1e6

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)


class VirtualClock:
    """The clock of one machine on a virtual loop. Its wall clock can be set, and the machine can be started again."""

    def __init__(self, loop: VirtualLoop, start_s: float = 1_800_000_000) -> None:
        self._loop = loop
        self._wall_us = round(start_s * 1e6)
        self._boots = 1
        self._booted_us = -1_000_000_000

    def now(self) -> Instant:
        now_us = self._loop.now_us
        return Instant(self._wall_us + now_us, now_us - self._booted_us, f"boot-{self._boots}")

    @property
    def ahead_s(self) -> float:
        """Machines of a storm have one clock each, and none that all count by."""
        return 0.0

    def jump_wall(self, seconds: float) -> None:
        """No kernel lets its clock be set to a time before 1970."""
        self._wall_us = max(self._wall_us + round(seconds * 1e6), -self._loop.now_us)

    def reboot(self) -> None:
        self._boots += 1
        self._booted_us = self._loop.now_us

    async def wait(self, wake: asyncio.Event, timeout_s: float | None) -> bool:
        if timeout_s is None or wake.is_set():
            return await wake.wait()
        due = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, _finish, due)
        woken = self._loop.create_task(wake.wait())
        woken.add_done_callback(lambda _: _finish(due))
        try:
            await due
        finally:
            timer.cancel()
            woken.cancel()
        return wake.is_set()

    async def sleep(self, seconds: float) -> None:
        due = self._loop.create_future()
        self._loop.call_later(seconds, _finish, due)
        await due


def _finish(due: asyncio.Future[None]) -> None:
    if not due.done():
        due.set_result(None)
