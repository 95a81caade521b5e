"""Collect what a page shows, and lead back from an element to its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import msgspec
from playwright.async_api import Error

from recoup.model.target import TEXT_MAX, Box, Element
from recoup.runtimes.browser.scripts import script
from recoup.runtimes.browser.trouble import is_changed_page

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame, JSHandle

ELEMENTS_MAX: Final = 12_000
NODES_MAX: Final = 60_000
ANCESTORS_MAX: Final = 8
LOOKS_KEPT: Final = 8
"""Looks at one document whose nodes are held on to: whoever acts does so right after looking."""
_VISIBLE: Final = 1
_ENABLED: Final = 2
IDENTITY: Final = ("tag", "role", "type", "name", "text", "id", "test_id", "href", "label")
"""What must still be the same of an element right before it is acted on."""


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One element; the whole numbers are places in the table of texts unless said otherwise."""

    tag: int
    role: int
    type: int
    name: int
    text: int
    id: int
    test_id: int
    name_attribute: int
    classes: tuple[int, ...]
    href: int
    alt: int
    title: int
    placeholder: int
    label: int
    others: tuple[int, ...]
    """Names and values in turn."""
    x: float
    y: float
    width: float
    height: float
    flags: int
    """1: visible, 2: enabled."""
    path: int
    """Its place among the paths."""
    frame: tuple[int, ...]
    container: int = 0
    neighbours: tuple[int, ...] = ()


class _Sent(msgspec.Struct, frozen=True):
    """The first line of what the page sends: rows of places in a table of texts, and paths as parent, step, role, id.
    Each line after it is a text of the table."""

    paths: list[int]
    rows: list[_Row]
    truncated: bool
    url: str
    title: str
    width: float
    height: float
    viewport: tuple[float, float]
    scale: float


_DECODER: Final = msgspec.json.Decoder(_Sent)


class _Eye:
    """The collecting function in one document: translated once, it gets quicker with every look.

    It is held from outside, nothing of the page leads to it, and it ends with the document.
    """

    def __init__(self, handle: JSHandle) -> None:
        self.handle: Final = handle

    async def look(self, options: dict[str, Any]) -> tuple[int, str]:
        number = next(_NUMBERS)
        return number, await self.handle.evaluate(_LOOK, [number, LOOKS_KEPT, options])


_NUMBERS: Final = count(1)
_EYES: Final[WeakKeyDictionary[Frame, _Eye]] = WeakKeyDictionary()


async def _look(frame: Frame, options: dict[str, Any]) -> tuple[_Eye, int, str]:
    known = _EYES.get(frame)
    if known is not None:
        try:
            return (known, *await known.look(options))
        except Error as error:
            if not is_changed_page(error):
                raise
    eye = _EYES[frame] = _Eye(await frame.evaluate_handle(_KEPT.replace("COLLECT", script("collector"))))
    return (eye, *await eye.look(options))


class Collection:
    """What one look at a page, or at one frame of it, showed. Its nodes are had until some more looks were taken."""

    def __init__(self, eye: _Eye, number: int, text: str) -> None:
        self._eye = eye
        self._number = number
        self.size_bytes = len(text)
        self._seen, self.elements = _received(text)

    @property
    def truncated(self) -> bool:
        """There was more than is looked at."""
        return self._seen.truncated

    @property
    def url(self) -> str:
        return self._seen.url

    @property
    def title(self) -> str:
        return self._seen.title

    @property
    def page_box(self) -> Box:
        """The whole page."""
        return Box(0, 0, self._seen.width, self._seen.height)

    @property
    def viewport(self) -> tuple[float, float]:
        return self._seen.viewport

    @property
    def scale(self) -> float:
        """Device pixels for each CSS pixel."""
        return self._seen.scale

    async def matches(self, css: str) -> tuple[int, ...]:
        """The places of the elements that a selector fits; raises when it is none."""
        found: list[int] = await self._eye.handle.evaluate(_MATCHES, [self._number, css])
        return tuple(found)

    async def matches_each(self, selectors: Sequence[str]) -> list[tuple[int, ...]]:
        """The same for several, in one round trip."""
        found: list[list[int]] = await self._eye.handle.evaluate(_MATCHES_EACH, [self._number, [*selectors]])
        return [tuple(places) for places in found]

    async def read(self, asked: Sequence[tuple[int, Mapping[str, Any]]]) -> list[dict[str, Any]]:
        """What elements say, each by its place and how it is read, in one round trip."""
        reading = _READ.replace("READING", script("reading"))
        told: list[dict[str, Any]] = await self._eye.handle.evaluate(reading, [self._number, [*asked]])
        return told

    async def node(self, index: int) -> ElementHandle | None:
        """The node, in the world of its own frame: only there it can be acted on. None: it is gone."""
        found = (await self._eye.handle.evaluate_handle(_NODE, [self._number, index])).as_element()
        path = self.elements[index].frame
        if found is None or not path:
            return found
        frame = await self._frame_of(path)
        return (await frame.evaluate_handle("node => node", found)).as_element() if frame else None

    async def _frame_of(self, path: tuple[int, ...]) -> Frame | None:
        asked = [self._number, ".".join(map(str, path))]
        holder = (await self._eye.handle.evaluate_handle(_FRAME, asked)).as_element()
        return await holder.content_frame() if holder else None


