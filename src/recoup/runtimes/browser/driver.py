"""The automation library's own process: one for this process, started when it is first needed."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from playwright.async_api import Error, Playwright, async_playwright

from recoup.errors import KeeperError
from recoup.runtimes.browser.finding import driver_hint, driver_trouble


class PlaywrightDriver:
    """Starts the driver, and starts it again when it was lost."""

    def __init__(self, launch_s: float) -> None:
        self._launch_s = launch_s
        self._playwright: Playwright | None = None
        self._turn = asyncio.Lock()

    async def get(self) -> Playwright:
        """One that answers: the last one may have been killed while it was idle."""
        async with self._turn:
            if self._playwright is not None and not await self._answers(self._playwright):
                await self._stop()
            if self._playwright is None:
                self._playwright = await self._start()
            return self._playwright

    async def _answers(self, playwright: Playwright) -> bool:
        """Asked, instead of told by words of an error: those differ from version to version."""
        try:
            async with asyncio.timeout(self._launch_s):
                await (await playwright.request.new_context()).dispose()
        except Exception:  # noqa: BLE001 a dead driver is told by a bare one
            return False
        return True

    async def close(self) -> None:
        async with self._turn:
            await self._stop()

    async def _start(self) -> Playwright:
        try:
            async with asyncio.timeout(self._launch_s):
                return await async_playwright().start()
        except Exception as error:  # Playwright raises a bare one when its driver dies
            trouble = await asyncio.to_thread(driver_trouble, os.environ) or repr(error)
            raise KeeperError(
                f"the browser automation could not be started: {trouble}", hint=driver_hint(trouble)
            ) from error

    async def _stop(self) -> None:
        playwright, self._playwright = self._playwright, None
        if playwright is not None:
            with suppress(Error, OSError, TimeoutError):
                async with asyncio.timeout(self._launch_s):
                    await playwright.stop()
