"""What leaves the page as it is: waiting for something, reading it, taking a picture."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from recoup.model.failure import FailureKind
from recoup.model.target import target_words
from recoup.runtimes.browser.acting import Attempt
from recoup.runtimes.browser.seeking import Found
from recoup.runtimes.browser.settling import settle
from recoup.runtimes.browser.trouble import Trouble

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


async def screenshot(attempt: Attempt) -> None:
    page = await attempt.session.current()
    await settle(page, attempt.session.traffic, attempt.order.policy, attempt.limits.settle_s)
    node = None
    if attempt.action.target is not None:
        node = (await attempt.find()).node
    name = attempt.action.value or attempt.order.step_id
    attempt.artifacts.append(await attempt.pictures.take(page, name, node=node))
