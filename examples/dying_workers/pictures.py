"""Pictures of the console, taken with a real browser at moments worth seeing, where the story was asked for them."""

import os
from dataclasses import dataclass
from typing import Self

from playwright.async_api import Browser, Page, Playwright, async_playwright

from examples.dying_workers.fleet import Fleet
from examples.stage import Stage
from recoup.runtimes.browser.finding import find_browser

SETTLE_MS = 700


@dataclass
class Camera:
    """Takes nothing unless the stage has a folder for pictures."""

    stage: Stage
    fleet: Fleet
    _playwright: Playwright | None = None
    _browser: Browser | None = None
    _page: Page | None = None

    async def take(self, name: str, path: str) -> None:
        if self.stage.pictures is None:
            return
        page = self._page or await self._signed_in()
        await page.goto(self.fleet.url + path)
        await page.wait_for_timeout(SETTLE_MS)
        await page.screenshot(path=self.stage.pictures / f"story-dying-workers-{name}.png")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._browser is not None and self._playwright is not None:
            await self._browser.close()
            await self._playwright.stop()

    async def _signed_in(self) -> Page:
        chromium = find_browser(os.environ)
        assert chromium is not None, "there is no Chromium: recoup browser install"
        self._playwright = await async_playwright().start()
        self._browser = await self._playwright.chromium.launch(
            executable_path=chromium.executable, args=["--no-sandbox", "--disable-gpu"]
        )
        self._page = await (
            await self._browser.new_context(viewport={"width": 1280, "height": 800})
        ).new_page()
        await self._page.goto(self.fleet.url + "/sign-in")
        await self._page.fill("#token", self.fleet.token)
        await self._page.press("#token", "Enter")
        await self._page.wait_for_url(self.fleet.url + "/")
        return self._page
