"""The menu: an entry for each subject, and what waits for people there, cheap enough to be counted for every page."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from starlette.requests import Request

from recoup.errors import LedgerError

SHOWN_MAX: Final = 99
KEPT_S: Final = 2.0
"""Nobody sees the difference; a page that is fetched again twice a second need not count each time."""


class MenuEntry(msgspec.Struct, frozen=True):
    path: str
    name: str
    count: Callable[[Request], Awaitable[int]] | None = None
    """What waits there for people; more than `SHOWN_MAX` need not be counted."""


class _Counted(msgspec.Struct, frozen=True):
    at_s: float
    counts: dict[str, str]


async def count_for_menu(request: Request) -> None:
    """Before a page is made, where somebody is signed in. A count that cannot be had is left out."""
    if getattr(request.state, "principal", None) is None:
        return
    last = getattr(request.app.state, "counted", None)
    if not isinstance(last, _Counted) or time.monotonic() - last.at_s >= KEPT_S:
        last = request.app.state.counted = _Counted(time.monotonic(), await _counts(request))
    request.state.menu_counts = last.counts


def menu_of(request: Request) -> tuple[MenuEntry, ...]:
    menu: tuple[MenuEntry, ...] = request.app.state.menu
    return menu


async def _counts(request: Request) -> dict[str, str]:
    counted = [entry for entry in menu_of(request) if entry.count is not None]
    try:
        waiting = {entry.path: await entry.count(request) for entry in counted if entry.count is not None}
    except LedgerError:
        return {}
    return {path: shown(number) for path, number in waiting.items() if number}


def shown(number: int) -> str:
    return str(number) if number <= SHOWN_MAX else f"{SHOWN_MAX}+"
