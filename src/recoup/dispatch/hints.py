"""The queue beside the ledger, opened on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from recoup.errors import DispatchError
from recoup.model.dispatch import Hint
from recoup.ports import Dispatch


class Hints:
    """Of one process."""

    def __init__(self, open_queue: Callable[[], Awaitable[Dispatch]]) -> None:
        self._open_queue = open_queue
        self._queue: Dispatch | None = None
        self._opening = asyncio.Lock()

    async def queue(self) -> Dispatch:
        async with self._opening:  # those who ask at once get the same one: another would never be closed
            if self._queue is None:
                self._queue = await self._open_queue()
        return self._queue

    async def tell(self, hint: Hint, delay_s: float = 0) -> str | None:
        """Tells workers. Why not, in words, if the queue cannot be reached: they find the run by themselves, later."""
        try:
            await (await self.queue()).hint([hint], delay_s)
        except DispatchError as error:
            return f"the queue was not told ({error.message}); workers will find the run in the ledger"
        return None

    async def close(self) -> None:
        if self._queue is not None:
            await self._queue.close()
