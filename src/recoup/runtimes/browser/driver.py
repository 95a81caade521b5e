"""The automation library's own process: one for this process, started when it is first needed."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Error, Playwright, async_playwright

from recoup.errors import KeeperError
from recoup.runtimes.browser.finding import driver_hint, driver_trouble
from recoup.runtimes.browser.limits import BrowserLimits


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
        before = _driver_pids()
        try:
            async with asyncio.timeout(self._limits.launch_s):
                started = await async_playwright().start()
        except Exception as error:  # Playwright raises a bare one when its driver dies
            trouble = await asyncio.to_thread(driver_trouble, os.environ) or repr(error)
            raise KeeperError(
                f"the browser automation could not be started: {trouble}", hint=driver_hint(trouble)
            ) from error
        self._pids = _driver_pids() - before
        return started

    async def _stop(self) -> None:
        """Ask it to end; kill one that does not, as it would outlive this process."""
        playwright, self._playwright = self._playwright, None
        if playwright is None:
            return
        with suppress(Error, OSError, TimeoutError):
            async with asyncio.timeout(self._limits.close_s):
                await playwright.stop()
        for pid in self._pids & _driver_pids():
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
