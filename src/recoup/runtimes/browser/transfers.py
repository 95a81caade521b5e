"""Files that a page is given, and files that it gives."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Download, ElementHandle, Error

from recoup.files.beneath import LeavesFolder, real_path
from recoup.files.folders import make_folder
from recoup.files.named import require_no_database
from recoup.model.failure import FailureKind
from recoup.model.outcome import Order
from recoup.runtimes.browser.acting import Attempt, acted_on
from recoup.runtimes.browser.trouble import Trouble, first_line


async def upload(attempt: Attempt) -> None:
    files = [_file(attempt.order, name) for name in attempt.action.values]

    async def ready(node: ElementHandle, ms: float) -> None:
        await node.wait_for_element_state("enabled", timeout=ms)

    async def act(node: ElementHandle, ms: float) -> None:
        # A field for files is often hidden behind something nicer; the button in front of it opens a chooser.
        if await node.evaluate("(node) => node.localName === 'input' && node.type === 'file'"):
            await node.set_input_files(files, timeout=ms, no_wait_after=True)
            return
        page = await attempt.session.current()
        async with page.expect_file_chooser(timeout=ms) as chooser:
            await node.click(timeout=ms, no_wait_after=True)
        await (await chooser.value).set_files(files, timeout=ms, no_wait_after=True)

    await acted_on(attempt, ready, act)


def _file(order: Order, name: str) -> Path:
    try:
        with real_path(order.cwd, name) as path:
            if path.is_file():
                return path
    except LeavesFolder as link:
        raise Trouble(FailureKind.INVALID_INPUT, f"upload: {name} was not read: {link.strerror}") from None
    except (OSError, ValueError):
        pass
    raise Trouble(FailureKind.INVALID_INPUT, f"upload: there is no file {name}")


async def download(attempt: Attempt, click: Callable[[Attempt], Awaitable[None]]) -> None:
    """A click, then the file: watched while it comes, and put where the plan wants it when it is whole."""
    place = _place(attempt.order, attempt.action.into or "")
    await click(attempt)
    try:
        async with asyncio.timeout(attempt.limits.download_idle_s):
            download = await attempt.session.downloads.get()
    except TimeoutError:
        words = f"no download began within {attempt.limits.download_idle_s:g} s"
        raise Trouble(FailureKind.DOWNLOAD_STALLED, words, resolution=attempt.resolution) from None
    await _watch_download(attempt, download)
    await _save(download, place)
    # The library keeps its own until the browser ends, and the next download would be counted with it.
    await download.delete()
    attempt.outputs["file"] = attempt.action.into or ""


async def _save(download: Download, place: Path) -> None:
    """Under another name first: a link that stands in its place is replaced, and never written through."""
    try:
        require_no_database(place)
        make_folder(place.parent, 0o777)
        fresh = place.with_name(f".{secrets.token_hex(8)}.download")
        await download.save_as(fresh)
        fresh.replace(place)
    except OSError as error:
        words = f"download: {place} cannot be written: {error.strerror or error}"
        raise Trouble(FailureKind.INVALID_INPUT, words) from None


def _place(order: Order, name: str) -> Path:
    """In the step's folder, links on the way followed."""
    folder = Path(order.cwd).resolve()
    wanted = folder / name
    place = wanted.parent.resolve() / wanted.name
    if wanted.name in ("", "..") or place == folder or not place.is_relative_to(folder):
        raise Trouble(FailureKind.INVALID_INPUT, f"download: {name!r} does not lie in the step's folder")
    return place


async def _watch_download(attempt: Attempt, download: Download) -> None:
    """Until it is whole. The library does not say how far it is; the file it grows in does."""
    folder = attempt.session.guard.folder / "downloads"
    whole = asyncio.ensure_future(download.path())
    last_bytes, grown_s = -1, time.monotonic()
    try:
        while not whole.done():
            await asyncio.wait([whole], timeout=attempt.limits.look_s)
            size = _bytes_in(folder)
            if size != last_bytes:
                last_bytes, grown_s = size, time.monotonic()
                attempt.session.traffic.went_on()
            if size > attempt.limits.download_bytes_max:
                raise Trouble(
                    FailureKind.OUTPUT_INVALID,
                    f"the download is larger than {attempt.limits.download_bytes_max} bytes",
                )
            if time.monotonic() - grown_s > attempt.limits.download_idle_s:
                words = f"nothing more came for {attempt.limits.download_idle_s:g} s, after {size} bytes"
                raise Trouble(FailureKind.DOWNLOAD_STALLED, words)
        await whole
    except Error as error:
        raise Trouble(FailureKind.DOWNLOAD_STALLED, f"the download broke off: {first_line(error)}") from error
    finally:
        if not whole.done():
            with suppress(Error):
                await download.cancel()
        whole.cancel()


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.iterdir():
        with suppress(OSError):
            total += path.stat().st_size
    return total
