"""Virtual time moves on when nothing is left to do, and not while a thread still works."""

from __future__ import annotations

import asyncio
import threading

from recoup.testing.clock import FakeClock


async def test_time_waits_for_work_in_threads() -> None:
    clock, may_end = FakeClock(), threading.Event()
    await clock.wait(asyncio.Event(), 0)  # from now on it counts what this loop gives to threads
    working = asyncio.create_task(asyncio.to_thread(may_end.wait, 60))
    waiting = asyncio.create_task(clock.wait(asyncio.Event(), 3600))
    before = clock.now()
    await asyncio.sleep(0.05)  # a hundred times as long as it takes to be idle
    meanwhile = clock.now()
    may_end.set()
    await working
    assert meanwhile == before
    assert await waiting is False
    assert clock.now().boot_us - before.boot_us == 3600 * 1_000_000
