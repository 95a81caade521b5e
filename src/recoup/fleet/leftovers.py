"""What a worker may still take, and why it takes none of the rest: for a worker that ends when it is idle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping

import msgspec

from recoup.errors import EventUnreadable
from recoup.kernel.position import waits_for_a_person
from recoup.model.instant import Instant
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import RunFilter, Wanting
from recoup.ports import Clock, Ledger

LISTED_MAX = 20
_PAGE = 500
_PAGES_MAX = 20
_REMEMBERED_MAX = 10_000


class Leftover(msgspec.Struct, frozen=True):
    """A run that this worker leaves where it is."""

    run_id: str
    workflow: str
    why: str


class Leftovers:
    """Compares the runs that want a driver with what one worker may take."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        state: Callable[[str], Awaitable[RunState | None]],
        queues: Collection[str],
        capabilities: frozenset[str],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._state = state
        self._queues = queues
        self._capabilities = capabilities
        self._scheduled: set[str] = set()
        """Runs that are due later because they were submitted so."""

    async def may_take_more(self, stuck: Mapping[str, str]) -> bool:
        """A run is left that this worker may drive, now or after a wait that the run's own retries asked for. `stuck`:
        runs that it looked at and that only a person, another worker or the end of a pause can move, and why."""
        now = self._clock.now()
        async for run in self._wanting():
            if await self._why_not(run, stuck, now) is None:
                return True
        held = await self._ledger.held(now)
        return any(self._is_mine(one.run) and one.run.run_id not in stuck for one in held)

    async def listed(self, stuck: Mapping[str, str]) -> tuple[list[Leftover], int]:
        """The first of them, and how many there are in all."""
        now, found, count = self._clock.now(), list[Leftover](), 0
        async for run in self._wanting():
            why = await self._why_not(run, stuck, now)
            if why is not None:
                count += 1
                found += [Leftover(run.run_id, run.workflow, why)] if count <= LISTED_MAX else []
        people = [one async for one in self._waiting_for_people()]
        return [*found, *people][:LISTED_MAX], count + len(people)

    async def _wanting(self) -> AsyncIterator[Wanting]:
        after = ""
        for _ in range(_PAGES_MAX):
            page = await self._ledger.wanting(after, _PAGE)
            for run in page:
                yield run
            if len(page) < _PAGE:
                return
            after = page[-1].run_id

    async def _waiting_for_people(self) -> AsyncIterator[Leftover]:
        rows = (await self._ledger.runs(RunFilter(statuses=("waiting", "escalated")), limit=LISTED_MAX)).rows
        for row in rows:
            try:
                state = await self._state(row.run_id)
            except EventUnreadable:
                continue
            if state is not None and state.queueing.queue in self._queues and waits_for_a_person(state):
                yield Leftover(row.run_id, row.workflow, f"it waits for a person: {state.reason}")

    def _is_mine(self, run: Wanting) -> bool:
        return run.queue in self._queues and self._capabilities.issuperset(run.needs)

    async def _why_not(self, run: Wanting, stuck: Mapping[str, str], now: Instant) -> str | None:
        if run.queue not in self._queues:
            return f"it is in the queue {run.queue}: recoup worker --queues {run.queue}"
        if missing := sorted(set(run.needs) - self._capabilities):
            return f"it needs {', '.join(missing)}, which this worker does not have: --capabilities"
        if run.run_id in stuck:
            return stuck[run.run_id]
        if run.due_us > now.wall_us and await self._is_scheduled(run):
            return f"it is scheduled for {Instant(run.due_us, 0, '').iso()[:19]}Z"
        return None

    async def _is_scheduled(self, run: Wanting) -> bool:
        """It was submitted for later; a run that waits for its next attempt is not left alone."""
        if run.run_id not in self._scheduled:
            try:
                state = await self._state(run.run_id)
            except EventUnreadable:
                return True
            if state is None or state.status is not RunStatus.QUEUED:
                return False
            if len(self._scheduled) >= _REMEMBERED_MAX:
                self._scheduled.clear()
            self._scheduled.add(run.run_id)
        return True
