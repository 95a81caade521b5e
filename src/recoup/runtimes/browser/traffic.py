"""What goes over the network for one run: which requests are under way, and which responses came since when."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from playwright.async_api import Error

from recoup.runtimes.browser.limits import BrowserLimits

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request, Response

_UNDER_WAY_MAX = 5_000
_NEVER_AWAITED = frozenset({"websocket", "eventsource", "ping", "media"})
"""Kinds of request that are kept open, or that change nothing in the page."""


class Traffic:
    """Watches the requests of a context."""

    def __init__(self, context: BrowserContext, limits: BrowserLimits) -> None:
        self._limits = limits
        self._under_way: dict[Request, float] = {}
        self._navigations: set[Request] = set()
        self.failed_url: str | None = None
        """The last address from which no document came."""
        self._last_s = time.monotonic()
        self._last_begun_s = 0.0
        self._responses: deque[tuple[float, str, int]] = deque(maxlen=limits.responses_max)
        context.on("request", self._begun)
        context.on("requestfinished", self._ended)
        context.on("requestfailed", self._failed)
        context.on("response", self._answered)

    @property
    def last_s(self) -> float:
        """When anything was last sent or received (monotonic)."""
        return self._last_s

    def went_on(self) -> None:
        """Something came that is no request any more: a download grows."""
        self._last_s = time.monotonic()

    def is_quiet(self, quiet_s: float) -> bool:
        """No request has begun for so long, and none is awaited."""
        now_s = time.monotonic()
        young_s = now_s - self._limits.pending_s
        awaited = any(began_s > young_s for began_s in self._under_way.values())
        return not awaited and now_s - self._last_begun_s >= quiet_s

    def is_navigating(self, page: Page) -> bool:
        """Another document was asked for and did not answer yet. Until then the browser runs nothing in the page."""
        return any(_page_of(request) == page for request in self._navigations)

    def responses(self, since_s: float) -> list[tuple[str, int]]:
        """Address and status of those that came since then."""
        return [(url, status) for came_s, url, status in self._responses if came_s >= since_s]

    def _begun(self, request: Request) -> None:
        self._last_s = time.monotonic()
        if request.resource_type in _NEVER_AWAITED or request.url.startswith(("data:", "blob:")):
            return
        self._last_begun_s = self._last_s
        if len(self._under_way) < _UNDER_WAY_MAX:
            self._under_way[request] = self._last_s
            if request.is_navigation_request():
                self._navigations.add(request)

    def _ended(self, request: Request) -> None:
        self._last_s = time.monotonic()
        self._under_way.pop(request, None)
        self._navigations.discard(request)

    def _failed(self, request: Request) -> None:
        if request in self._navigations and _page_of(request) is not None:
            self.failed_url = request.url
        self._ended(request)

    def _answered(self, response: Response) -> None:
        self._last_s = time.monotonic()
        self._navigations.discard(response.request)
        self._responses.append((self._last_s, response.url, response.status))


def _page_of(request: Request) -> Page | None:
    """The page whose document the request is for; None for that of a frame in it."""
    with suppress(Error):
        return request.frame.page if request.frame.parent_frame is None else None
    return None
