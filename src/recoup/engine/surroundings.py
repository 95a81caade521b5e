"""What changes around a run while it goes on: the policy that everybody follows, and modes that let nothing begin."""

from __future__ import annotations

import contextlib

from recoup.engine.breaking import blocked, kept_out_of
from recoup.engine.desk import Desk
from recoup.engine.everywhere import Seen
from recoup.errors import LedgerError
from recoup.kernel.elapsed import elapsed_s
from recoup.model.instant import Instant
from recoup.model.mode import Refusal

LOOK_S = 1.0
"""No more often than this, where an attempt ends or begins; it is no part of a step's commit."""


class Surroundings:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._looked_at: Instant | None = None
        self.refusal: Refusal | None = None
        """Why nothing may begin anywhere, as of the last look."""

    async def stop_the_first_delivery(self, mode_checked: bool = False) -> bool:
        """Before anything is begun, so that none is spent. `mode_checked`: the caller has just looked at the
        mode of the workflow; what has changed since is seen by the transaction that begins a step."""
        desk = self._desk
        if desk.state.begun:
            return False
        now, run_id = desk.world.clock.now(), desk.job.run_id
        refusal = None
        if not mode_checked:
            refusal = await kept_out_of(
                *(desk.world.ledger, desk.world.redactor, desk.state.workflow, run_id, desk.job.policy, now)
            )
        await self.look()
        return await self._blocked_by(refusal or self.refusal)

    @property
    def seen(self) -> bool:
        """The last look saw something. Nothing may begin in the commit of what came before it otherwise."""
        return self._looked_at is not None

    async def look(self) -> None:
        """Once in a while: whether the policy has changed, and whether everything is to stop."""
        now = self._desk.world.clock.now()
        if self._looked_at is not None and elapsed_s(self._looked_at, now, LOOK_S) < LOOK_S:
            return
        self._looked_at = None
        with contextlib.suppress(LedgerError):
            # What an attempt came to waits to be recorded, and must not be lost for this. The next look is at the next
            # occasion: nothing may begin on the word of one that saw nothing.
            await self._follow_the_policy()
            self._looked_at, self.refusal = await self._look()

    async def _look(self) -> Seen:
        world, policy = self._desk.world, self._desk.job.policy
        digest = self._desk.recorder.digest_of(policy)
        return await world.everywhere.look(world.ledger, world.redactor, policy, digest, world.clock)

    async def stop_the_run(self) -> bool:
        await self.look()
        return await self._blocked_by(self.refusal)

    async def block(self, refusal: Refusal) -> None:
        """The run is in nobody's hands until somebody resumes it."""
        blocking = blocked(self._desk.state.workflow, refusal, self._desk.world.clock.now())
        await self._desk.recorder.record(blocking, release=True)

    async def _follow_the_policy(self) -> None:
        generations = self._desk.world.generations
        newest = await generations.current_within(LOOK_S / 2) if generations is not None else None
        if newest is not None and newest != self._desk.job.policy:
            self._desk.follow(newest)

    async def _blocked_by(self, refusal: Refusal | None) -> bool:
        if refusal is not None:
            await self.block(refusal)
        return refusal is not None
