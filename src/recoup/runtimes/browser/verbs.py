"""What can be done in a page, one function for each verb. A target is found, made ready, looked at once more, and only
then acted on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.async_api import Download, ElementHandle, Error, Page, Response
from playwright.async_api import TimeoutError as PlaywrightTimeout

from recoup.errors import LeaseLost
from recoup.model.failure import FailureKind
from recoup.model.outcome import Artifact, Looking, Order, Rewritten
from recoup.model.plan import BrowserAction, BrowserVerb
from recoup.model.target import Element, Floors, HealMode, Resolution, Target, target_words
from recoup.ports import Lifeline
from recoup.runtimes.browser.filling import Refused, typed, typed_otherwise
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.pictures import Pictures
from recoup.runtimes.browser.seeking import Found, Seeker, refusal
from recoup.runtimes.browser.session import Session
from recoup.runtimes.browser.settling import settle
from recoup.runtimes.browser.trouble import (
    Trouble,
    first_line,
    is_changed_page,
    is_lost,
    of_status,
    was_performed,
    why_not_ready,
)

LEASE_MARGIN_S: Final = 0.5
"""Nothing is done so shortly before the lease ends: it would be done when another driver may have begun."""
_EXACTLY: Final = Looking(floors=Floors(1, 0), heal=HealMode.OFF)
_SCHEMES: Final = ("http", "https", "file", "about", "data")
_BUTTONS: Final = ("left", "middle", "right")
_TABLE: Final = """(element) => {
    const table = element.closest('table') || element.querySelector('table') || element;
    const words = (cell) => cell.innerText.replace(/\\s+/g, ' ').trim();
    const rows = Array.from(table.rows || table.querySelectorAll('[role=row]')).slice(0, 5001);
    const CELLS = '[role=cell],[role=gridcell],[role=columnheader]';
    const cells = (row) => Array.from(row.cells || row.querySelectorAll(CELLS));
    if (!rows.length) return null;
    const seen = new Map();
    const names = cells(rows[0]).map((cell, place) => {
        const name = words(cell) || `column ${place + 1}`, count = (seen.get(name) || 0) + 1;
        seen.set(name, count);
        return count > 1 ? `${name} ${count}` : name;
    });
    const named = (cell, at) => [names[at] || `column ${at + 1}`, words(cell)];
    return rows.slice(1).map((row) => Object.fromEntries(cells(row).map(named)));
}"""


@dataclass
class Attempt:
    """What one attempt has come to so far."""

    order: Order
    action: BrowserAction
    session: Session
    seeker: Seeker
    pictures: Pictures
    limits: BrowserLimits
    lifeline: Lifeline
    boot_s: Callable[[], float]
    resolution: Resolution | None = None
    observed: Element | None = None
    took_s: float | None = None
    """How long it took until the target was there."""
    waited: bool = False
    rewritten: Rewritten | None = None
    outputs: dict[str, Any] = field(default_factory=dict)
    artifacts: list[Artifact] = field(default_factory=list)
    acting: bool = False
    """The action itself has begun and has not come back: it may have been done."""
    acted: bool = False
    """It has come back: it was done."""

    async def find(self) -> Found:
        found = await self.seeker.find(self.target, self.looking, self.order.policy)
        self.resolution, self.observed = found.resolution, found.element
        if self.took_s is None:
            self.took_s, self.waited = found.took_s, found.waited
        return found

    @property
    def looking(self) -> Looking:
        return self.order.looking or _EXACTLY

    @property
    def target(self) -> Target:
        assert self.action.target is not None, f"{self.action.verb}: a target is needed"
        return self.action.target

    def must_hold_lease(self, doing: str) -> float:
        """How long the lease still lasts. A driver that was frozen must not click."""
        left_s = self.lifeline.deadline_boot_s - self.boot_s() - LEASE_MARGIN_S
        if left_s <= 0:
            raise LeaseLost(
                f"{doing} was not done: the lease of run {self.order.run_id} has run out",
                hint=f"Another driver may have it. Go on with: recoup resume {self.order.run_id}",
            )
        return left_s

    async def touch(self, act: Callable[[float], Awaitable[Any]], doing: str) -> None:
        """An action that leaves something in the document; noted before it is done, as it may load another one."""
        past = self.session.past
        before, past.touched = past.touched, True
        try:
            await self.do(act, doing)
        except Trouble:
            if not self.acting:
                past.touched = before
            raise

    async def do(self, act: Callable[[float], Awaitable[Any]], doing: str) -> Any:
        """The action itself, with the time it may take: no longer than the lease, so that the library cannot carry it
        out after the lease's end either."""
        left_s = self.must_hold_lease(doing)
        self.acting = True
        try:
            answer = await act(1000 * min(self.limits.act_s, left_s))
        except Trouble:
            self.acting = False  # our own word that it was not done
            raise
        except Error as error:
            raise self._trouble(error, doing) from error
        self.acting, self.acted = False, True
        return answer

    def _trouble(self, error: Error, doing: str) -> Exception:
        if is_lost(error):
            return error
        if is_changed_page(error) or not was_performed(error):
            self.acting = False
            words = f"{doing}: {why_not_ready(error)}"
            return Trouble(FailureKind.TARGET_BLOCKED, words, resolution=self.resolution)
        words = f"{doing}: begun, but it did not come to an end: {first_line(error)}"
        return Trouble(FailureKind.WATCHDOG, words, resolution=self.resolution)


