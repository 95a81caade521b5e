"""What can be done in a page, one function for each verb: by hand on a target here, the others beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from playwright.async_api import ElementHandle
from playwright.async_api import TimeoutError as PlaywrightTimeout

from recoup.model.failure import FailureKind
from recoup.model.plan import BrowserVerb
from recoup.model.target import HealMode, target_words
from recoup.runtimes.browser.acting import Attempt, acted_on
from recoup.runtimes.browser.filling import Refused, typed, typed_otherwise
from recoup.runtimes.browser.going import goto, tab
from recoup.runtimes.browser.reading import read, screenshot, wait
from recoup.runtimes.browser.seeking import refusal
from recoup.runtimes.browser.transfers import download, upload
from recoup.runtimes.browser.trouble import Trouble

_BUTTONS: Final = ("left", "middle", "right")


async def perform(attempt: Attempt) -> None:
    await _VERBS[attempt.action.verb](attempt)


async def _click(attempt: Attempt) -> None:
    button: Any = attempt.action.button or "left"
    if button not in _BUTTONS:
        raise Trouble(FailureKind.INVALID_INPUT, f"button {button!r} is none of {', '.join(_BUTTONS)}")
    count = 2 if attempt.action.double else 1

    async def ready(node: ElementHandle, ms: float) -> None:
        await node.click(trial=True, timeout=ms)

    async def act(node: ElementHandle, ms: float) -> None:
        await node.click(timeout=ms, button=button, click_count=count, no_wait_after=True)

    await acted_on(attempt, ready, act)


async def _hover(attempt: Attempt) -> None:
    async def ready(node: ElementHandle, ms: float) -> None:
        await node.hover(trial=True, timeout=ms)

    async def act(node: ElementHandle, ms: float) -> None:
        await node.hover(timeout=ms)

    await acted_on(attempt, ready, act)


async def _fill(attempt: Attempt) -> None:
    text = attempt.action.value or ""
    _remember_secrets(attempt, text)

    async def act(node: ElementHandle, ms: float) -> None:
        if attempt.order.secret_values:
            await node.fill(text, timeout=ms)
        elif (refused := await typed(node, text, ms, leaves=attempt.order.attempt > 1)) is not None:
            await _fill_otherwise(attempt, node, refused, ms)

    await acted_on(attempt, _editable, act)


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

    await acted_on(attempt, ready, act)


async def _select(attempt: Attempt) -> None:
    wanted = list(attempt.action.values)

    async def ready(node: ElementHandle, ms: float) -> None:
        await node.wait_for_element_state("visible", timeout=ms)
        await node.wait_for_element_state("enabled", timeout=ms)
        frame = await node.owner_frame()
        if frame is not None:  # options may come late, as targets do
            with suppress(PlaywrightTimeout):
                await frame.wait_for_function(_HAS_OPTIONS, arg=[node, wanted], timeout=ms)

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

    await acted_on(attempt, ready, act)


_HAS_OPTIONS: Final = """([node, wanted]) => node.localName !== 'select' || wanted.every((one) =>
    Array.from(node.options).some((has) => has.label.replace(/\\s+/g, ' ').trim() === one || has.value === one))"""
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

    await acted_on(attempt, ready, act)


async def _download(attempt: Attempt) -> None:
    await download(attempt, _click)


_VERBS: Final[dict[BrowserVerb, Callable[[Attempt], Awaitable[None]]]] = {
    BrowserVerb.GOTO: goto,
    BrowserVerb.CLICK: _click,
    BrowserVerb.FILL: _fill,
    BrowserVerb.PRESS: _press,
    BrowserVerb.SELECT: _select,
    BrowserVerb.CHECK: _check,
    BrowserVerb.UNCHECK: _uncheck,
    BrowserVerb.UPLOAD: upload,
    BrowserVerb.HOVER: _hover,
    BrowserVerb.WAIT: wait,
    BrowserVerb.READ: read,
    BrowserVerb.SCREENSHOT: screenshot,
    BrowserVerb.DOWNLOAD: _download,
    BrowserVerb.TAB: tab,
}
LEAVES_ALONE: Final = frozenset({BrowserVerb.WAIT, BrowserVerb.READ, BrowserVerb.SCREENSHOT})
"""Verbs that change nothing in the page."""
