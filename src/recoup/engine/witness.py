"""Before a step that must not be repeated: what the ledger says of it must be all there is to say."""

from __future__ import annotations

import asyncio

from recoup.engine.world import World
from recoup.model.ids import Lease


def unsettled_s(world: World) -> float:
    """How long other processes may still come back and tell that the server has lost commits. Each tries again
    within its lease."""
    return max(0.0, world.lease_ttl_s - world.ledger.started_s_ago())


async def witness(world: World, lease: Lease) -> None:
    """Returns when a step that must not be repeated may be executed: what was recorded is also known outside the
    database, and processes that know more had time to say so. Raises LeaseLost if one did; LedgerError; OSError."""
    await world.ledger.witness()
    if unsettled_s(world) <= 0:
        return
    while (left_s := unsettled_s(world)) > 0:
        await world.clock.wait(asyncio.Event(), left_s)
    await world.ledger.renew(lease, world.clock.now())