async def perform(attempt: Attempt) -> None:
    await _VERBS[attempt.action.verb](attempt)


# Where to be


async def _goto(attempt: Attempt) -> None:
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


async def _tab(attempt: Attempt) -> None:
    session, which = attempt.session, attempt.action.value or "last"
    if which == "new":
        attempt.must_hold_lease("tab new")
        session.page = await session.new_page()
        return
    page = await _tab_in_time(attempt, which)
    if page is None:
        count = len(session.context.pages)
        raise Trouble(
            FailureKind.TARGET_NOT_FOUND, f"tab {which!r}: there are {count} tabs, none of them that one"
        )
    session.page = page
    session.crashed = False
    await page.bring_to_front()


async def _tab_in_time(attempt: Attempt, which: str) -> Page | None:
    """A tab that a click opens may take its time, as a target may."""
    look_s = attempt.limits.look_s
    for _ in range(max(1, int(attempt.order.policy.page_target_s / look_s))):
        page = _tab_named(attempt.session, which)
        if page is not None:
            return page
        await asyncio.sleep(look_s)
    return None


def _tab_named(session: Session, which: str) -> Page | None:
    pages = [page for page in session.context.pages if not page.is_closed()]
    if which == "last":
        return pages[-1] if pages else None
    if which.isdigit():
        return pages[int(which) - 1] if 0 < int(which) <= len(pages) else None
    return next((page for page in reversed(pages) if which in page.url), None)


# Acting on a target


async def _acted_on(
    attempt: Attempt,
    ready: Callable[[ElementHandle, float], Awaitable[Any]],
    act: Callable[[ElementHandle, float], Awaitable[Any]],
) -> Found:
    """Resolve, get ready, look again, act: the page may change between any two of them."""
    doing = f"{attempt.action.verb} {target_words(attempt.target)}"
    for _ in range(attempt.limits.finds_max):
        found = await attempt.find()
        try:
            await _show_heal(attempt, found)
            await ready(found.node, 1000 * attempt.limits.ready_s)
            if await found.is_still_it():
                await attempt.touch(lambda ms, node=found.node: act(node, ms), doing)  # type: ignore[misc]
                return found
        except Error as error:
            if is_lost(error):
                raise
            if not is_changed_page(error):
                raise Trouble(
                    FailureKind.TARGET_BLOCKED,
                    f"{doing}: {why_not_ready(error)}",
                    resolution=found.resolution,
                ) from error
        except Trouble as trouble:
            if attempt.acting or not _was_replaced(trouble):
                raise
    words = f"{doing}: the page replaced it again and again before it could be acted on"
    raise Trouble(FailureKind.RUNTIME_DRIFT, words, resolution=attempt.resolution)


async def _show_heal(attempt: Attempt, found: Found) -> None:
    """Before it is acted on: afterwards the page may be another one. A picture that cannot be had in time is done
    without: it is for people, and proves nothing."""
    if found.resolution.healed and not attempt.artifacts:
        page = await attempt.session.current()
        with suppress(Error, TimeoutError):
            attempt.artifacts.append(await attempt.pictures.take(page, "chosen", resolution=found.resolution))


def _was_replaced(trouble: Trouble) -> bool:
    cause = trouble.__cause__
    return isinstance(cause, Error) and is_changed_page(cause)


async def _click(attempt: Attempt) -> None:
    button: Any = attempt.action.button or "left"
    if button not in _BUTTONS:
        raise Trouble(FailureKind.INVALID_INPUT, f"button {button!r} is none of {', '.join(_BUTTONS)}")
    count = 2 if attempt.action.double else 1

    async def ready(node: ElementHandle, ms: float) -> None:
        await node.click(trial=True, timeout=ms)

    async def act(node: ElementHandle, ms: float) -> None:
        await node.click(timeout=ms, button=button, click_count=count, no_wait_after=True)

    await _acted_on(attempt, ready, act)


