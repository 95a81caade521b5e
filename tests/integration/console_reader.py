"""Somebody who looks at the console: one real browser, and whoever is signed in in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.gateway_house import Gateway

from recoup.app import open_app
from recoup.model.events import Payload
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.runtimes.browser.finding import needed_browser
from recoup.settings import read_settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page

NOT_OURS = ("401 (Unauthorized)", "Password forms should have")
"""What the browser itself says at the door."""


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=needed_browser(os.environ).executable,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()


@dataclass
class Reader:
    """Somebody who is signed in."""

    url: str
    context: BrowserContext
    page: Page
    troubles: list[str] = field(default_factory=list)
    """Whatever a page complained about: scripts, policies, what could not be loaded."""
    dialogs: list[str] = field(default_factory=list)

    def see(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def act(self, label: str, reason: str = "because", within: str = "#content") -> str:
        """Press a button, say why, and confirm; gives the scope that was shown."""
        page = self.page
        page.locator(within).get_by_role("button", name=label, exact=True).first.click()
        scope = page.locator("#ask .scope").inner_text()
        page.fill("#ask #reason", reason)
        page.locator("#ask [type=submit]").click()
        page.wait_for_selector("#ask:not([open])", state="attached")
        return scope


def signed_in(gateway: Gateway, browser: Browser, role: str = "operator", **more: Any) -> Reader:
    context = browser.new_context(**more)
    context.set_default_timeout(30_000)
    page = context.new_page()
    reader = Reader(gateway.url, context, page)
    page.on("console", lambda said: _heard(reader, said.type, said.text))
    page.on("pageerror", lambda error: reader.troubles.append(f"error: {error}"))
    page.on("dialog", lambda dialog: _asked(reader, dialog))
    answer = context.request.post(f"{gateway.url}/api/session", data={"token": gateway.tokens[role]})
    assert answer.ok, answer.text()
    word = json.dumps(answer.json()["csrf"])
    mine = f"location.origin === {json.dumps(gateway.url)}"
    context.add_init_script(f"if ({mine}) localStorage.setItem('recoup-csrf', {word})")
    return reader


def _asked(reader: Reader, dialog: Dialog) -> None:
    reader.dialogs.append(dialog.message)
    dialog.dismiss()


def _heard(reader: Reader, kind: str, words: str) -> None:
    if kind in ("error", "warning") and not any(known in words for known in NOT_OURS):
        reader.troubles.append(words)


def append_to(home: Path, stream: str, facts: list[Payload], many: int = 500) -> None:
    """Facts straight into the ledger, many in one transaction. In a thread: the browser's loop has this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _append(home, stream, facts, many)).result(60)


async def _append(home: Path, stream: str, facts: list[Payload], many: int) -> None:
    async with open_app(read_settings({}, Path.cwd(), str(home)), os.environ) as app:
        for begin in range(0, len(facts), many):
            drafts = tuple(Draft(fact.TYPE, app.redactor.seal(fact)) for fact in facts[begin : begin + many])
            await app.ledger.append(Append(at=app.world.clock.now(), streams=(StreamAppend(stream, drafts),)))
