"""Who may drive a run: whoever holds its lease, and only one does."""

from __future__ import annotations

from dataclasses import dataclass

from recoup.engine.world import World
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.storage import LeaseRow


@dataclass(frozen=True, slots=True)
class Claimed:
    lease: Lease
    replaced: ProcessIdentity | None
    """The owner that was lost: its lease ran out, or it is proven dead."""


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody else drives the run."""

    by: LeaseRow


async def claim(world: World, run_id: str) -> Claimed | Held:
    """The lease, at once where the owner released it, let it run out, or is proven dead on this host."""
    before = await world.ledger.lease(run_id)
    owner = world.census.own_identity()
    lease = await world.ledger.claim(run_id, owner, world.lease_ttl_s, world.clock.now())
    if lease is None and before is not None and before.owner is not None:
        if world.census.is_alive(before.owner) is not False:
            return Held(before)
        lease = await world.ledger.claim(
            run_id, owner, world.lease_ttl_s, world.clock.now(), over_epoch=before.epoch
        )
    if lease is None:
        row = await world.ledger.lease(run_id)
        assert row is not None, f"run {run_id}: a claim was refused without a lease"
        return Held(row)
    return Claimed(lease, before.owner if before is not None else None)
