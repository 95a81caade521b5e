"""The conformance suite of browsers: Chromium, and the one that is made of values."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.browser_house import BrowserHouse, Renaming, boot_s, needs_browser

from recoup.model.target import Element
from recoup.testing.browser import Guess, ScriptedBrowser, ScriptedPage, ScriptedSite
from recoup.testing.browser_suite import PAGES, RENAMED, BrowserSuite, Stage, SuitePage
from recoup.testing.pages import Site

HOST = "https://suite.example"


class TestScripted(BrowserSuite):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Stage:
        pages = {HOST + path: scripted(page) for path, page in PAGES.items()}
        leads = {name: HOST + to for page in PAGES.values() for name, to in page.buttons if to}
        guesses = {RENAMED[0]: Guess(RENAMED[1], RENAMED[2])}
        browser = ScriptedBrowser(ScriptedSite(pages, leads), guesses)
        return Stage(browser, HOST.__add__, str(tmp_path), lambda: 0.0)


def scripted(page: SuitePage) -> ScriptedPage:
    buttons = [Element(tag="button", role="button", name=name, text=name) for name, _ in page.buttons]
    fields = [Element(tag="input", role="textbox", name=name, label=name) for name in page.fields]
    return ScriptedPage(page.title, (*buttons, *fields), page.text)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as site:
        for path, page in PAGES.items():
            site.show(path, drawn(page))
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrowserHouse]:
    house = BrowserHouse(tmp_path_factory.mktemp("suite"), resolver=Renaming(RENAMED[0], RENAMED[1]))
    yield house
    await house.runtime.close()


@needs_browser
@pytest.mark.asyncio(loop_scope="module")
class TestChromium(BrowserSuite):
    @pytest_asyncio.fixture(loop_scope="module")
    async def stage(self, house: BrowserHouse, site: Site) -> Stage:
        """One run for all, without anything of the test before: a browser takes longer to start than a test lasts."""
        env = {"PATH": os.environ["PATH"]}
        await house.empty()
        return Stage(house.runtime, site.url.__add__, str(house.folder), boot_s, env, house.run_id)


def drawn(page: SuitePage) -> str:
    buttons = "".join(f"<button{_leading(to)}>{name}</button>" for name, to in page.buttons)
    fields = "".join(f"<label>{name} <input></label>" for name in page.fields)
    return f"<title>{page.title}</title><p>{page.text}</p>{buttons}{fields}"


def _leading(to: str) -> str:
    return f" onclick=\"location.href='{to}'\"" if to else ""
