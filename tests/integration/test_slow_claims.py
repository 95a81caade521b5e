"""A claim that waits for its turn for as long as a lease lasts: whoever makes it begins with a lease that holds."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.clock import SystemClock
from recoup.engine.claim import AGAIN_MAX, Claimed, Crowded, Held, claim, claim_within
from recoup.errors import LedgerBusy
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.storage import Crowd
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of

RIVAL = ProcessIdentity("host", "boot-1", 99, 1)
LEASE_S, HEARTBEAT_S = 10.0, 3.0
ROOM_FOR_ONE = (Crowd("workflow", plan_of("a").name, 1),)


class SlowLedger(SqliteLedger):
    """Claims take so many seconds, one after the other; then something happens."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        super().__init__(path)
        self.clock = clock
        self.takes_s: list[float] = []
        self.then: Callable[[], Awaitable[object]] | None = None
        self.claims = 0
        self.refused = 0
        """Which claim gets no turn at all."""

    async def claim(self, *asked: Any, **more: Any) -> Lease | None:
        self.claims += 1
        if self.claims == self.refused:
            raise LedgerBusy("no turn at the ledger", hint="Try again.")
        lease = await super().claim(*asked, **more)
        if self.takes_s:
            self.clock.advance(self.takes_s.pop(0))
            then, self.then = self.then, None
            if then is not None:
                await then()
        return lease


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    clock = FakeClock()
    made = House(tmp_path, clock=clock, ledger=SlowLedger(tmp_path / "slow.db", clock))
    assert (made.world.lease_ttl_s, made.world.heartbeat_s) == (LEASE_S, HEARTBEAT_S)
    await made.submit(plan_of("a"))
    yield made
    await made.ledger.close()


def slow(house: House) -> SlowLedger:
    assert isinstance(house.ledger, SlowLedger)
    return house.ledger


def left_s(house: House, taken: Claimed) -> float:
    return taken.lease.deadline_boot_s - house.clock.now().boot_us / 1e6


async def is_renewed(house: House, taken: Claimed) -> bool:
    """Refused with LeaseLost once it has run out."""
    return (await house.ledger.renew(taken.lease, house.clock.now())).epoch == taken.lease.epoch


@pytest.mark.parametrize("seconds", [HEARTBEAT_S + 0.1, LEASE_S - 0.5, LEASE_S, 5 * LEASE_S])
async def test_what_came_late_is_claimed_again(house: House, seconds: float) -> None:
    slow(house).takes_s = [seconds]
    taken = await claim(house.world, "run-1")
    assert isinstance(taken, Claimed)
    assert left_s(house, taken) == LEASE_S
    assert await is_renewed(house, taken)
    assert taken.lease.replaced is None, "not even ourselves"


async def test_what_came_within_a_heartbeat_is_not(house: House) -> None:
    slow(house).takes_s = [HEARTBEAT_S]
    taken = await claim(house.world, "run-1")
    assert isinstance(taken, Claimed)
    assert (taken.lease.epoch, slow(house).claims) == (1, 1)


async def test_a_lost_owner_is_remembered_over_a_late_claim(house: House) -> None:
    lost = await claim(house.world, "run-1")
    assert isinstance(lost, Claimed)
    house.census.restart()
    slow(house).takes_s = [0, LEASE_S]
    taken = await claim(house.world, "run-1")
    assert isinstance(taken, Claimed)
    assert taken.lease.replaced == lost.lease.owner
    assert await is_renewed(house, taken)


async def test_it_is_tried_a_few_times(house: House) -> None:
    slow(house).takes_s = [LEASE_S] * 100
    taken = await claim(house.world, "run-1")
    assert isinstance(taken, Claimed)
    assert slow(house).claims == 1 + AGAIN_MAX


async def test_whoever_took_it_meanwhile_has_it(house: House) -> None:
    ledger = slow(house)
    ledger.takes_s = [LEASE_S]
    ledger.then = lambda: ledger.claim("run-1", RIVAL, LEASE_S, house.clock.now())
    taken = await claim(house.world, "run-1")
    assert isinstance(taken, Held)
    assert taken.by.owner == RIVAL


async def test_a_place_that_was_taken_meanwhile_is_not_taken_twice(house: House) -> None:
    await house.submit(plan_of("a"), "run-2")
    lost = await claim(house.world, "run-1")
    assert isinstance(lost, Claimed)
    house.census.restart()
    ledger = slow(house)

    async def refused() -> None:  # its owner lives, for all the ledger knows
        ledger.then = granted

    async def granted() -> None:
        assert await ledger.claim("run-2", RIVAL, LEASE_S, house.clock.now(), crowds=ROOM_FOR_ONE)

    ledger.takes_s, ledger.then = [0, LEASE_S], refused
    assert isinstance(await claim_within(house.world, "run-1", ROOM_FOR_ONE), Crowded)
    later = await ledger.claim("run-1", RIVAL, LEASE_S, house.clock.now())
    assert later is not None
    assert later.replaced is not None, "who comes next sees that an owner was lost"


async def test_a_late_claim_that_cannot_be_made_again_runs_out(house: House) -> None:
    ledger = slow(house)
    ledger.takes_s, ledger.refused = [HEARTBEAT_S + 1], 2
    with pytest.raises(LedgerBusy):
        await claim(house.world, "run-1")
    assert await ledger.claim("run-1", RIVAL, LEASE_S, house.clock.now()) is None
    ledger.clock.advance(LEASE_S)
    assert await ledger.claim("run-1", RIVAL, LEASE_S, house.clock.now()) is not None


async def test_behind_a_frozen_process_that_has_the_turn(tmp_path: Path) -> None:
    """Really: its lock stays taken, and the first to write waits for it for longer than the lease lasts."""
    ledger = SqliteLedger(tmp_path / "ledger.db", turn_patience_s=0.6)
    house = House(tmp_path, clock=SystemClock(), ledger=ledger)
    world = msgspec.structs.replace(house.world, lease_ttl_s=0.5, heartbeat_s=0.1)
    await house.submit(plan_of("a"))
    turn = os.open(tmp_path / "ledger.turn", os.O_RDWR)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        taken = await claim(world, "run-1")
        assert isinstance(taken, Claimed)
        assert taken.lease.epoch > 1
        assert (await ledger.renew(taken.lease, house.clock.now())).epoch == taken.lease.epoch
    finally:
        os.close(turn)
        await ledger.close()
