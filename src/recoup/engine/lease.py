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


async def explained_loss(world: Holding, lease: Lease, error: LeaseLost) -> LeaseLost:
    """The same error with what the ledger says now: whether the run has another driver, and what to do."""
    try:
        row = await world.ledger.lease(lease.run_id)
    except LedgerError:
        return error
    if row is None or row.epoch < lease.epoch or (row.epoch == lease.epoch and row.owner is None):
        return error  # it was given back, or the database lost commits
    run_id, stood_still = lease.run_id, f"stood still for longer than its lease of {lease.ttl_s:g} s"
    if row.epoch == lease.epoch:
        words = f"this driver {stood_still}, or could not renew it; nobody has taken run {run_id} over"
        explained = LeaseLost(words, hint=f"Go on with: recoup resume {run_id}")
    else:
        who = f"another driver (process {row.owner.pid})" if row.owner else "another driver"
        words = f"{who} has taken run {run_id} over, since this one {stood_still} or lost it"
        explained = LeaseLost(words, hint=f"See how far it is: recoup show {run_id}")
    explained.replaced = row.epoch != lease.epoch
    return explained


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
