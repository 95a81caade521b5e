"""What leaves the page as it is: waiting for something, reading it, taking a picture."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from recoup.model.failure import FailureKind
from recoup.model.plan import BrowserAction
from recoup.model.target import target_words
from recoup.runtimes.browser.acting import Attempt
from recoup.runtimes.browser.scripts import script
from recoup.runtimes.browser.seeking import Found
from recoup.runtimes.browser.settling import settle
from recoup.runtimes.browser.trouble import Trouble


async def wait(attempt: Attempt) -> None:
    action = attempt.action
    if action.target is None:
        await asyncio.sleep(action.seconds or 0)
        return
    now_s = time.monotonic()
    limit_s = action.seconds or attempt.patience().end_s - now_s
    end_s = now_s + limit_s
    while True:
        page = await attempt.session.current()
        visible = [one for one in await attempt.seeker.matches(page, action.target) if one.visible]
        if bool(visible) != action.hidden:
            attempt.observed = visible[0] if len(visible) == 1 else None
            return
        if time.monotonic() >= end_s:
            how = "is still to be seen" if action.hidden else "is not to be seen"
            words = f"{target_words(action.target)} {how} after {round(limit_s, 1):g} s"
            attempt.visit.is_used_up = True
            raise Trouble(FailureKind.TARGET_NOT_FOUND, words)
        await asyncio.sleep(attempt.limits.look_s)


async def read(attempt: Attempt) -> None:
    found = await attempt.find()
    name = output_name(attempt.action)
    value = await _value(attempt, found)
    if len(str(value).encode()) > attempt.order.policy.outputs_bytes_max:
        words = (
            f"what was read is larger than outputs_bytes_max ({attempt.order.policy.outputs_bytes_max} bytes)"
        )
        raise Trouble(FailureKind.OUTPUT_INVALID, words)
    attempt.outputs[name] = value


async def _value(attempt: Attempt, found: Found) -> Any:
    action = attempt.action
    if found.element.type == "password" and not action.table:
        raise Trouble(FailureKind.INVALID_INPUT, "a password field is not read")
    told = await found.node.evaluate(script("reading"), how_read(action))
    if "missing" in told:
        missing = ": there is no table" if action.table else f" has no attribute {action.attribute}"
        raise Trouble(FailureKind.OUTPUT_INVALID, f"{target_words(attempt.target)}{missing}")
    return told["said"]


def how_read(action: BrowserAction) -> dict[str, Any]:
    """For the function in the page."""
    return {"table": action.table, "attribute": action.attribute}


def output_name(action: BrowserAction) -> str:
    return action.into or "text"


async def screenshot(attempt: Attempt) -> None:
    page = await attempt.session.current()
    await settle(page, attempt.session.traffic, attempt.order.policy, attempt.limits.settle_s)
    node = None
    if attempt.action.target is not None:
        node = (await attempt.find()).node
    name = attempt.action.value or attempt.order.step_id
    attempt.artifacts.append(await attempt.pictures.take(page, name, node=node))
