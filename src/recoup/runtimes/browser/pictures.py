"""Pictures for people: bounded, marked, and without what must not be seen."""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from typing import Any, Final

from playwright.async_api import ElementHandle, Error, Frame, Page

from recoup.model.outcome import Artifact
from recoup.model.target import Element, Resolution
from recoup.runtimes.browser.covering import hits_in
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.scripts import script
from recoup.runtimes.browser.session import Session

_QUALITIES: Final = (70, 40, 15)
_FRAMES_MAX: Final = 20
_COVERED_FRAMES_MAX: Final = 100
_TEXT_CHARACTERS_MAX: Final = 2_000_000
_PASSWORDS: Final = ", ".join(
    f"input[{which}]"
    for which in ("type=password", "autocomplete*=password", "autocomplete=cc-number", "autocomplete=cc-csc")
)


class _Gone(Exception):
    """A frame that went away while it was looked at is in no picture."""


class Pictures:
    """Takes pictures in one session."""

    def __init__(self, session: Session, limits: BrowserLimits) -> None:
        self._session = session
        self._limits = limits

    async def take(
        self,
        page: Page,
        name: str,
        *,
        node: ElementHandle | None = None,
        resolution: Resolution | None = None,
    ) -> Artifact:
        """What is in view, or one element; with the chosen one and the next one marked. Of what the
        run hides nothing is to be seen in any text of the page."""
        layers = await self._cover(page, _marks(resolution))
        try:
            data = await self._shoot(page, node)
        finally:
            for layer in layers:
                with suppress(Error):
                    await layer.evaluate("layer => layer.remove()")
        return Artifact(f"{name}.jpg", "image/jpeg", data)

    async def region(self, page: Page, node: ElementHandle | None) -> bytes:
        """Exact, to be compared, never kept."""
        options: Any = {
            "type": "png",
            "animations": "disabled",
            "caret": "hide",
            "timeout": 1000 * self._limits.picture_s,
        }
        return await (node.screenshot(**options) if node else page.screenshot(**options))

    async def difference(self, before: bytes, now: bytes) -> float:
        """The share of pixels that differ; told by a page of the browser's own, where no site's scripts are."""
        if before == now:
            return 0.0
        context = await self._session.browser.new_context()
        try:
            page = await context.new_page()
            both = [base64.b64encode(data).decode() for data in (before, now)]
            share: float = await page.evaluate(script("compare"), both)
        finally:
            await context.close()
        return share

    async def _cover(self, page: Page, marks: list[list[Any]]) -> list[ElementHandle]:
        """Each frame in its own document. Raises Error when there are more than can be looked at."""
        if len(page.frames) > _COVERED_FRAMES_MAX:
            raise Error(f"the page has {len(page.frames)} frames, too many to look for secrets in")
        layers: list[ElementHandle] = []
        async with asyncio.timeout(self._limits.picture_s):
            for frame in page.frames:
                with suppress(_Gone):
                    layers += await self._cover_frame(frame, marks if frame is page.main_frame else [])
        return layers

    async def _cover_frame(self, frame: Frame, marks: list[list[Any]]) -> list[ElementHandle]:
        try:
            survey = await frame.evaluate_handle(script("survey"))
        except Error:
            if frame.is_detached():
                raise _Gone from None
            raise
        texts = await survey.evaluate("survey => survey.texts")
        if sum(map(len, texts)) > _TEXT_CHARACTERS_MAX:
            raise Error("the page has too much text to look for secrets in")
        hits = hits_in(texts, sorted(self._session.typed_secrets), self._session.hide)
        if not hits and not marks:
            return []
        layer = await frame.evaluate_handle(script("cover"), [survey, hits, marks])
        element = layer.as_element()
        return [] if element is None else [element]

    async def _shoot(self, page: Page, node: ElementHandle | None) -> bytes:
        masks = [frame.locator(_PASSWORDS) for frame in page.frames[:_FRAMES_MAX]]
        data = b""
        for quality in _QUALITIES:
            options: Any = {
                "type": "jpeg",
                "quality": quality,
                "mask": masks,
                "mask_color": "#000000",
                "timeout": 1000 * self._limits.picture_s,
            }
            data = await (node.screenshot(**options) if node else page.screenshot(**options))
            if len(data) <= self._limits.picture_bytes_max:
                return data
        raise Error(f"the picture takes {len(data)} bytes, over {self._limits.picture_bytes_max}")


def _marks(resolution: Resolution | None) -> list[list[Any]]:
    if resolution is None:
        return []
    best = resolution.chosen or resolution.best
    marks = [_mark(best.element, "#0a0" if resolution.chosen else "#e80", best.confidence)] if best else []
    if resolution.runner_up is not None:
        marks.append(_mark(resolution.runner_up.element, "#c00", resolution.runner_up.confidence))
    return marks


def _mark(element: Element, colour: str, confidence: float) -> list[Any]:
    box = element.box
    return [box.x, box.y, box.width, box.height, colour, f"{confidence:.2f}"]
