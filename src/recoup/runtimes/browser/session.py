"""One run's browser: its process, its context, its pages, and what happens in them beside the actions."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, BrowserContext, Dialog, Download, Error, Page, Playwright

from recoup.model.failure import FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.plan import Dialog as WantedDialog
from recoup.ports import Lifeline
from recoup.runtimes.browser.guarding import Guard
from recoup.runtimes.browser.kept_pages import KeptTab
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.patience import Visit
from recoup.runtimes.browser.traffic import Traffic
from recoup.runtimes.browser.trouble import Trouble

_ARGS: Final = ("--disable-crash-reporter", "--no-pings", "--disable-domain-reliability")
_PASSED_ON: Final = re.compile(
    r"PATH|LANG|LC_[A-Z]+|TZ|DISPLAY|WAYLAND_DISPLAY|LD_LIBRARY_PATH|FONTCONFIG_\w+|SSL_CERT_\w+|(?:https?|no|all)_proxy",
    re.IGNORECASE,
)
"""Of the step's environment: a browser has no business with the rest, and there may be secrets in it."""
_LOCALE: Final = re.compile(r"([a-z]{2,3})_([A-Z]{2})(?:\..*)?")
_WORDS_MAX: Final = 200
_CANARY: Final = {"name": "recoup", "domain": "recoup.invalid"}
"""A cookie of no site: when it is gone, all cookies are."""
_ERROR_PAGE: Final = "chrome-error:"
_BLANK: Final = "about:blank"
_STATUS: Final = "() => (performance.getEntriesByType('navigation')[0] || {}).responseStatus || 0"


@dataclass
class Past:
    """What another browser needs to go on where one was lost."""

    url: str | None = None
    storage: dict[str, Any] | None = None
    touched_by: list[str] = field(default_factory=list)
    """The steps that did something in the document that is open: to load it again may lose that."""

    @property
    def touched(self) -> bool:
        return bool(self.touched_by)

    def loaded(self) -> None:
        """Another document: whatever was done in the one before it has had its effect, or is gone."""
        self.touched_by.clear()


@dataclass
class Told:
    """A dialog that opened, and what was done with it."""

    kind: str
    words: str
    expected: bool


