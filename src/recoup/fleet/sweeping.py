"""The ledger knows every run that wants a driver; hints may be lost. So somebody looks, now and then."""

from __future__ import annotations

from collections.abc import Sequence

from recoup.engine.world import World
from recoup.fleet.delivering import DUE_MAX_S
from recoup.model.dispatch import Hint
from recoup.model.storage import HeldRun, Wanting
from recoup.ports import Dispatch

PAGE = 500
PAGES_MAX = 20
"""Of runs at one look; the next one goes on where this one ended."""


class Sweeper:
    """Finds runs whose driver was lost, and runs that nobody was told of."""

    def __init__(
        self, world: World, dispatch: Dispatch, queues: Sequence[str], capabilities: frozenset[str]
    ) -> None:
        self._world = world
        self._dispatch = dispatch
        self._queues = frozenset(queues)
        self._capabilities = capabilities
        self._after = ""

    async def lost(self) -> list[HeldRun]:
        """Runs that we could drive and whose lease ran out, or whose owner is proven dead on this host."""
        held = await self._world.ledger.held(self._world.clock.now())
        return [one for one in held if self._can_drive(one.run) and self._is_lost(one)]

    async def redeliver(self) -> int:
        """Hints for runs that have none, of all queues; a part of them at a time. Says how many there were."""
        count = 0
        for _ in range(PAGES_MAX):
            page = await self._world.ledger.wanting(self._after, PAGE)
            count += await self._hint_missing(page)
            self._after = page[-1].run_id if len(page) == PAGE else ""
            if not self._after:
                break
        return count

    async def _hint_missing(self, page: Sequence[Wanting]) -> int:
        hinted = await self._dispatch.hinted([run.run_id for run in page]) if page else set()
        now_us = self._world.clock.now().wall_us
        missing = [run for run in page if run.run_id not in hinted]
        due = [run for run in missing if run.due_us <= now_us]
        await self._dispatch.hint([self.hint(run) for run in due])
        for run in missing:
            if run.due_us > now_us:
                await self._dispatch.hint([self.hint(run)], min(DUE_MAX_S, (run.due_us - now_us) / 1e6))
        return len(missing)

    def hint(self, run: Wanting) -> Hint:
        return Hint(run.run_id, run.queue, run.priority, run.needs)

    def _can_drive(self, run: Wanting) -> bool:
        return run.queue in self._queues and self._capabilities.issuperset(run.needs)

    def _is_lost(self, one: HeldRun) -> bool:
        if one.left_s <= 0:
            return True
        return one.lease.owner is not None and self._world.census.is_alive(one.lease.owner) is False
