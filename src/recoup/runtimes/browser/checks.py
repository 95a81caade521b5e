"""Checks that look at the page. They wait for it to become so, and are never healed."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from msgspec.structs import replace
from playwright.async_api import Error, Page

from recoup.model.outcome import PageQuestion, PageSight, Scene
from recoup.model.target import Target
from recoup.runtimes.browser.limits import BrowserLimits
from recoup.runtimes.browser.pictures import Pictures
from recoup.runtimes.browser.scripts import script
from recoup.runtimes.browser.seeking import Seeker
from recoup.runtimes.browser.session import Session
from recoup.runtimes.browser.settling import settle
from recoup.runtimes.browser.trouble import NO_ANSWER, Trouble, first_line, is_changed_page

Answer = tuple[bool | None, str]
_PAUSE_MAX_S: Final = 0.5
_FRAMES_MAX: Final = 20
HOW_FIELDS_ARE_READ: Final = {"table": False, "attribute": None}
_TEXT: Final = """(most) => {
    let words = document.body ? document.body.innerText : '';
    const visit = (root) => {
        for (const element of root.querySelectorAll('*')) {
            if (words.length > most) return;
            if (!element.shadowRoot) continue;
            for (const child of element.shadowRoot.children) if (child.innerText) words += '\\n' + child.innerText;
            visit(element.shadowRoot);
        }
    };
    visit(document);
    return words.slice(0, most);
}"""


class PageChecks:
    """Examines the current page of one session."""

    def __init__(self, session: Session, seeker: Seeker, pictures: Pictures, limits: BrowserLimits) -> None:
        self._session = session
        self._seeker = seeker
        self._pictures = pictures
        self._limits = limits

    async def examine(self, question: PageQuestion, scene: Scene) -> Answer:
        """Until it holds, or the time for checks is over. What must not be there is looked for on a page at rest: right
        after an action nothing has changed yet."""
        end_s = time.monotonic() + (scene.check_timeout_s if scene.waits else 0)
        answer: Answer = (None, "the page did not become ready")
        pause_s = self._limits.look_s
        settled = not (question.is_negative and scene.waits)
        while True:
            try:
                page = await self._session.current()
                if not settled:
                    left_s = max(self._limits.look_s, end_s - time.monotonic())
                    most_s = min(left_s, self._limits.settle_s)
                    await settle(page, self._session.traffic, scene.policy, most_s)
                    settled = True
                answer = await self._look_in_time(question, page)
            except Trouble as trouble:
                return None, trouble.detail
            except Error as error:
                if not is_changed_page(error):
                    return None, f"the page cannot be looked at: {first_line(error)}"
            if answer[0] or not self._session.usable or time.monotonic() + pause_s >= end_s:
                return answer
            await asyncio.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, 1.5 * pause_s)

    async def _look_in_time(self, question: PageQuestion, page: Page) -> Answer:
        """The library itself would wait for ever for a page whose scripts do not come to an end."""
        picture_s = self._limits.picture_s if question.difference else 0
        try:
            async with asyncio.timeout(self._limits.settle_s + picture_s):
                return question.answer(await self._sight(question, page))
        except TimeoutError:
            if self._session.traffic.is_navigating(page):
                return None, "the page is on its way to another one"
            self._session.useless = True
            return None, NO_ANSWER

    async def _sight(self, question: PageQuestion, page: Page) -> PageSight:
        """Looks at what the question asks for, and at nothing else."""
        traffic = self._session.traffic
        sight = PageSight(
            url=page.url,
            title=await page.title() if question.title else "",
            texts=await page_texts(page, self._limits) if question.texts else (),
            responses=traffic.responses(self._session.began_s) if question.responses else (),
        )
        if question.difference:
            return await self._compared(sight, question.target, page)
        return sight if question.target is None else await self._found(sight, question, question.target, page)

    async def _found(self, sight: PageSight, question: PageQuestion, target: Target, page: Page) -> PageSight:
        if not question.field:
            return replace(sight, elements=await self._seeker.matches(page, target))
        elements, node = await self._seeker.exactly(page, target)
        field = await node.evaluate(script("reading"), HOW_FIELDS_ARE_READ) if node is not None else None
        return replace(sight, elements=elements, field=field)

    async def _compared(self, sight: PageSight, target: Target | None, page: Page) -> PageSight:
        before = self._session.before.get(region_key(target))
        if before is None:
            return sight
        now = await picture_of(target, page, self._seeker, self._pictures)
        difference = None if now is None else await self._pictures.difference(before, now)
        return replace(sight, was_pictured=True, difference=difference)


async def page_texts(page: Page, limits: BrowserLimits) -> list[str]:
    """The words to be seen, frame by frame."""
    return [await frame.evaluate(_TEXT, limits.text_chars_max) for frame in page.frames[:_FRAMES_MAX]]


async def picture_of(target: Target | None, page: Page, seeker: Seeker, pictures: Pictures) -> bytes | None:
    """None: the target is not there, or not the only one."""
    if target is None:
        return await pictures.region(page, None)
    _, node = await seeker.exactly(page, target)
    return await pictures.region(page, node) if node else None


def region_key(target: Target | None) -> str:
    return repr(target)
