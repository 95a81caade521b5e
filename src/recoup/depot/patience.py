"""A depot that is asked again, a few times, and waited for no longer than a limit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from recoup.errors import DepotError
from recoup.ports import Depot

T = TypeVar("T")

TIMEOUT_S = 60.0
PAUSES_S = (0.1, 0.4, 1.6, 5.0)


class PatientDepot:
    """Every call of a depot can be repeated, so a lost connection or a restarted server is worth another try."""

    def __init__(
        self, depot: Depot, timeout_s: float = TIMEOUT_S, pauses_s: Sequence[float] | None = None
    ) -> None:
        """`pauses_s`: one after each call that failed, and then no other call is made."""
        self._depot = depot
        self._timeout_s = timeout_s
        self._pauses_s = PAUSES_S if pauses_s is None else pauses_s

    async def put(self, name: str, data: bytes) -> None:
        await self._patiently(f"storing {name}", lambda: self._depot.put(name, data))

    async def get(self, name: str) -> bytes:
        return await self._patiently(f"reading {name}", lambda: self._depot.get(name))

    async def names(self, prefix: str) -> list[str]:
        return await self._patiently(f"listing {prefix}", lambda: self._depot.names(prefix))

    async def remove(self, name: str) -> None:
        await self._patiently(f"removing {name}", lambda: self._depot.remove(name))

    async def close(self) -> None:
        await self._depot.close()

    async def _patiently(self, doing: str, call: Callable[[], Awaitable[T]]) -> T:
        refusals: list[DepotError] = []
        try:
            async with asyncio.timeout(self._timeout_s):
                return await _again(call, refusals, self._pauses_s)
        except TimeoutError:
            what = "could not be used" if refusals else "did not answer"
            why = f": {refusals[-1].message}" if refusals else ""
            raise DepotError(
                f"the depot {what} within {self._timeout_s:g} s ({doing}){why}",
                hint="See that what RECOUP_EVIDENCE or RECOUP_DATABASE names can be reached. Then: recoup resume RUN",
            ) from None


async def _again(
    call: Callable[[], Awaitable[T]], refusals: list[DepotError], pauses_s: Sequence[float]
) -> T:
    for pause_s in pauses_s:
        try:
            return await call()
        except DepotError as error:
            refusals.append(error)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))
    return await call()