async def _hover(attempt: Attempt) -> None:
    async def ready(node: ElementHandle, ms: float) -> None:
        await node.hover(trial=True, timeout=ms)

    async def act(node: ElementHandle, ms: float) -> None:
        await node.hover(timeout=ms)

    await _acted_on(attempt, ready, act)


async def _fill(attempt: Attempt) -> None:
    text = attempt.action.value or ""
    _remember_secrets(attempt, text)

    async def act(node: ElementHandle, ms: float) -> None:
        if attempt.order.secret_values:
            await node.fill(text, timeout=ms)
        elif (refused := await typed(node, text, ms, leaves=attempt.order.attempt > 1)) is not None:
            await _fill_otherwise(attempt, node, refused, ms)

    await _acted_on(attempt, _editable, act)


async def _fill_otherwise(attempt: Attempt, node: ElementHandle, refused: Refused, ms: float) -> None:
    """The same value in the form that the field asks for, where that may be: it is a heal, and the only one of its
    attempt, as two changes at once prove neither."""
    looking, other = attempt.looking, refused.rewritten
    healed = attempt.resolution is not None and attempt.resolution.healed
    if looking.heal is HealMode.OFF or not looking.expects or healed:
        if refused.error is not None:
            raise refused.error
        return
    why = refusal(looking)
    if why:
        words = f"the field takes no {other.kind} like {other.before}; {other.after} would have been typed, but {why}"
        raise Trouble(
            FailureKind.INVALID_INPUT,
            f"fill {target_words(attempt.target)}: {words}",
            resolution=attempt.resolution,
        )
    attempt.rewritten = await typed_otherwise(node, refused, ms)


async def _editable(node: ElementHandle, ms: float) -> None:
    await node.wait_for_element_state("visible", timeout=ms)
    await node.wait_for_element_state("editable", timeout=ms)


def _remember_secrets(attempt: Attempt, text: str) -> None:
    """Before it is typed: from now on pictures cover it, and traces are off."""
    attempt.session.typed_secrets |= {
        secret for secret in attempt.order.secret_values if secret and secret in text
    }


async def _press(attempt: Attempt) -> None:
    key = attempt.action.value or ""
    if attempt.action.target is None:
        page = await attempt.session.current()
        await attempt.touch(lambda _ms: page.keyboard.press(key), f"press {key}")
        return

    async def ready(node: ElementHandle, ms: float) -> None:
        await node.wait_for_element_state("visible", timeout=ms)
        await node.wait_for_element_state("enabled", timeout=ms)

    async def act(node: ElementHandle, ms: float) -> None:
        await node.press(key, timeout=ms, no_wait_after=True)

    await _acted_on(attempt, ready, act)


async def _select(attempt: Attempt) -> None:
    wanted = list(attempt.action.values)

    async def ready(node: ElementHandle, ms: float) -> None:
        await node.wait_for_element_state("visible", timeout=ms)
        await node.wait_for_element_state("enabled", timeout=ms)

    async def act(node: ElementHandle, ms: float) -> None:
        options = await node.evaluate(_OPTIONS)
        if options is None:
            raise Trouble(
                FailureKind.INVALID_INPUT, "select: the target is not a list of options (a <select>)"
            )
        missing = [one for one in wanted if one not in options["labels"] and one not in options["values"]]
        if missing:
            known = ", ".join(options["labels"][:20])
            raise Trouble(
                FailureKind.TARGET_NOT_FOUND, f"select: no option {missing[0]!r}; there are: {known}"
            )
        labels = [one for one in wanted if one in options["labels"]]
        values = [one for one in wanted if one not in options["labels"]]
        await node.select_option(label=labels or None, value=values or None, timeout=ms, no_wait_after=True)

    await _acted_on(attempt, ready, act)


_OPTIONS: Final = """(node) => node.localName !== 'select' ? null : {
    labels: Array.from(node.options, (one) => one.label.replace(/\\s+/g, ' ').trim()),
    values: Array.from(node.options, (one) => one.value),
}"""


async def _check(attempt: Attempt) -> None:
    await _set_checked(attempt, True)


async def _uncheck(attempt: Attempt) -> None:
    await _set_checked(attempt, False)


async def _set_checked(attempt: Attempt, checked: bool) -> None:
    async def ready(node: ElementHandle, ms: float) -> None:
        await node.set_checked(checked, trial=True, timeout=ms)

    async def act(node: ElementHandle, ms: float) -> None:
        await node.set_checked(checked, timeout=ms, no_wait_after=True)

    await _acted_on(attempt, ready, act)


async def _upload(attempt: Attempt) -> None:
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

    await _acted_on(attempt, ready, act)


