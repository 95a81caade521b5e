"""What waits for somebody, as numbers beside the menu: cheap enough for every page, and never in its way."""

from __future__ import annotations

import time
from typing import Final

import msgspec
from starlette.requests import Request

from recoup.errors import LedgerError
from recoup.gateway.house import house_of
from recoup.operations.escalations import open_count
from recoup.operations.heal_reviews import Reviews, heal_reviews

SHOWN_MAX: Final = 99
KEPT_S: Final = 2.0
"""Nobody sees the difference; a page that is fetched again twice a second need not count each time."""


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
    request.state.counts = last.counts


async def _counts(request: Request) -> dict[str, str]:
    try:
        reviews = reviews_of(request)
        await reviews.look()
        waiting = {
            "escalations": await open_count(house_of(request).app, SHOWN_MAX + 1),
            "heals": reviews.waiting,
        }
    except LedgerError:
        return {}
    return {key: shown(number) for key, number in waiting.items() if number}


def shown(number: int) -> str:
    return str(number) if number <= SHOWN_MAX else f"{SHOWN_MAX}+"


def reviews_of(request: Request) -> Reviews:
    """Folded once for all who look."""
    found = getattr(request.app.state, "reviews", None)
    if found is None:
        found = request.app.state.reviews = heal_reviews(house_of(request).app)
    assert isinstance(found, Reviews)
    return found
