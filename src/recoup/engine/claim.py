"""Who may drive a run: whoever holds its lease, and only one does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from recoup.errors import LeaseLost, LedgerError, StateError
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.storage import Crowd, LeaseRow
from recoup.ports import Holding, Ledger

CLAIMS_MAX = 100
AGAIN_MAX = 3
_FORGOTTEN_MAX = 1_000


class Claimed(msgspec.Struct, frozen=True):
    lease: Lease

    @property
    def replaced(self) -> ProcessIdentity | None:
        """The owner that was lost: its lease ran out, or it is proven dead."""
        return self.lease.replaced


class Held(msgspec.Struct, frozen=True):
    """Somebody else drives the run."""

    by: LeaseRow


class Crowded:
    """Nobody drives it, and as many others as may be driven at once are."""


async def claim(world: Holding, run_id: str) -> Claimed | Held:
    """The lease, at once where the owner released it, let it run out, or is proven dead on this host."""
    for _ in range(CLAIMS_MAX):
        taken = await claim_within(world, run_id, ())
        if not isinstance(taken, Crowded):
            return taken
        # There is no crowd: its owner released it between the claim and the look. It is free now.
    raise LedgerError(
        f"run {run_id} changed hands {CLAIMS_MAX} times while it was claimed", hint="Try again."
    )


async def claim_within(world: Holding, run_id: str, crowds: Sequence[Crowd]) -> Claimed | Held | Crowded:
    """The same, if there is room for one more run.

    A lease counts from before it was asked for, and a claim may wait for its turn for as long as a lease lasts: behind
    somebody who is frozen. Then it is made again, now that the way is free, so that nobody begins with a lease that is
    over."""
    wanted = (run_id, world.census.own_identity(), world.lease_ttl_s)
    lease = await world.ledger.claim(*wanted, world.clock.now(), crowds=crowds)
    if lease is None:
        before = await world.ledger.lease(run_id)
        if before is not None and before.owner is not None:
            if world.census.is_alive(before.owner) is not False:
                return Held(before)
            lease = await world.ledger.claim(*wanted, world.clock.now(), before.epoch, crowds)
    if lease is None:
        return await _refusal(world, run_id, crowds)
    for _ in range(AGAIN_MAX):
        if not _is_stale(world, lease):
            break
        again = await _again(world, lease, crowds)
        if again is None:
            # It was over, and others have it, or its place. It stays as it is: who comes next must see that an owner
            # was lost, if one was before us.
            return await _refusal(world, run_id, crowds)
        lease = again
    return Claimed(lease)


async def _refusal(world: Holding, run_id: str, crowds: Sequence[Crowd]) -> Held | Crowded:
    row = await world.ledger.lease(run_id)
    assert row is not None or crowds, f"run {run_id}: a claim was refused without a lease"
    is_ours = row is not None and row.owner == world.census.own_identity()
    return Crowded() if row is None or row.owner is None or is_ours else Held(row)


async def _again(world: Holding, lease: Lease, crowds: Sequence[Crowd] = ()) -> Lease | None:
    """Our own under the next epoch. Whom we replaced is whom we replaced at first."""
    wanted = (lease.run_id, lease.owner, lease.ttl_s)
    higher = await world.ledger.claim(*wanted, world.clock.now(), lease.epoch, crowds)
    return higher and msgspec.structs.replace(higher, replaced=lease.replaced)


def _is_stale(world: Holding, lease: Lease) -> bool:
    """It took longer than a heartbeat to come by. Two of them fit into a lease, and what keepers keep in hand."""
    return world.clock.now().boot_us / 1e6 > lease.deadline_boot_s - lease.ttl_s + world.heartbeat_s


async def claim_above(world: Holding, taken: Claimed, epoch: int) -> Claimed:
    """The same under an epoch higher than this one, which the run's folder has seen: a ledger that was restored from a
    backup does not know it any more, and gives it again. Raises LeaseLost, StateError."""
    lease = taken.lease
    if epoch - lease.epoch > _FORGOTTEN_MAX:
        raise StateError(
            f"run {lease.run_id} was driven here under epoch {epoch}, and its ledger knows of {lease.epoch} only",
            hint="See that RECOUP_DATABASE and RECOUP_HOME belong together.",
        )
    while lease.epoch <= epoch:
        higher = await _again(world, lease)
        if higher is None:
            raise LeaseLost(
                f"run {lease.run_id} has another driver by now",
                hint=f"See who has it: recoup show {lease.run_id}",
            )
        lease = higher
    return Claimed(lease)


@contextlib.asynccontextmanager
async def or_released(ledger: Ledger, lease: Lease) -> AsyncIterator[None]:
    """Whatever goes wrong, the run does not stay in our hands."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(LedgerError):
            await ledger.release(lease)
        raise