@dataclass
class Session:
    """An open browser with one context."""

    run_id: str
    browser: Browser
    guard: Guard
    identity: ProcessIdentity
    limits: BrowserLimits
    past: Past
    env: dict[str, str]
    visit: Visit = field(default_factory=Visit)
    """The last attempts on the document that is open."""
    context: BrowserContext = field(init=False)
    traffic: Traffic = field(init=False)
    page: Page | None = None
    dialogs: list[Told] = field(default_factory=list)
    downloads: asyncio.Queue[Download] = field(default_factory=lambda: asyncio.Queue(100))
    dialog: WantedDialog | None = None
    """What the action under way does with one."""
    crashed: bool = False
    """The current page is dead."""
    tainted: bool = False
    """An action was left while it may still be carried out: nothing else is done in this page."""
    typed_secrets: set[str] = field(default_factory=set)
    hide: Callable[[str], str] = lambda text: text
    """A text as records of the run may show it."""
    began_s: float = field(default_factory=time.monotonic)
    """When the current attempt began."""
    before: dict[str, bytes] = field(default_factory=dict)
    """Pictures of regions, taken before the current attempt, by what they show."""
    detach: Callable[[], None] = lambda: _nothing()
    lifeline: Lifeline | None = None

    _tabs: list[Page] = field(default_factory=list)
    """As plans count them, some of them closed."""
    _dead: set[Page] = field(default_factory=set)
    """Tabs that have crashed."""
    _touched_elsewhere: dict[Page, list[str]] = field(default_factory=dict)
    """The steps that did something in the documents of other tabs."""

    useless: bool = False
    """It lives, but does not answer: the next attempt opens another one."""

    @property
    def alive(self) -> bool:
        return self.browser.is_connected() and not self.useless

    @property
    def usable(self) -> bool:
        """There is a page that can be looked at."""
        return self.alive and self.page is not None and not self.crashed and not self.tainted

    async def open_context(self, storage: dict[str, Any] | None) -> None:
        """A new context in place of the old one, with these cookies and local storage, and no page."""
        if hasattr(self, "context"):
            with suppress(Error):
                await self.context.close()
        self.context = await self.browser.new_context(storage_state=storage, **_like(self.env))  # type: ignore[arg-type]
        await self.context.add_cookies([{**_CANARY, "value": "here", "path": "/"}])  # type: ignore[typeddict-item]
        self.traffic = Traffic(self.context, self.limits)
        self.page = None
        self.crashed = self.tainted = False
        self._touched_elsewhere.clear()
        self._tabs.clear()
        self._dead.clear()
        self.context.on("page", self._opened)
        self.context.on("dialog", self._asked)

    def _cookies(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those to keep: if the browser has lost its cookies, what was known before, and what was set since."""
        cookies = [cookie for cookie in found if not _is_canary(cookie)]
        if len(cookies) < len(found) or self.past.storage is None:
            return cookies
        known = {_cookie_key(cookie): cookie for cookie in (*self.past.storage["cookies"], *cookies)}
        return list(known.values())

    async def has_cookies(self) -> bool:
        """False: the browser's network process was lost with all cookies, and replaced by a new one without a word."""
        try:
            async with asyncio.timeout(self.limits.close_s):
                return any(_is_canary(cookie) for cookie in await self.context.cookies())
        except (Error, TimeoutError):
            return False

    @property
    def tabs(self) -> list[Page]:
        """In the order in which they were opened. A page that is replaced keeps its place."""
        return _open(self._tabs)

    def other_tabs(self) -> tuple[list[KeptTab], list[KeptTab]]:
        """Those before the current page, and those after it."""
        place = self._tabs.index(self.page) if self.page in self._tabs else len(self._tabs)
        before, after = self._tabs[:place], self._tabs[place + 1 :]
        return [*map(self._kept_tab, _open(before))], [*map(self._kept_tab, _open(after))]

    def _kept_tab(self, page: Page) -> KeptTab:
        url = _BLANK if page.url.startswith(_ERROR_PAGE) else page.url
        return KeptTab(url, tuple(self._touched_elsewhere.get(page, ())))

    async def current(self) -> Page:
        """The page that actions are about: made when there is none; the last other one when it was closed."""
        if self.page is not None and not self.page.is_closed():
            return self.page
        page = self.tabs[-1] if self.tabs else await self.new_page()
        self.turn_to(page)
        return page

    async def new_page(self) -> Page:
        """A browser that cannot open one any more is of no use."""
        try:
            async with asyncio.timeout(self.limits.open_s):
                return await self.context.new_page()
        except TimeoutError:
            self.useless = True
            raise Trouble(FailureKind.BROWSER_CRASHED, "the browser does not open a page any more") from None

    def turn_to(self, page: Page) -> None:
        """Another tab has a document of its own, with its own address and traces."""
        if self.page is not None and page != self.page:
            self._touched_elsewhere[self.page] = list(self.past.touched_by)
            self.past.touched_by[:] = self._touched_elsewhere.pop(page, ())
            self.past.url = self._address(page.url)
        self.page, self.crashed = page, page in self._dead

    async def answers(self) -> bool:
        """Whether it answers trivial questions in time, and so does its page. A page that will be replaced, or that is
        on its way to another document, is not asked."""
        try:
            async with asyncio.timeout(self.limits.answer_s):
                if self.alive:
                    await self.context.cookies()
                if self.usable and self.page is not None and not self.traffic.is_navigating(self.page):
                    await self.page.evaluate("0")
        except TimeoutError:
            self.useless = True
        except Error:  # an answer, too: the page is gone, or on its way to another one
            pass
        return self.alive

    async def shows_error(self) -> bool:
        """Whether its document could not be loaded, or came with the status of an error."""
        page = await self.current()
        if page.url.startswith(_ERROR_PAGE) or self.traffic.is_navigating(page):
            return page.url.startswith(_ERROR_PAGE)
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(self.limits.answer_s):
                return bool(await page.evaluate(_STATUS) >= 400)
        return False

    async def replace_page(self) -> Page:
        """A fresh page in place of one that is dead or not to be trusted."""
        old, self.page = self.page, await self.new_page()
        if old in self._tabs:
            self._tabs.remove(self.page)
            self._tabs[self._tabs.index(old)] = self.page
        self.crashed = self.tainted = False
        if old is not None and not old.is_closed():
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(self.limits.close_s):
                    await old.close(run_before_unload=False)
        return self.page

    @asynccontextmanager
    async def another_page(self) -> AsyncIterator[Page | None]:
        """A second page, which is the current one until it is closed. None: the browser does not open it."""
        kept = (self.page, self.crashed, self.tainted, list(self.past.touched_by))
        try:
            page = await self.new_page()
        except (Trouble, Error):
            yield None
            return
        self.page = page
        try:
            yield page
        finally:
            self.page, self.crashed, self.tainted, self.past.touched_by[:] = kept
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(self.limits.close_s):
                    await page.close(run_before_unload=False)

    def hang_on(self, lifeline: Lifeline | None, deadline_boot_s: float) -> None:
        """The browser lives as long as the lease does, also between attempts; without a lease until the deadline."""
        if lifeline is None or self.lifeline is not lifeline:
            self.detach()
            self.detach = lifeline.attach(self.guard.extend) if lifeline is not None else _nothing
            self.lifeline = lifeline
        self.guard.extend(deadline_boot_s)

    def begin(self, dialog: WantedDialog | None) -> None:
        """A new attempt: what came before is not about it."""
        self.began_s = time.monotonic()
        self.dialog = dialog
        self.dialogs.clear()
        self.before.clear()
        while not self.downloads.empty():
            self.downloads.get_nowait()

    async def keep_past(self) -> None:
        """What is needed to go on elsewhere; of a page that does not answer, what was known before."""
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(self.limits.close_s):
                state: dict[str, Any] = await self.context.storage_state()  # type: ignore[assignment]
                self.past.storage = {**state, "cookies": self._cookies(state["cookies"])}
        if self.page is not None and not self.page.is_closed() and not self.crashed:
            self.past.url = self._address(self.page.url)

    def _address(self, url: str) -> str | None:
        """Where to load the page from again: of one that could not be loaded, where it should have come from."""
        if url.startswith(_ERROR_PAGE):
            return self.traffic.failed_url or self.past.url
        return url if url != _BLANK else self.past.url

    async def close(self) -> None:
        """The browser is asked to end; its guard sees to it."""
        self.detach()
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(self.limits.close_s):
                await self.browser.close()
        await self.guard.close()

    def unexpected_dialog(self) -> Told | None:
        return next((told for told in self.dialogs if not told.expected), None)

    def _opened(self, page: Page) -> None:
        if len(self.context.pages) > self.limits.pages_max:
            _in_background(page.close())
            return
        self._tabs.append(page)
        page.on("crash", self._crashed)
        page.on("download", self._downloading)
        page.on("domcontentloaded", self._loaded)

    def _loaded(self, page: Page) -> None:
        if page == self.page:
            self.past.loaded()
            self.visit.restart(time.monotonic())
        self._touched_elsewhere.pop(page, None)

    def _crashed(self, page: Page) -> None:
        self._dead.add(page)
        if page == self.page:
            self.crashed = True

    def _downloading(self, download: Download) -> None:
        if self.downloads.full():
            _in_background(download.cancel())
        else:
            self.downloads.put_nowait(download)

    def _asked(self, dialog: Dialog) -> None:
        wanted = self.dialog
        leaving = dialog.type == "beforeunload"
        if len(self.dialogs) < self.limits.dialogs_max:
            words = dialog.message[:_WORDS_MAX]
            self.dialogs.append(Told(dialog.type, words, expected=wanted is not None or leaving))
        if leaving or (wanted is not None and wanted.accept):
            _in_background(dialog.accept(wanted.text or "") if wanted else dialog.accept())
        else:
            _in_background(dialog.dismiss())


def _open(pages: Iterable[Page]) -> list[Page]:
    return [page for page in pages if not page.is_closed()]


def _cookie_key(cookie: Any) -> tuple[str, str, str]:
    return cookie["name"], cookie["domain"], cookie["path"]


def _is_canary(cookie: Any) -> bool:
    return bool(cookie["name"] == _CANARY["name"] and cookie["domain"] == _CANARY["domain"])


def _nothing() -> None:
    """There is no lease to detach from."""


_tasks: set[asyncio.Task[None]] = set()
"""Kept until they are done: the loop itself holds them only weakly."""


def _in_background(work: Any) -> None:
    async def quietly() -> None:
        with suppress(Error):
            await work

    task = asyncio.get_running_loop().create_task(quietly())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def launch(
    playwright: Playwright, guard: Guard, env: Mapping[str, str], limits: BrowserLimits
) -> Browser:
    """Without what a browser does for its owner: updates, reports, checks whether it is the default."""
    for name in ("home", "tmp", "downloads", "traces", "artifacts"):
        (guard.folder / name).mkdir(mode=0o700)
    passed = {name: value for name, value in env.items() if _PASSED_ON.fullmatch(name)}
    return await playwright.chromium.launch(
        executable_path=guard.program,
        args=list(_ARGS),
        chromium_sandbox=os.geteuid() != 0,
        downloads_path=guard.folder / "downloads",
        traces_dir=guard.folder / "traces",
        **_artifacts_in(playwright, guard.folder / "artifacts"),
        timeout=1000 * limits.launch_s,
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
        env={
            **passed,
            "HOME": str(guard.folder / "home"),
            "TMPDIR": str(guard.folder / "tmp"),
            **guard.marks,
        },
    )


def _artifacts_in(playwright: Playwright, folder: Path) -> dict[str, Any]:
    """An older library knows no such folder, and makes an empty one in the temporary folder."""
    known = "artifacts_dir" in signature(playwright.chromium.launch).parameters
    return {"artifacts_dir": folder} if known else {}


def _like(env: Mapping[str, str]) -> dict[str, str]:
    """Language and time zone, if the step's environment names one; the machine's own otherwise."""
    found: dict[str, str] = {}
    if locale := _LOCALE.fullmatch(env.get("LC_ALL") or env.get("LANG") or ""):
        found["locale"] = f"{locale[1]}-{locale[2]}"
    if env.get("TZ"):
        found["timezone_id"] = env["TZ"].removeprefix(":")
    return found