async def collect(frame: Frame, css: str | None = None, offset: Box | None = None) -> Collection:
    """Everything that tells something, in the order of the page; what the selector fits is among it."""
    where = {"x": offset.x, "y": offset.y} if offset else None
    options = {"elementsMax": ELEMENTS_MAX, "nodesMax": NODES_MAX, "css": css, "offset": where}
    return Collection(*await _look(frame, options))


def collected(text: str) -> tuple[Element, ...]:
    """The elements in a text that the collector made somewhere else; raises msgspec.DecodeError when it is none."""
    return _received(text)[1]


def _received(text: str) -> tuple[_Sent, tuple[Element, ...]]:
    numbers, *strings = text.split("\n")
    sent = _DECODER.decode(numbers)
    paths = _Paths(sent.paths, strings)
    return sent, tuple([_element(row, strings, paths) for row in sent.rows])


class _Paths:
    """Where elements are, rebuilt from parents and steps."""

    def __init__(self, sent: list[int], strings: list[str]) -> None:
        self.xpaths: list[str] = []
        self.anchored: list[str] = []
        """From the nearest element with an id, that one included; "" where there is none."""
        self.ancestors: list[tuple[str, ...]] = []
        """Of what is inside, the element itself first."""
        self.parents = sent[::4]
        parts = iter(sent)
        for parent, step, role, own_id in zip(parts, parts, parts, parts, strict=True):
            before, anchor, above = self._of(parent)
            self.xpaths.append(before + strings[step])
            self.anchored.append(_anchor(strings[own_id]) if own_id else anchor and anchor + strings[step])
            self.ancestors.append((strings[role], *above[: ANCESTORS_MAX - 1]))

    def _of(self, path: int) -> tuple[str, str, tuple[str, ...]]:
        return (self.xpaths[path], self.anchored[path], self.ancestors[path]) if path >= 0 else ("", "", ())


def _anchor(own_id: str) -> str:
    return f'//*[@id="{own_id}"]'


def _element(row: _Row, strings: list[str], paths: _Paths) -> Element:
    parent, text_at = paths.parents[row.path], strings.__getitem__
    others = list(map(text_at, row.others)) if row.others else None
    return Element(
        tag=strings[row.tag],
        role=strings[row.role],
        type=strings[row.type],
        name=strings[row.name],
        text=strings[row.text],
        id=strings[row.id],
        test_id=strings[row.test_id],
        name_attribute=strings[row.name_attribute],
        classes=tuple(map(text_at, row.classes)) if row.classes else (),
        href=strings[row.href],
        alt=strings[row.alt],
        title=strings[row.title],
        placeholder=strings[row.placeholder],
        label=strings[row.label],
        attributes=dict(zip(others[::2], others[1::2], strict=True)) if others else {},
        box=Box(row.x, row.y, row.width, row.height),
        neighbours=tuple(map(text_at, row.neighbours)),
        container=strings[row.container],
        ancestors=paths.ancestors[parent] if parent >= 0 else (),
        xpath=paths.xpaths[row.path][:TEXT_MAX],
        id_xpath=paths.anchored[row.path][:TEXT_MAX],
        frame=row.frame,
        visible=bool(row.flags & _VISIBLE),
        enabled=bool(row.flags & _ENABLED),
    )


def is_same(one: Element, other: Element) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in IDENTITY)


_KEPT: Final = "() => ({collect: COLLECT, seen: new Map()})"
_LOOK: Final = """(kept, [number, most, options]) => {
    const {sent, nodes, frames} = kept.collect(options);
    kept.seen.set(number, {nodes, frames});
    if (kept.seen.size > most) kept.seen.delete(kept.seen.keys().next().value);
    return sent;
}"""
_MATCHES: Final = """(kept, [number, css]) =>
    kept.seen.get(number).nodes.map((node, index) => node.matches(css) ? index : -1).filter((index) => index >= 0)"""
_MATCHES_EACH: Final = """(kept, [number, selectors]) => selectors.map((css) =>
    kept.seen.get(number).nodes.map((node, index) => node.matches(css) ? index : -1).filter((index) => index >= 0))"""
_READ: Final = """(kept, [number, asked]) => {
    const reading = READING;
    return asked.map(([index, how]) => {
        const node = kept.seen.get(number).nodes[index];
        return node.isConnected ? reading(node, how) : {missing: true};
    });
}"""
_NODE: Final = "(kept, [number, index]) => kept.seen.get(number).nodes[index]"
_FRAME: Final = "(kept, [number, key]) => kept.seen.get(number).frames[key]"
