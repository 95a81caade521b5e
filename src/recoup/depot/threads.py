"""Calls that block, beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

THREADS_MAX = 4


class Threads:
    """A few threads of its own: one that hangs in a dead file server holds up neither the work on other files nor the
    end of the program."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(THREADS_MAX)

    async def call(self, work: Callable[[], T]) -> T:
        """Cancelled, it no longer waits; the thread ends when its call does, and only then is its place free."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        threading.Thread(target=self._work, args=(work, loop, future), name="depot", daemon=True).start()
        return await future

    def _work(
        self, work: Callable[[], T], loop: asyncio.AbstractEventLoop, future: asyncio.Future[T]
    ) -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = work()
        except BaseException as raised:  # noqa: BLE001 handed on to whoever waits
            error = raised

        def tell() -> None:
            self._free.release()
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)  # type: ignore[arg-type]

        try:
            loop.call_soon_threadsafe(tell)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more
