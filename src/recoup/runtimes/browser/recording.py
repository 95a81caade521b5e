"""Watch what a person does in a browser. Nothing is decided here but what belongs together: the letters of one text,
a click and the page that it led to."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
from playwright.async_api import BrowserContext, CDPSession, Error, Frame, Page

from recoup.model.plan import BrowserAction, BrowserVerb, Dialog
from recoup.model.recorded import Deed
from recoup.model.target import Element, Target
from recoup.runtimes.browser.collector import ELEMENTS_MAX, NODES_MAX, collected
from recoup.runtimes.browser.scripts import script

DEEDS_MAX: Final = 1_000
TEXT_CHARS_MAX: Final = 20_000
"""Of what is typed into one field."""
MESSAGE_CHARS_MAX: Final = 64 << 20
FILES_MAX: Final = 100
REMARKS_MAX: Final = 50
LED_S: Final = 10.0
"""A page that comes so long after a deed may have come by itself."""
BY_ITSELF_S: Final = 0.5
"""A page that comes so soon after a deed was not asked for in the address bar."""
_TELL: Final = "recoupTold"
_DESCRIBES: Final = "recoupDescribes"
_ADDRESSES: Final = ("http:", "https:", "file:")

Describe = Callable[[Sequence[Element], int], Target]
"""The element with this number, as a plan names it."""


class Told(msgspec.Struct, frozen=True):
    """One message of the listeners. A page could send one as well: all of it is checked."""

    kind: Literal["click", "fill", "select", "check", "uncheck", "upload", "press", "chooser"]
    up: int = 0
    """How many frames further out the page was looked at."""
    page: str = ""
    index: int = -1
    key: str = ""
    """Of the text that is being typed."""
    value: str = ""
    values: tuple[str, ...] = ()
    secret: bool = False
    cut: bool = False
    count: int = 1
    button: Literal["middle", "right"] | None = None


@dataclass
class _Done:
    """A deed while more may come to it."""

    action: BrowserAction
    page: Page
    at_s: float
    from_url: str
    key: str = ""
    secret: bool = False
    led_to: str | None = None


@dataclass
class Recording:
    """What was done so far in one context."""

    context: BrowserContext
    describe: Describe
    clock: Callable[[], float] = time.monotonic
    deeds_max: int = DEEDS_MAX
    remarks: list[str] = field(default_factory=list)
    """What a person should know about the plan."""
    full: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Every page was closed, or the browser."""
    _done: list[_Done] = field(default_factory=list)
    _pages: list[Page] = field(default_factory=list)
    """Those that the plan will have, in the order in which they were opened."""
    _asked: set[Page] = field(default_factory=set)
    """Pages that are on their way to where their own script or a link leads."""
    _current: Page | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def open(self, url: str) -> Page:
        """The first page, watched from its beginning."""
        await self.context.expose_binding(_TELL, self._heard)
        await self.context.add_init_script(_listeners())
        page = await self.context.new_page()
        self._pages.append(page)
        self._current = page
        self.context.on("page", lambda other: self._in_background(self._opened(other)))
        self.context.on("close", lambda _context: self.closed.set())
        await self._watch(page)
        self._add(BrowserAction(verb=BrowserVerb.GOTO, value=url), page)
        self._asked.add(page)
        await page.goto(url, wait_until="domcontentloaded")
        return page

    async def finish(self) -> None:
        """What is still under way comes to its end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)

    def secrets(self) -> list[str]:
        """Every one once, in the order in which they were first typed. Never to be stored."""
        typed = (done.action.value for done in self._done if done.secret)
        return list(dict.fromkeys(value for value in typed if value))

    def deeds(self) -> list[Deed]:
        secrets = self.secrets()
        return [_deed(done, secrets) for done in self._done]

    # What the listeners tell

    def _heard(self, source: dict[str, Any], message: object) -> None:
        if not isinstance(message, str) or len(message) > MESSAGE_CHARS_MAX:
            return
        with suppress(msgspec.DecodeError, IndexError):
            told = msgspec.json.decode(message, type=Told)
            self._take(told, source["page"], source["frame"])

    def _take(self, told: Told, page: Page, frame: Frame) -> None:
        match told.kind:
            case "chooser":
                self._drop_click(page)
            case "fill" if self._goes_on(told):
                self._type(told)
            case "click" if told.count == 2 and self._is_click(page):
                self._change(double=True)
            case "click" if told.count > 2:
                pass
            case _:
                self._add_told(told, page, frame)

    def _goes_on(self, told: Told) -> bool:
        return bool(self._done) and bool(told.key) and self._done[-1].key == told.key

    def _type(self, told: Told) -> None:
        self._change(value=told.value[:TEXT_CHARS_MAX])
        self._done[-1].secret |= told.secret

    def _is_click(self, page: Page) -> bool:
        last = self._done[-1] if self._done else None
        return last is not None and last.page == page and last.action.verb is BrowserVerb.CLICK

    def _drop_click(self, page: Page) -> None:
        """It only opened the chooser of files: an upload needs none."""
        if self._is_click(page):
            self._done.pop()

    def _add_told(self, told: Told, page: Page, frame: Frame) -> None:
        target = self._target(told)
        if target is None and told.kind != "press":
            self._remark(f"a {told.kind} on something that could not be described was left out")
            return
        if told.cut:
            self._remark(f"a text of more than {TEXT_CHARS_MAX} characters was cut")
        self._turn_to(page)
        if told.kind == "select" and self._is_same_choice(target):
            self._change(values=told.values[:FILES_MAX])
            return
        self._add(_action(told, target), page, key=told.key, secret=told.secret)
        outer = _outer(frame, told.up)
        if target is not None and self._done and outer != page.main_frame:
            self._in_background(self._name_frame(self._done[-1], outer))

    def _is_same_choice(self, target: Target | None) -> bool:
        """On the way to an option the keys choose others."""
        last = self._done[-1].action
        if last.verb is not BrowserVerb.SELECT or last.target is None or target is None:
            return False
        one, other = last.target.recorded, target.recorded
        return one is not None and other is not None and (one.xpath, one.frame) == (other.xpath, other.frame)

    def _target(self, told: Told) -> Target | None:
        if not told.page or told.index < 0:
            return None
        return self.describe(collected(told.page), told.index)

    def _add(self, action: BrowserAction, page: Page, *, key: str = "", secret: bool = False) -> None:
        if len(self._done) >= self.deeds_max:
            self._remark(f"the recording ended after {self.deeds_max} steps")
            self.full.set()
            return
        self._done.append(_Done(action, page, self.clock(), page.url, key, secret))

    def _change(self, **what: Any) -> None:
        self._done[-1].action = msgspec.structs.replace(self._done[-1].action, **what)

    def _remark(self, words: str) -> None:
        if words not in self.remarks and len(self.remarks) < REMARKS_MAX:
            self.remarks.append(words)

    async def _name_frame(self, done: _Done, frame: Frame) -> None:
        """A frame of another origin is found by its name, its id or its address, as the element that holds it has them:
        some browsers call an id a name. If that is gone already, what this browser says must do."""
        name = frame.name
        with suppress(Error):
            name = _frame_words(await (await frame.frame_element()).evaluate(_HOLDER))
        if not name or done.action.target is None:
            self._remark(
                "something was done in a frame that has neither a name nor an address: say which (`frame`)"
            )
            return
        target = msgspec.structs.replace(done.action.target, frame=name)
        done.action = msgspec.structs.replace(done.action, target=target)

    # Pages

    def _turn_to(self, page: Page) -> None:
        if page == self._current:
            return
        if page not in self._pages:
            self._pages.append(page)
        self._current = page
        self._add(BrowserAction(verb=BrowserVerb.TAB, value=self._tab(page)), page)

    def _tab(self, page: Page) -> str:
        """The newest is the last one; others go by number, as long as none was closed."""
        if page == self._pages[-1]:
            return "last"
        if any(other.is_closed() for other in self._pages):
            return page.url
        return str(self._pages.index(page) + 1)

    async def _opened(self, page: Page) -> None:
        with suppress(Error):
            if await page.opener() is not None:
                self._pages.append(page)
                self._asked.add(page)
            await self._watch(page)

    async def _watch(self, page: Page) -> None:
        """By way of the browser's own events: they alone tell a new document from another place in the same one."""
        page.on("close", self._closed)
        session = await self.context.new_cdp_session(page)
        tree = await session.send("Page.getFrameTree")
        self._listen(session, page, str(tree["frameTree"]["frame"]["id"]))
        await session.send("Page.enable")

    def _listen(self, session: CDPSession, page: Page, main: str) -> None:
        def of_page(act: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
            return lambda event: act(event) if event["frameId"] == main else None

        session.on("Page.frameRequestedNavigation", of_page(lambda _event: self._asked.add(page)))
        session.on("Page.navigatedWithinDocument", of_page(lambda event: self._led(page, str(event["url"]))))
        session.on("Page.frameNavigated", lambda event: self._arrived(page, event["frame"]))
        session.on("Page.javascriptDialogClosed", lambda event: self._answered(page, event))

    def _led(self, page: Page, url: str) -> None:
        last = self._done[-1] if self._done else None
        if last is not None and last.page == page and self.clock() - last.at_s < LED_S:
            last.led_to = url

    def _arrived(self, page: Page, frame: dict[str, Any]) -> None:
        """Another document: where neither the page nor a deed led there, a person has gone there."""
        if frame.get("parentId"):
            return
        was_asked = page in self._asked
        self._asked.discard(page)
        last = self._done[-1] if self._done else None
        soon = last is not None and last.page == page and self.clock() - last.at_s < BY_ITSELF_S
        url = str(frame.get("url", "")) + str(frame.get("urlFragment", ""))
        if was_asked or soon:
            self._led(page, url)
        elif url.startswith(_ADDRESSES):
            self._go(page, url)

    def _go(self, page: Page, url: str) -> None:
        if page not in self._pages:
            self._pages.append(page)
            self._current = page
            self._add(BrowserAction(verb=BrowserVerb.TAB, value="new"), page)
        self._turn_to(page)
        self._add(BrowserAction(verb=BrowserVerb.GOTO, value=url), page)

    def _answered(self, page: Page, event: dict[str, Any]) -> None:
        """A dialog belongs to what was done last."""
        last = self._done[-1] if self._done else None
        if last is None or last.page != page or last.action.verb in (BrowserVerb.GOTO, BrowserVerb.TAB):
            return
        words = str(event.get("userInput") or "")[:TEXT_CHARS_MAX] or None
        accepted = bool(event.get("result"))
        self._change(dialog=Dialog(accept=accepted, text=words if accepted else None))

    def _closed(self, _page: Page) -> None:
        if not self.context.pages:
            self.closed.set()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _listeners() -> str:
    options = {
        "elementsMax": ELEMENTS_MAX,
        "nodesMax": NODES_MAX,
        "textMax": TEXT_CHARS_MAX,
        "tell": _TELL,
        "describes": _DESCRIBES,
    }
    return f"({script('recorder')})({script('collector')}, {json.dumps(options)})"


def _action(told: Told, target: Target | None) -> BrowserAction:
    return BrowserAction(
        verb=BrowserVerb(told.kind),
        target=target,
        value=told.value[:TEXT_CHARS_MAX] if told.kind in ("fill", "press") else None,
        values=told.values[:FILES_MAX],
        button=told.button,
    )


def _outer(frame: Frame, up: int) -> Frame:
    for _ in range(up):
        frame = frame.parent_frame or frame
    return frame


def _frame_words(holder: dict[str, str]) -> str:
    if holder["name"]:
        return holder["name"]
    attribute = next((name for name in ("id", "src") if holder[name]), None)
    return f"iframe[{attribute}={json.dumps(holder[attribute], ensure_ascii=False)}]" if attribute else ""


_HOLDER: Final = (
    "(node) => ({name: node.getAttribute('name') || '', id: node.id, src: node.getAttribute('src') || ''})"
)


def _deed(done: _Done, secrets: Sequence[str]) -> Deed:
    led_to = done.led_to if done.led_to != done.from_url else None
    if not done.secret or not done.action.value:
        return Deed(action=done.action, led_to=led_to)
    hidden = msgspec.structs.replace(done.action, value=None)
    return Deed(action=hidden, secret=secrets.index(done.action.value), led_to=led_to)
