"""What it costs to look at a page and to act in it, in a real browser.

The bars are for a machine that does nothing else: each figure is the median of several looks, after a warm-up. The very
first look at a page is told apart: the browser has not translated the collector then, and has just laid out the page.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.report import Figure, LeftOut, Row, against, of_rounds, scaled
from recoup.cli.main import OBJECTS_MADE
from recoup.runtimes.browser.finding import find_browser, has_library

if TYPE_CHECKING:
    from playwright.async_api import Page

ROUNDS = scaled(25, 3)
WARM_UP = scaled(12, 1)
"""Looks until the browser has translated the collector as well as it can."""
_BARS_MS = {1_000: 30, 10_000: 250}
_ROW = 9
"""Elements in one row of the page below."""


def run() -> list[Row]:
    found = find_browser(os.environ) if has_library() else None
    if found is None:
        return [LeftOut("everything", "there is no Chromium here (recoup browser install)")]
    gc.set_threshold(OBJECTS_MADE)  # as the command line does
    return asyncio.run(measure(found.executable))


async def measure(executable: str) -> list[Row]:
    from playwright.async_api import async_playwright

    figures: list[Row] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, chromium_sandbox=os.geteuid() != 0
        )
        for count, bar_ms in _BARS_MS.items():
            page = await browser.new_page()
            await page.set_content(table(count))
            look = partial(look_at, page)
            figures.append(Figure(f"the first look at {count:,} elements", await once_ms(look), "ms"))
            looks = await rounds_ms(look)
            snapshots = await rounds_ms(page.locator("body").aria_snapshot, 3)
            other = against("Playwright's own snapshot, with fewer facts", looks, snapshots, at_most=True)
            name = f"collecting {count:,} elements"
            figures.append(of_rounds(name, looks, "ms", bar_ms, at_most=True, peers=[other]))
        await browser.close()
    return figures


async def look_at(page: Page) -> None:
    from recoup.runtimes.browser.collector import collect

    await collect(page.main_frame)


async def rounds_ms(work: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> list[float]:
    for _ in range(min(rounds, WARM_UP)):
        await work()
    return [await once_ms(work) for _ in range(rounds)]


async def once_ms(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return 1000 * (time.perf_counter() - began)


def table(count: int) -> str:
    """A list with links, fields and buttons, as many elements as asked for."""
    row = (
        '<tr data-key="{0}"><td>INV-{0}</td><td><a href="/invoice/{0}" class="link quiet">Invoice {0}</a></td>'
        "<td><label>Amount <input name=amount{0}></label></td>"
        '<td><button id="approve-{0}" class="btn btn-primary">Approve</button></td></tr>'
    )
    rows = "".join(row.format(1000 + number) for number in range(count // _ROW))
    return f"<title>Invoices</title><h1>Invoices</h1><table><tbody>{rows}</tbody></table>"
