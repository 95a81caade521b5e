"""The check of the audit, which takes seconds: beside the loop, in a thread, and once for all who ask meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from recoup.app import App
from recoup.audit.verifying import Verified, verify
from recoup.errors import StateError
from recoup.model.storage import Arrival

Found = TypeVar("Found")


class Audits:
    """One walk at a time."""

    def __init__(self, app: App, stopping: Callable[[], bool]) -> None:
        self._app = app
        self._stopping = stopping
        self._walk: asyncio.Task[Verified] | None = None

    async def verified(self) -> Verified:
        """Whoever asks while somebody is being answered is told the same. Raises StateError, LedgerError."""
        if self._walk is None or self._walk.done():
            self._walk = asyncio.create_task(self._walked(), name="recoup-audit-walk")
        return await asyncio.shield(self._walk)  # whoever goes does not end it for the others

    async def _walked(self) -> Verified:
        beside = _OnLoop(self._app, asyncio.get_running_loop(), self._stopping)
        return await asyncio.to_thread(lambda: asyncio.run(verify(self._app.settings.home / "audit", beside)))


class _OnLoop:
    """The ledger of the loop, asked from the thread: its connections are the loop's."""

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop, stopping: Callable[[], bool]) -> None:
        self._ledger, self._loop, self._stopping = app.ledger, loop, stopping

    async def arrivals(self, after: int, limit: int) -> list[Arrival]:
        return await self._asked(self._ledger.arrivals(after, limit))

    async def head(self, stream: str) -> int:
        return await self._asked(self._ledger.head(stream))

    async def _asked(self, question: Coroutine[None, None, Found]) -> Found:
        if self._stopping():
            question.close()
            raise StateError("the gateway is stopping", hint="Verify the audit when it is there again.")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(question, self._loop))
