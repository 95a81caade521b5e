"""Holding a run: the lifeline that keepers hang on, and the heartbeat that extends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from recoup.errors import LeaseLost, LedgerError
from recoup.model.ids import Lease
from recoup.ports import Holding

_RETRY_S = 0.5


class LeaseLifeline:
    """Tells every attached keeper until when the lease holds."""

    def __init__(self, deadline_boot_s: float) -> None:
        self._deadline_boot_s = deadline_boot_s
        self._extend: dict[int, Callable[[float], None]] = {}
        self._next = 0

    @property
    def deadline_boot_s(self) -> float:
        return self._deadline_boot_s

    def attach(self, extend: Callable[[float], None]) -> Callable[[], None]:
        self._next += 1
        key = self._next
        self._extend[key] = extend
        return lambda: self._extend.pop(key, None) and None

    def extend(self, deadline_boot_s: float) -> None:
        self._deadline_boot_s = deadline_boot_s
        for extend in tuple(self._extend.values()):
            extend(deadline_boot_s)


async def keep_lease(world: Holding, lease: Lease, lifeline: LeaseLifeline, lost: Callable[[], None]) -> None:
    """Renew until cancelled; calls `lost` once when another epoch holds the run or the lease ran out."""
    never = asyncio.Event()
    pause_s = world.heartbeat_s
    while True:
        await world.clock.wait(never, pause_s)
        now = world.clock.now()
        try:
            lease = await world.ledger.renew(lease, now)
        except LeaseLost:
            return lost()
        except LedgerError:
            # The database may come back in time; after the deadline the keepers have killed everything anyway.
            if now.boot_us / 1e6 >= lease.deadline_boot_s:
                return lost()
            pause_s = _RETRY_S
            continue
        pause_s = world.heartbeat_s
        lifeline.extend(lease.deadline_boot_s)
