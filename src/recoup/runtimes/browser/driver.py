"""The automation library's own process: one for this process, started when it is first needed."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NoReturn
from weakref import WeakKeyDictionary

from playwright.async_api import Error, Playwright, async_playwright

from recoup.errors import KeeperError
from recoup.model.failure import FailureKind
from recoup.runtimes.browser.finding import driver_hint, driver_trouble
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.trouble import Trouble

_STARTS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class PlaywrightDriver:
    """Starts the driver, and starts it again when it was lost or does not answer."""

    def __init__(self, limits: BrowserLimits) -> None:
        self._limits = limits
        self._playwright: Playwright | None = None
        self._pids: set[int] = set()
        self._doubted = False
        self._turn = asyncio.Lock()

    def doubt(self) -> None:
        """A browser did not answer: its driver may be what is frozen, and gets less time to answer."""
        self._doubted = True

    async def get(self) -> Playwright:
        """One that answers: the last one may have been killed while it was idle."""
        async with self._turn:
            if self._playwright is not None and not await self._answers(self._playwright):
                await self._stop()
            self._doubted = False
            if self._playwright is None:
                self._playwright = await self._start()
            return self._playwright

    async def _answers(self, playwright: Playwright) -> bool:
        """Asked, instead of told by words of an error: those differ from version to version."""
        limits = self._limits
        try:
            async with asyncio.timeout(limits.answer_s if self._doubted else limits.launch_s):
                await (await playwright.request.new_context()).dispose()
        except Exception:  # noqa: BLE001 a dead driver is told by a bare one
            return False
        return True

    async def close(self) -> None:
        async with self._turn:
            await self._stop()

    async def _start(self) -> Playwright:
        # One after the other: the children that are new then are this driver's own.
        async with _STARTS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            return await self._started()

    async def _started(self) -> Playwright:
        before = _driver_pids()
        start = asyncio.create_task(async_playwright().start())
        try:
            await asyncio.wait({start}, timeout=self._limits.launch_s)
            if not start.done():
                await self._give_up(start, before)
            if error := start.exception():  # Playwright raises a bare one when its driver dies
                raise await _why_it_ended(error) from error
        finally:
            if start.cancel() or start.cancelled() or start.exception():
                _kill(_driver_pids() - before)
        self._pids = _driver_pids() - before
        return start.result()

    async def _give_up(self, start: asyncio.Task[Playwright], before: set[int]) -> NoReturn:
        """Waits for the start to notice that the driver ended, so that the library reports no lost connection later."""
        _kill(_driver_pids() - before)
        await asyncio.wait({start}, timeout=self._limits.close_s)
        raise _not_started(f"did not answer within {self._limits.launch_s:g} s; the machine may be busy")

    async def _stop(self) -> None:
        """Ask it to end; kill one that does not, as it would outlive this process."""
        playwright, self._playwright = self._playwright, None
        if playwright is None:
            return
        with suppress(Error, OSError, TimeoutError):
            async with asyncio.timeout(self._limits.close_s):
                await playwright.stop()
        _kill(self._pids & _driver_pids())


async def _why_it_ended(error: BaseException) -> Exception:
    """A driver that cannot start will not start the next time either; one that was killed while it started may."""
    trouble = await asyncio.to_thread(driver_trouble, os.environ)
    if trouble is None:
        return _not_started(f"ended while it was starting: {error}")
    words = f"the browser automation could not be started: {trouble}"
    return KeeperError(words, hint=driver_hint(trouble))


def _not_started(words: str) -> Trouble:
    return Trouble(FailureKind.BROWSER_CRASHED, f"the browser automation {words}")


def _kill(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _driver_pids() -> set[int]:
    """The drivers among this thread's own children. The library does not tell which process is its."""
    with suppress(OSError):
        pids = Path("/proc/thread-self/children").read_text().split()
        return {int(pid) for pid in pids if b"run-driver" in _command(pid)}
    return set()


def _command(pid: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
