"""Checks that look at the page. They wait for it to become so, and are never healed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from playwright.async_api import Error, Page

from recoup.model.outcome import Scene
from recoup.model.plan import (
    PageCheck,
    PageTextCheck,
    RegionCheck,
    ResponseCheck,
    TargetCheck,
    TargetState,
    TextMatch,
    TitleCheck,
    UrlCheck,
    ValueCheck,
)
from recoup.model.target import Element, Target, target_words
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

    async def examine(self, check: PageCheck, scene: Scene) -> Answer:
        """Until it holds, or the time for checks is over. What must not be there is looked for on a page at rest: right
        after an action nothing has changed yet."""
        end_s = time.monotonic() + (scene.check_timeout_s if scene.waits else 0)
        answer: Answer = (None, "the page did not become ready")
        pause_s = self._limits.look_s
        settled = not (_is_negative(check) and scene.waits)
        while True:
            try:
                page = await self._session.current()
                if not settled:
                    left_s = max(self._limits.look_s, end_s - time.monotonic())
                    most_s = min(left_s, self._limits.settle_s)
                    await settle(page, self._session.traffic, scene.policy, most_s)
                    settled = True
                answer = await self._look_in_time(check, page)
            except Trouble as trouble:
                return None, trouble.detail
            except Error as error:
                if not is_changed_page(error):
                    return None, f"the page cannot be looked at: {first_line(error)}"
            if answer[0] or not self._session.usable or time.monotonic() + pause_s >= end_s:
                return answer
            await asyncio.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, 1.5 * pause_s)

    async def _look_in_time(self, check: PageCheck, page: Page) -> Answer:
        """The library itself would wait for ever for a page whose scripts do not come to an end."""
        picture_s = self._limits.picture_s if isinstance(check, RegionCheck) else 0
        try:
            async with asyncio.timeout(self._limits.settle_s + picture_s):
                return await self._look(check, page)
        except TimeoutError:
            if self._session.traffic.is_navigating(page):
                return None, "the page is on its way to another one"
            self._session.useless = True
            return None, NO_ANSWER

    async def _look(self, check: PageCheck, page: Page) -> Answer:
        match check:
            case UrlCheck():
                return held_url(check, page.url)
            case TitleCheck():
                return held_title(check, await page.title())
            case PageTextCheck():
                return held_text(check, await page_texts(page, self._limits))
            case TargetCheck():
                return held_target(check, await self._seeker.matches(page, check.target))
            case ValueCheck():
                return await self._value(check, page)
            case ResponseCheck():
                return self._response(check)
            case RegionCheck():
                return await self._region(check, page)

    async def _value(self, check: ValueCheck, page: Page) -> Answer:
        found, node = await self._seeker.exactly(page, check.target)
        told = await node.evaluate(script("reading"), HOW_FIELDS_ARE_READ) if node is not None else None
        return held_value(check, found, told)

    def _response(self, check: ResponseCheck) -> Answer:
        pattern = glob(check.pattern)
        came = [
            (url, status)
            for url, status in self._session.traffic.responses(self._session.began_s)
            if pattern.fullmatch(url)
        ]
        fitting = [status for _, status in came if (status in check.status if check.status else status < 400)]
        if fitting:
            return True, f"status {fitting[-1]}"
        return False, f"only with status {came[-1][1]}" if came else "no such response came"

    async def _region(self, check: RegionCheck, page: Page) -> Answer:
        before = self._session.before.get(region_key(check.target))
        if before is None:
            return None, "there is no picture from before the attempt"
        now = await picture_of(check.target, page, self._seeker, self._pictures)
        if now is None:
            return False, "it is no longer there"
        share = await self._pictures.difference(before, now)
        return share <= check.tolerance, f"{100 * share:.2f} % of the pixels differ"


def held_url(check: UrlCheck, url: str) -> Answer:
    held = glob(check.pattern).fullmatch(url) is not None
    return held, "it is there" if held else f"the address is {url}"


def held_title(check: TitleCheck, title: str) -> Answer:
    return _matched(check.match, title, "the title")


async def page_texts(page: Page, limits: BrowserLimits) -> list[str]:
    """The words to be seen, frame by frame."""
    return [await frame.evaluate(_TEXT, limits.text_chars_max) for frame in page.frames[:_FRAMES_MAX]]


def held_text(check: PageTextCheck, texts: Sequence[str]) -> Answer:
    held = any(_matched(check.match, words, "the page")[0] for words in texts)
    wanted = check.match.text if check.match.text is not None else f"/{check.match.regex}/"
    if check.absent:
        return not held, f"{wanted} is on the page" if held else "not on the page"
    return held, "found" if held else f"{wanted} is not on the page"


def held_target(check: TargetCheck, found: Sequence[Element]) -> Answer:
    visible = sum(element.visible for element in found)
    words = f"{visible} to be seen"
    match check.state:
        case TargetState.VISIBLE:
            return bool(visible), words
        case TargetState.HIDDEN:
            return not visible, words
        case TargetState.COUNT:
            return visible == (check.count or 0), words


def held_value(check: ValueCheck, found: Sequence[Element], told: Mapping[str, Any] | None) -> Answer:
    """`told`: what the only field says."""
    if told is None or len(found) != 1:
        return False, f"{target_words(check.target)}: {len(found)} fields fit, wanted one"
    if check.checked is not None:
        return told["checked"] is check.checked, "checked" if told["checked"] else "not checked"
    if found[0].type == "password":
        return None, "a password field is not read"
    value = told["holds"]
    if value is None:
        return None, f"{target_words(check.target)} is no field"
    if check.equals is not None:
        held = value == check.equals
    else:
        assert check.match is not None, "a check of a value says what it must be"
        held = bool(_matched(check.match, value, "the field", whole=True)[0])
    # What the field holds is not told: it may be anything.
    return held, "it holds that" if held else "it holds something else"


async def picture_of(target: Target | None, page: Page, seeker: Seeker, pictures: Pictures) -> bytes | None:
    """None: the target is not there, or not the only one."""
    if target is None:
        return await pictures.region(page, None)
    _, node = await seeker.exactly(page, target)
    return await pictures.region(page, node) if node else None


def region_key(target: Target | None) -> str:
    return repr(target)


def _is_negative(check: PageCheck) -> bool:
    match check:
        case PageTextCheck():
            return check.absent
        case TargetCheck():
            return check.state is not TargetState.VISIBLE
        case RegionCheck():
            return True
        case _:
            return False


def _matched(match: TextMatch, text: str, where: str, *, whole: bool = False) -> Answer:
    """Words: white space counts once. Of a field, all that it holds."""
    if match.text is not None:
        wanted, collapsed = " ".join(match.text.split()), " ".join(text.split())
        held = wanted == collapsed if whole else wanted in collapsed
        return held, "found" if held else f"{where} does not contain {match.text!r}"
    held = _search(match.regex or "", text) is not None
    return held, "matched" if held else f"{where} does not match /{match.regex}/"


def _search(pattern: str, text: str) -> Any:
    """RE2: linear in the text, whatever the pattern."""
    import re2

    return re2.search(pattern, text)


@lru_cache(256)
def glob(pattern: str) -> re.Pattern[str]:
    """`*` is anything within a part of an address, `**` anything at all, `\\*` the character itself."""
    parts = re.split(r"(\\\*|\*\*|\*)", pattern)
    return re.compile("".join(_GLOB.get(part, re.escape(part)) for part in parts), re.DOTALL)


_GLOB: Final = {"**": ".*", "*": "[^/]*", r"\*": r"\*"}
