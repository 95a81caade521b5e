"""Looks at a resource again and again, in one way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from recoup.kernel.probe_health import Sign
from recoup.model.probe import ChannelKind, Check
from recoup.probe.ports import Site
from recoup.probe.world import ProbeWorld

STARTING_EVERY_S: Final = 0.5
"""While nothing is known yet: somebody waits for it."""


class Looker:
    """One check of one resource. Looks only while it is told to watch."""

    def __init__(
        self,
        world: ProbeWorld,
        check: Check,
        look: Callable[[], Awaitable[Sign]],
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self.check = check
        self._world = world
        self._look = look
        self._begin = begin
        self._watching = asyncio.Event()
        self._anew = asyncio.Event()
        self._generation = 0
        self._seen = False
        """Good, since the watch began."""
        self._report: Callable[[Sign], None] = lambda _sign: None

    def report_to(self, report: Callable[[Sign], None]) -> None:
        self._report = report

    def watch(self) -> None:
        """From now on, anew: what a look that is under way will see is about something else."""
        self._generation += 1
        self._seen = False
        self._begin()
        self._anew.set()
        self._watching.set()

    def look_soon(self) -> None:
        """There is something to see."""
        self._anew.set()

    def rest(self) -> None:
        self._generation += 1
        self._watching.clear()

    async def keep_looking(self) -> None:
        """Until cancelled."""
        while True:
            await self._watching.wait()
            await self._world.clock.wait(self._anew, self._pause_s())
            self._anew.clear()
            if self._watching.is_set():
                await self._look_once()

    async def _look_once(self) -> None:
        generation = self._generation
        sign = await self._sign()
        if generation == self._generation:
            self._seen |= sign.good
            self._report(sign)

    async def _sign(self) -> Sign:
        limit_s = self.check.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._look()
        except TimeoutError:
            return Sign(good=False, reason=f"no answer within {limit_s:g} s", error_code="timeout")
        except OSError as error:
            return Sign(good=False, reason=str(error), error_code=type(error).__name__)

    def _pause_s(self) -> float:
        """A little more or less each time, so that five hundred do not look in step."""
        every_s = self.check.every_s if self._seen else min(STARTING_EVERY_S, self.check.every_s)
        return every_s * (0.9 + 0.2 * self._world.chance())


def in_mode(look: Callable[[], Awaitable[Sign]], only_in: str, site: Site) -> Callable[[], Awaitable[Sign]]:
    """A look that asks nothing while the channel is in another mode than that: what is not there then is no fault."""
    kind = site.resource.kind
    if not only_in or not isinstance(kind, ChannelKind):
        return look
    full = kind.mode

    async def look_in_mode() -> Sign:
        return await look() if (site.mode() or full) == only_in else Sign(good=True)

    return look_in_mode
