"""Answers by key are on the disk before they are given; those that are ready together go there together, in a thread.

Otherwise every answer would stop the event loop for as long as a disk takes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from recoup.gateway.database import open_database

_KEEP: Final = "UPDATE answers SET status = ?, media = ?, body = ?, location = ? WHERE key = ?"


class Answer(msgspec.Struct, frozen=True):
    """What was answered under a key."""

    status: int
    media: str
    body: bytes
    location: str | None = None
    """The header: where what was made can be found."""


class _Ready(msgspec.Struct, frozen=True):
    key: str
    answer: Answer
    kept: asyncio.Future[None]


class Finishing:
    """Group commit for one file, on a connection of its own. Belongs to one event loop."""

    def __init__(self, path: Path) -> None:
        self._db = open_database(path, threads=True)
        self._ready: list[_Ready] = []
        self._task: asyncio.Task[None] | None = None

    async def keep(self, key: str, answer: Answer) -> None:
        """Durable when it returns."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.append(_Ready(key, answer, kept))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        await kept

    def close(self) -> None:
        self._db.close()

    async def _work(self) -> None:
        try:
            while self._ready:
                batch, self._ready = self._ready, []
                (told,) = await asyncio.gather(asyncio.to_thread(self._write, batch), return_exceptions=True)
                for one in batch:
                    _tell(one.kept, told)
        finally:
            self._task = None

    def _write(self, batch: list[_Ready]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            rows = ((*msgspec.structs.astuple(one.answer), one.key) for one in batch)
            self._db.executemany(_KEEP, rows)
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def _tell(kept: asyncio.Future[None], told: BaseException | None) -> None:
    if kept.done():
        return  # nobody waits any more
    if told is None:
        kept.set_result(None)
    else:
        kept.set_exception(told)
