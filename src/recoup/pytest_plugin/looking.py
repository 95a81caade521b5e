"""Look at a page from a test. The scripts are those of the browser runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from playwright.async_api import ElementHandle, Error, Frame, JSHandle, Locator, Page

from recoup.model.target import Element
from recoup.pytest_plugin.colours import answered
from recoup.runtimes.browser.collector import ELEMENTS_MAX, NODES_MAX, collected, is_same
from recoup.runtimes.browser.scripts import script

ALIVE_MS: Final = 3_000
"""A page that does not answer for so long is not looked at: what it is asked has no limit of its own."""
_OPTIONS: Final[dict[str, Any]] = {
    "elementsMax": ELEMENTS_MAX,
    "nodesMax": NODES_MAX,
    "css": None,
    "offset": None,
}
_ONE_OPTIONS: Final = {**_OPTIONS, "elementsMax": 1 << 30}
_ONE: Final = "(node, options) => node.isConnected ? (COLLECT)({...options, only: node}).sent : null"
_ONLY: Final = "(nodes, options) => nodes.length === 1 ? (COLLECT)({...options, only: nodes[0]}).sent : null"
_ALL: Final = "(options) => (COLLECT)(options)"
_AMONG_ALL: Final = """(node, options) => {
    const {sent, nodes} = (COLLECT)(options);
    return [nodes.indexOf(node), sent];
}"""


@dataclass(frozen=True)
class Seen:
    """The one element that a locator finds."""

    locator: Locator
    element: Element
    """By itself, without what is around it."""

    async def described(self) -> tuple[Element, tuple[int, ...]] | None:
        """In full, and in which frame it is. None: it is gone, or there is nothing to tell of it.

        Nothing of the page is held on to: to let go of it after the action would wait for a dialog that it opened.
        """
        node = await answered(self.locator.element_handle(timeout=ALIVE_MS))
        frame = await answered(node.owner_frame())
        index, text = await answered(node.evaluate(_with_collector(_AMONG_ALL), _OPTIONS))
        await answered(node.dispose())
        return (_elements(text)[index], path_of(frame)) if frame and index >= 0 else None

    async def is_node(self, node: ElementHandle) -> bool:
        """Raises where the two are in different frames."""
        return await is_one(self.locator, node, ALIVE_MS)


@dataclass(frozen=True)
class Look:
    """One look at a frame."""

    elements: tuple[Element, ...]
    handle: JSHandle

    async def node(self, index: int) -> ElementHandle | None:
        asked = self.handle.evaluate_handle("(seen, index) => seen.nodes[index]", index)
        return (await answered(asked)).as_element()


async def is_alive(page: Page) -> bool:
    return not page.is_closed() and await is_there(page.locator(":root"), ALIVE_MS)


async def is_one(locator: Locator, node: ElementHandle, wait_ms: float) -> bool:
    """Whether the locator leads to this element and no other."""
    same: bool = await answered(locator.evaluate("(one, other) => one === other", node, timeout=wait_ms))
    return same


async def is_there(locator: Locator, wait_ms: float) -> bool:
    """Whether it finds something, now or within the time. Also False when the page does not answer."""
    try:
        await answered(locator.first.wait_for(state="attached", timeout=wait_ms))
    except Error:
        return False
    return True


async def only_one(locator: Locator, wait_ms: float) -> Seen | None:
    """What the locator finds, if that is one element. A page that is only slow to answer is asked all the same: what
    its locators find must be known before it is acted on."""
    if not await is_there(locator, wait_ms) and not await is_alive(locator.page):
        return None
    text = await answered(locator.evaluate_all(_with_collector(_ONLY), _ONE_OPTIONS))
    return Seen(locator, _elements(text)[0]) if text else None


async def alone(node: ElementHandle) -> Element | None:
    """One element as it is now. None: it is no longer part of the page."""
    text = await answered(node.evaluate(_with_collector(_ONE), _ONE_OPTIONS))
    return _elements(text)[0] if text else None


async def is_still(node: ElementHandle, element: Element) -> bool:
    now = await alone(node)
    return now is not None and is_same(now, element)


async def look(frame: Frame) -> Look:
    handle = await answered(frame.evaluate_handle(_with_collector(_ALL), _OPTIONS))
    return Look(_elements(await answered(handle.evaluate("(seen) => seen.sent"))), handle)


def path_of(frame: Frame) -> tuple[int, ...]:
    parent = frame.parent_frame
    return (*path_of(parent), parent.child_frames.index(frame)) if parent else ()


def frame_at(page: Page, path: tuple[int, ...]) -> Frame | None:
    frame = page.main_frame
    for number in path:
        if number >= len(frame.child_frames):
            return None
        frame = frame.child_frames[number]
    return frame


def _with_collector(text: str) -> str:
    return text.replace("COLLECT", script("collector"))


def _elements(text: str) -> tuple[Element, ...]:
    try:
        return collected(text)
    except msgspec.MsgspecError as error:  # pages may change what scripts rely on
        raise Error(f"the page's description cannot be read: {error}") from error
