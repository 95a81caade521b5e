"""Questions that are asked at the same time, as one: a worker looks at many runs at once."""

from __future__ import annotations

import asyncio
from typing import Any

from recoup.ledger.outcomes import Outcome, tell
from recoup.ledger.postgres.reader import Reader

KEYS_MAX = 64

Row = tuple[Any, ...]


class Together:
    """A named query that takes keys and says in the first column of each row which one it is about. What is asked while
    an answer is awaited is asked next, together. Belongs to one event loop."""

    def __init__(self, reader: Reader, name: str) -> None:
        self._reader = reader
        self._name = name
        self._waiting: dict[str, list[asyncio.Future[list[Row]]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def rows(self, key: str) -> list[Row]:
        """Without the first column. Raises LedgerBusy, LedgerError."""
        future: asyncio.Future[list[Row]] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="recoup-ledger-reads")
        return await future

    async def close(self) -> None:
        """What waits is answered first."""
        if self._task:
            await self._task

    async def _work(self) -> None:
        try:
            while self._waiting:
                keys = list(self._waiting)[:KEYS_MAX]
                asked = {key: self._waiting.pop(key) for key in keys}
                await self._answer(asked)
        finally:
            self._task = None

    async def _answer(self, asked: dict[str, list[asyncio.Future[list[Row]]]]) -> None:
        found: dict[str, list[Row]] = {key: [] for key in asked}
        error: BaseException | None = None
        try:
            for key, *row in await self._reader.rows(self._name, (list(asked),)):
                found[key].append(tuple(row))
        except BaseException as trouble:  # noqa: BLE001 - nobody may wait for ever: each asker gets it
            error = trouble
        for key, futures in asked.items():
            for future in futures:
                tell(future, Outcome(found[key], error))
