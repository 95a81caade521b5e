"""Pictures of the console, taken with a real browser while a story is told; without `--pictures`, none are."""

import json
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from examples.stage import Stage, StoryBroken, ended

if TYPE_CHECKING:
    from playwright.async_api import Page

SIZE = (1280, 800)
SETTLE_MS = 900


@dataclass
class Camera:
    """Takes pictures of pages by their path, or none."""

    name: str
    url: str = ""
    folder: Path | None = None
    page: "Page | None" = None

    async def take(self, what: str, path: str) -> None:
        if self.page is not None:
            await self.page.goto(self.url + path)
            await self.snap(what)

    async def snap(self, what: str) -> None:
        """Of the page as it is."""
        if self.page is not None and self.folder is not None:
            await self.page.wait_for_timeout(SETTLE_MS)
            await self.page.screenshot(path=self.folder / f"story-{self.name}-{what}.png")


@asynccontextmanager
async def looking(stage: Stage, name: str) -> AsyncIterator[Camera]:
    """A console over the story's home, for as long as pictures are taken."""
    if stage.pictures is None:
        yield Camera(name)
        return
    token = secrets.token_urlsafe(32)
    gateway = await stage.start("serve", "--port", "0", "--json", env={"RECOUP_TOKEN": token})
    try:
        assert gateway.stdout is not None
        url = json.loads(await gateway.stdout.readline())["url"]
        async with signed_in(stage.pictures, name, url, token) as camera:
            yield camera
    finally:
        await ended(gateway, grace_s=30)


@asynccontextmanager
async def signed_in(folder: Path | None, name: str, url: str, token: str) -> AsyncIterator[Camera]:
    """A browser that an operator has signed in with."""
    if folder is None:
        yield Camera(name)
        return
    from playwright.async_api import async_playwright

    from recoup.runtimes.browser.finding import find_browser

    chromium = find_browser(os.environ)
    if chromium is None:
        raise StoryBroken("there is no Chromium: recoup browser install")
    folder.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium.executable, args=["--no-sandbox", "--disable-gpu"]
        )
        page = await browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        await page.goto(url + "/sign-in")
        await page.fill("#token", token)
        await page.press("#token", "Enter")
        await page.wait_for_url(url + "/")
        yield Camera(name, url, folder, page)
        await browser.close()
