"""When a page has come to rest: a target that is still loading is not a changed page."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from playwright.async_api import Error, Page

from recoup.model.policy import Policy
from recoup.runtimes.browser.traffic import Traffic
from recoup.runtimes.browser.trouble import is_changed_page

_QUIET: Final = """([quietMs, mostMs]) => new Promise((tell) => {
    let timer;
    const watch = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(end, quietMs, true); });
    const end = (quiet) => { watch.disconnect(); clearTimeout(timer); clearTimeout(last); tell(quiet); };
    const last = setTimeout(end, mostMs, false);
    watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    timer = setTimeout(end, quietMs, true);
})"""
_SLICE_S: Final = 1.0
"""A page is asked for no longer than its rest and this at once: it may have gone on to another document untold."""
_PAUSE_S: Final = 0.05


async def settle(page: Page, traffic: Traffic, policy: Policy, most_s: float) -> bool:
    """Wait until no navigation is under way, and for `page_quiet_s` no request has begun and the page has not changed.
    False: it did not come to rest in time."""
    quiet_s = policy.page_quiet_s
    end_s = time.monotonic() + most_s
    while (left_s := end_s - time.monotonic()) > 0:
        try:
            async with asyncio.timeout(left_s + _SLICE_S):  # the library's own limit fails with the library
                await page.wait_for_load_state("domcontentloaded", timeout=1000 * left_s)
            slice_s = min(left_s, quiet_s + _SLICE_S)
            if await _is_quiet(page, quiet_s, slice_s) and traffic.is_quiet(quiet_s):
                return True
        except TimeoutError:
            return False
        except Error as error:
            if page.is_closed() or not (is_changed_page(error) or "Timeout" in str(error)):
                raise
        await asyncio.sleep(min(_PAUSE_S, left_s))
    return False


async def _is_quiet(page: Page, quiet_s: float, most_s: float) -> bool:
    """The document's word, but not for longer than we are willing to wait: its scripts may never come to an end."""
    try:
        async with asyncio.timeout(most_s + quiet_s):
            quiet: bool = await page.evaluate(_QUIET, [1000 * quiet_s, 1000 * most_s])
    except TimeoutError:
        return False
    return quiet
