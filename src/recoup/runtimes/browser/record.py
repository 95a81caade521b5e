"""Open a browser for a person, watch, and come back when the person has ended it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec
from playwright.async_api import BrowserContext, Error, Page, Playwright, async_playwright

from recoup.errors import SettingsError, UsageError
from recoup.model.recorded import Deed
from recoup.runtimes.browser.finding import needed_browser
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.recording import Describe, Recording
from recoup.runtimes.browser.scripted_person import Move, play
from recoup.runtimes.browser.trouble import first_line

_LIMITS = BrowserLimits()


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded, and how."""

    url: str
    headless: bool = False
    moves: tuple[Move, ...] | None = None
    """None: a person is there."""
    longest_s: float
    deeds_max: int


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `secrets` are never to be stored."""

    deeds: list[Deed]
    secrets: list[str]
    remarks: list[str]


async def watch(
    wanted: Wanted, describe: Describe, environ: Mapping[str, str], opened: Callable[[], None]
) -> Watched:
    """Until the window is closed, Ctrl-C, the end of the script, or a limit; `opened` is called when it may begin."""
    found = needed_browser(environ, window=not wanted.headless)
    if not wanted.headless and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        raise SettingsError(
            "there is no display to open a browser on",
            hint="Record on a machine with a screen, or give --headless and --script.",
        )
    with _interrupts() as interrupted:
        async with async_playwright() as playwright:
            context = await _context(playwright, found.executable, wanted.headless)
            recording = Recording(context, describe, deeds_max=wanted.deeds_max)
            try:
                await _recorded(recording, wanted, interrupted, opened)
            finally:
                await recording.finish()
                await _close(context)
    return Watched(deeds=recording.deeds(), secrets=recording.secrets(), remarks=recording.remarks)


async def _context(playwright: Playwright, executable: str, headless: bool) -> BrowserContext:
    try:
        browser = await playwright.chromium.launch(
            executable_path=executable,
            headless=headless,
            chromium_sandbox=os.geteuid() != 0,
            timeout=1000 * _LIMITS.launch_s,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        return await (browser.new_context() if headless else browser.new_context(no_viewport=True))
    except Error as error:
        raise SettingsError(
            f"the browser did not start: {first_line(error)}", hint="See what is wrong: recoup doctor"
        ) from None


async def _recorded(
    recording: Recording, wanted: Wanted, interrupted: asyncio.Event, opened: Callable[[], None]
) -> None:
    try:
        page = await recording.open(wanted.url)
    except Error as error:
        raise UsageError(
            f"{wanted.url} cannot be opened: {first_line(error)}", hint="See that the address is right."
        ) from None
    if wanted.moves is None:
        # Without somebody who listens, dialogs are dismissed before a person has seen them.
        recording.context.on("dialog", lambda _dialog: None)
    opened()
    ends = [recording.closed.wait(), recording.full.wait(), interrupted.wait()]
    work: list[asyncio.Future[bool]] = [asyncio.ensure_future(end) for end in ends]
    if wanted.moves is not None:
        work.append(asyncio.ensure_future(_played(recording.context, page, wanted.moves)))
    done, rest = await asyncio.wait(work, timeout=wanted.longest_s, return_when=asyncio.FIRST_COMPLETED)
    for one in rest:
        one.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    if not done:
        recording.remarks.append(f"the recording ended after {wanted.longest_s:g} s")
    for one in done:
        one.result()


async def _played(context: BrowserContext, page: Page, moves: tuple[Move, ...]) -> bool:
    await play(context, page, list(moves))
    return True


async def _close(context: BrowserContext) -> None:
    """It may be gone already: Ctrl-C reaches it, too."""
    with suppress(Error, TimeoutError, OSError):
        async with asyncio.timeout(_LIMITS.close_s):
            if context.browser is not None:
                await context.browser.close()


@contextmanager
def _interrupts() -> Iterator[asyncio.Event]:
    """Ctrl-C ends the recording, not the program: what was recorded is still to be written."""
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()
    kinds = (signal.SIGINT, signal.SIGTERM)
    for kind in kinds:
        loop.add_signal_handler(kind, interrupted.set)
    try:
        yield interrupted
    finally:
        for kind in kinds:
            loop.remove_signal_handler(kind)
