"""The audit: brought up to date and verified, on request or, for many who ask, once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, TypeVar

from recoup.audit.home import WHOLE_WAIT_S
from recoup.audit.verifying import Verified, verify
from recoup.errors import StateError
from recoup.model.storage import Arrival

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.audit.exporting import Exported

Found = TypeVar("Found")


async def export_audit(app: App) -> Exported:
    """Appends what the files do not hold yet. Raises StateError where another process is at it."""
    exported = await app.audit.export_whole()
    if exported.busy:
        raise StateError(
            f"another process was exporting to {app.audit.folder} for {WHOLE_WAIT_S:g} s",
            hint="It does the work; see how far it got with `recoup audit verify`.",
        )
    return exported


async def follow_audit(app: App, look_s: float) -> AsyncIterator[Exported]:
    """The same again and again, whenever events came."""
    seen = -1
    while True:
        marker = await app.ledger.change_marker()
        if marker != seen:
            yield await export_audit(app)
            seen = marker
        await asyncio.sleep(look_s)


async def verify_audit(app: App) -> Verified:
    """Walks all files, line by line, and compares them with the ledger. Takes seconds, on this loop."""
    return await verify(app.audit.folder, app.ledger)


class Audits:
    """For a server: beside the loop, in a thread; one walk at a time."""

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
        return await asyncio.to_thread(lambda: asyncio.run(verify(self._app.audit.folder, beside)))


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
