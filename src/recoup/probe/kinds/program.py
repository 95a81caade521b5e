"""A program that holds something for a resource of another kind than process: a connection, a port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from recoup.model.probe import Fault, ProcessKind
from recoup.probe.commands import LastWords
from recoup.probe.kinds.process import ProcessHolder
from recoup.probe.ports import Done, OutputListener, Site

STOP_GRACE_S: Final = 5.0
AGAIN_S: Final = 0.05
_NOTHING: Final[Mapping[str, str]] = {}


class Program:
    """One run of it: started once, stopped once. Whoever has it says what its end means."""

    def __init__(
        self,
        site: Site,
        argv: Sequence[str],
        ended: Callable[[], None],
        env: Mapping[str, str] = _NOTHING,
        heard: OutputListener = lambda _stream, _chunk: None,
    ) -> None:
        self._site = site
        self._told = ended
        self._heard = heard
        self._last = LastWords()
        self._fault: Fault | None = None
        self.over = asyncio.Event()
        """It has ended, and nobody here has stopped it."""
        kind = ProcessKind(command=tuple(argv), env=dict(env), stop_grace_s=STOP_GRACE_S)
        self._holder = ProcessHolder(replace(site, fault=self._end, heard=self._take), kind)

    async def start(self) -> Done:
        return await self._holder.start()

    async def stop(self) -> Done:
        return await self._holder.stop()

    @property
    def words(self) -> str:
        """Why it ended: what it said last, or else how."""
        return self._last.words or (self._fault.reason if self._fault else "it has ended")

    @property
    def code(self) -> str | None:
        return self._fault.error_code if self._fault else None

    def _end(self, fault: Fault) -> None:
        self._fault = fault
        self.over.set()
        self._told()

    def _take(self, stream: str, chunk: bytes) -> None:
        if stream == "stderr":
            self._last.feed(stream, chunk)
        self._heard(stream, chunk)
        self._site.heard(stream, chunk)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Returns when it holds. Programs do not tell when they are ready: they are asked."""
    while not await holds():  # noqa: ASYNC110
        await asyncio.sleep(AGAIN_S)


async def unless_over(program: Program, doing: asyncio.Task[None], timeout_s: float) -> bool:
    """Whether it was done in its time, and before the program ended. What it raised is raised here."""
    over = asyncio.create_task(program.over.wait())
    try:
        await asyncio.wait({over, doing}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
        return doing.done() and not program.over.is_set()
    finally:
        over.cancel()
        doing.cancel()
        await asyncio.wait({over, doing})
