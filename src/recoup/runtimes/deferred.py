"""A runtime that is made when its first step comes: most runs need one kind, and each costs time to load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from recoup.model.outcome import Order, Outcome
from recoup.ports import Hooks, Runtime


class DeferredRuntime:
    """Works outside the driver, like all that are worth deferring."""

    inline = False

    def __init__(self, make: Callable[[], Runtime]) -> None:
        self._make = make
        self._made: Runtime | None = None
        self._making = asyncio.Lock()

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        return await (await self._runtime()).perform(order, hooks)

    async def _runtime(self) -> Runtime:
        """In a thread: the event loop renews leases while modules are loaded."""
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
                assert not self._made.inline, "a runtime that works inside the driver cannot be deferred"
        return self._made
