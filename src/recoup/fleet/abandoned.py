"""What a driver left that was killed together with its keepers: nobody but another Recoup process can end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from recoup.errors import KeeperError, LedgerError
from recoup.model.events import RunTakenOver
from recoup.model.ids import run_stream
from recoup.model.process import Abandoned
from recoup.ports import Ledger

RUNS_MAX = 100


class AbandonedProcesses:
    """Ends processes whose driver was lost, on this host, whoever drives their run now.

    A process of a driver that ended in good order is left alone: then a step's own tree is gone, and what still has its
    marks was handed to somebody else, such as a job for `at`.
    """

    def __init__(
        self,
        ledger: Ledger,
        find: Callable[[], Sequence[Abandoned]],
        end: Callable[[Abandoned], Awaitable[int]],
    ) -> None:
        self._ledger = ledger
        self._find = find
        self._end = end

    async def end(self) -> list[str]:
        """What was ended, and what could not be, in words."""
        return [words for one in self._find()[:RUNS_MAX] if (words := await self._ended(one))]

    async def _ended(self, left: Abandoned) -> str:
        try:
            if not await self._was_lost(left):
                return ""
            count = await self._end(left)
        except (KeeperError, LedgerError) as error:
            return f"processes that run {left.run_id} left here may still run: {error.message}"
        processes = "1 process" if count == 1 else f"{count} processes"
        return (
            f"ended {processes} that run {left.run_id} left here when its driver was killed" if count else ""
        )

    async def _was_lost(self, left: Abandoned) -> bool:
        """It died with the run in its hands, or was replaced."""
        lease = await self._ledger.lease(left.run_id)
        if lease is None:
            return False
        if lease.owner == left.driver:
            return True
        events = await self._ledger.read(run_stream(left.run_id))
        return any(
            isinstance(one.payload, RunTakenOver) and one.payload.previous_owner == left.driver
            for one in events
        )
