"""Where to be: addresses and tabs."""

from __future__ import annotations

import asyncio
import time
from typing import Final
from urllib.parse import urlsplit

from playwright.async_api import Page, Response
from playwright.async_api import TimeoutError as PlaywrightTimeout

from recoup.model.failure import FailureKind
from recoup.runtimes.browser.acting import Attempt
from recoup.runtimes.browser.session import Session
from recoup.runtimes.browser.trouble import Trouble, of_status

_SCHEMES: Final = ("http", "https", "file", "about", "data")


async def goto(attempt: Attempt) -> None:
    url = attempt.action.value or ""
    if urlsplit(url).scheme.lower() not in _SCHEMES:
        words = f"goto {url!r}: an address begins with one of {', '.join(_SCHEMES)}"
        raise Trouble(FailureKind.INVALID_INPUT, words)
    page = await attempt.session.current()
    attempt.must_hold_lease(f"goto {url}")
    attempt.session.past.url = url
    attempt.session.past.loaded()
    response = await load(page, url, attempt.order.policy.step_timeout_seconds)
    if response is not None and response.status >= 400:
        raise of_status(response.status, url, await response.header_value("retry-after"))


async def load(page: Page, url: str, most_s: float) -> Response | None:
    """It may take as long as the step: the lease is renewed meanwhile, and to load twice does no harm."""
    try:
        return await page.goto(url, timeout=1000 * most_s, wait_until="domcontentloaded")
    except PlaywrightTimeout as error:
        words = f"goto {url}: nothing came within {most_s:g} s"
        raise Trouble(FailureKind.WALL_TIMEOUT, words) from error


async def tab(attempt: Attempt) -> None:
    session, which = attempt.session, attempt.action.value or "last"
    if which == "new":
        attempt.must_hold_lease("tab new")
        session.turn_to(await session.new_page())
        return
    page = await _tab_in_time(attempt, which)
    if page is None:
        count = len(session.tabs)
        raise Trouble(
            FailureKind.TARGET_NOT_FOUND, f"tab {which!r}: there are {count} tabs, none of them that one"
        )
    session.turn_to(page)
    await page.bring_to_front()


async def _tab_in_time(attempt: Attempt, which: str) -> Page | None:
    """A tab that a click opens may take its time, as a target may."""
    with attempt.waiting(attempt.order.policy.page_target_s) as most_s:
        end_s = time.monotonic() + most_s
        while True:
            page = _tab_named(attempt.session, which)
            if page is not None or time.monotonic() >= end_s:
                return page
            await asyncio.sleep(attempt.limits.look_s)


def _tab_named(session: Session, which: str) -> Page | None:
    pages = session.tabs
    if which == "last":
        return pages[-1] if pages else None
    if which.isdigit():
        return pages[int(which) - 1] if 0 < int(which) <= len(pages) else None
    return next((page for page in reversed(pages) if which in page.url), None)
