"""Runtimes that are loaded when they are first needed, and browser steps whose package is not installed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from recoup.model.failure import FailureKind
from recoup.runtimes.browser.runtime import BrowserRuntime
from recoup.runtimes.deferred import DeferredRuntime
from recoup.runtimes.late_browser import LateBrowser


def not_there() -> BrowserRuntime:
    raise ModuleNotFoundError("No module named 'playwright'", name="playwright")


async def test_a_missing_package_is_named_with_the_command_that_brings_it_and_is_no_bad_input() -> None:
    outcome = await LateBrowser(not_there).perform(cast("Any", None), cast("Any", None))
    assert outcome.kind is FailureKind.SPAWN_FAILED
    assert "playwright: pip install 'recoup[browser]', then recoup browser install" in outcome.detail


@pytest.mark.parametrize("late", [LateBrowser, DeferredRuntime])
async def test_leases_are_renewed_while_a_runtime_is_loaded(late: Callable[[Any], Any]) -> None:
    """Loading ends only after three heartbeats: on the event loop's own thread it would keep all of them waiting."""
    beats, enough = 0, threading.Event()

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1
            if beats >= 3:
                enough.set()

    class Loaded:
        inline = False

        async def perform(self, order: object, hooks: object) -> bool:
            return seen[0]

    seen: list[bool] = []

    def load() -> Loaded:
        seen.append(enough.wait(20))
        return Loaded()

    beating = asyncio.create_task(beat())
    try:
        assert await late(load).perform(None, None)
    finally:
        beating.cancel()


async def test_runs_that_need_it_at_once_load_it_once() -> None:
    loads = list[int]()

    class Loaded:
        inline = False

        async def perform(self, order: object, hooks: object) -> None: ...

    def load() -> Any:
        loads.append(1)
        return Loaded()

    late = LateBrowser(load)
    await asyncio.gather(*(late.perform(cast("Any", None), cast("Any", None)) for _ in range(5)))
    assert loads == [1]