def _file(order: Order, name: str) -> Path:
    path = Path(order.cwd, name)
    if not path.is_file():
        raise Trouble(FailureKind.INVALID_INPUT, f"upload: there is no file {name}")
    return path


async def _download(attempt: Attempt) -> None:
    """A click, then the file: watched while it comes, and put where the plan wants it when it is whole."""
    place = _place(attempt.order, attempt.action.into or "")
    await _click(attempt)
    try:
        async with asyncio.timeout(attempt.limits.download_idle_s):
            download = await attempt.session.downloads.get()
    except TimeoutError:
        words = f"no download began within {attempt.limits.download_idle_s:g} s"
        raise Trouble(FailureKind.DOWNLOAD_STALLED, words, resolution=attempt.resolution) from None
    await _watch_download(attempt, download)
    place.parent.mkdir(parents=True, exist_ok=True)
    await download.save_as(place)
    # The library keeps its own until the browser ends, and the next download would be counted with it.
    await download.delete()
    attempt.outputs["file"] = attempt.action.into or ""


def _place(order: Order, name: str) -> Path:
    folder = Path(order.cwd).resolve()
    place = (folder / name).resolve()
    if not name or place == folder or not place.is_relative_to(folder):
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


# Waiting and reading


async def _wait(attempt: Attempt) -> None:
    action = attempt.action
    if action.target is None:
        await asyncio.sleep(action.seconds or 0)
        return
    limit_s = action.seconds or attempt.order.policy.step_timeout_seconds
    end_s = time.monotonic() + limit_s
    while True:
        page = await attempt.session.current()
        visible = [one for one in await attempt.seeker.matches(page, action.target) if one.visible]
        if bool(visible) != action.hidden:
            attempt.observed = visible[0] if len(visible) == 1 else None
            return
        if time.monotonic() >= end_s:
            how = "is still to be seen" if action.hidden else "is not to be seen"
            words = f"{target_words(action.target)} {how} after {limit_s:g} s"
            raise Trouble(FailureKind.TARGET_NOT_FOUND, words)
        await asyncio.sleep(attempt.limits.look_s)


async def _read(attempt: Attempt) -> None:
    found = await attempt.find()
    name = attempt.action.into or "text"
    value = await _value(attempt, found)
    if len(str(value).encode()) > attempt.order.policy.outputs_bytes_max:
        words = (
            f"what was read is larger than outputs_bytes_max ({attempt.order.policy.outputs_bytes_max} bytes)"
        )
        raise Trouble(FailureKind.OUTPUT_INVALID, words)
    attempt.outputs[name] = value


async def _value(attempt: Attempt, found: Found) -> Any:
    action, element, node = attempt.action, found.element, found.node
    if action.table:
        rows = await node.evaluate(_TABLE)
        if rows is None:
            raise Trouble(FailureKind.OUTPUT_INVALID, f"{target_words(attempt.target)}: there is no table")
        return rows
    if element.type == "password":
        raise Trouble(FailureKind.INVALID_INPUT, "a password field is not read")
    if action.attribute:
        value = await node.get_attribute(action.attribute)
        if value is None:
            raise Trouble(
                FailureKind.OUTPUT_INVALID,
                f"{target_words(attempt.target)} has no attribute {action.attribute}",
            )
        return value
    if element.tag in ("input", "textarea", "select"):
        return await node.input_value()
    return " ".join((await node.inner_text()).split())


async def _screenshot(attempt: Attempt) -> None:
    page = await attempt.session.current()
    await settle(page, attempt.session.traffic, attempt.limits, attempt.limits.settle_s)
    node = None
    if attempt.action.target is not None:
        node = (await attempt.find()).node
    name = attempt.action.value or attempt.order.step_id
    attempt.artifacts.append(await attempt.pictures.take(page, name, node=node))


_VERBS: Final[dict[BrowserVerb, Callable[[Attempt], Awaitable[None]]]] = {
    BrowserVerb.GOTO: _goto,
    BrowserVerb.CLICK: _click,
    BrowserVerb.FILL: _fill,
    BrowserVerb.PRESS: _press,
    BrowserVerb.SELECT: _select,
    BrowserVerb.CHECK: _check,
    BrowserVerb.UNCHECK: _uncheck,
    BrowserVerb.UPLOAD: _upload,
    BrowserVerb.HOVER: _hover,
    BrowserVerb.WAIT: _wait,
    BrowserVerb.READ: _read,
    BrowserVerb.SCREENSHOT: _screenshot,
    BrowserVerb.DOWNLOAD: _download,
    BrowserVerb.TAB: _tab,
}
LEAVES_ALONE: Final = frozenset({BrowserVerb.WAIT, BrowserVerb.READ, BrowserVerb.SCREENSHOT})
"""Verbs that change nothing in the page."""
