"""States of runs that people look at: folded once, and then only what has come since. A few of them are kept."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

from recoup.app import App
from recoup.damage import following, must_be_understood, state_after
from recoup.errors import EventUnreadable, NotFound
from recoup.kernel.documents import run_document
from recoup.kernel.position import is_over
from recoup.model.answers.runs import RunDocument
from recoup.model.events import Event
from recoup.model.ids import run_stream
from recoup.model.run import Clocks, RunState
from recoup.model.storage import RunRow

STATES_MAX: Final = 32
OVER_MAX: Final = 5_000
CLOCK_EVENTS_MAX: Final = 2_000
_PAGE_EVENTS: Final = 1_000


class RunStates:
    """A state never changes: new events make another one. So a page may wait between its parts and still show one
    moment of the run."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._states: OrderedDict[str, RunState] = OrderedDict()
        self._over: OrderedDict[str, tuple[int, bool]] = OrderedDict()
        """By run: what was said after which event. Small, so that many can be kept."""

        self._clocks: OrderedDict[str, tuple[int, Clocks]] = OrderedDict()
        """By run, in the same way."""

    async def state(self, run_id: str) -> RunState:
        state = await self._state(run_id)
        if state is None:
            raise NotFound(f"there is no run {run_id!r}", hint="List them: recoup runs")
        return state

    async def shown(self, run_id: str) -> RunState:
        """To be looked at, never acted on: as far as its events can be read, and marked where one cannot."""
        try:
            return await self.state(run_id)
        except (EventUnreadable, NotFound):
            return await self._app.runs.shown(run_id)

    async def document(self, run_id: str) -> RunDocument | dict[str, str]:
        try:
            return run_document(await self.shown(run_id), await self._app.driving.is_driven(run_id))
        except NotFound:
            return {"runId": run_id, "status": "forgotten"}

    async def over_at(self, run_id: str) -> int | None:
        """The place of its last event, if it has ended and no other delivery follows by itself; 0: it was forgotten.
        None: it goes on."""
        head = await self._app.ledger.head(f"run:{run_id}")
        seq, over = self._over.get(run_id, (-1, False))
        if seq != head:
            seq, over = await self._ended(run_id, head)
            _keep(self._over, run_id, (seq, over), OVER_MAX)
        return seq if over else None

    async def clocks(self, row: RunRow) -> Clocks | None:
        """To tell how long a listed run was worked on. None: it would take long to find out."""
        seq, clocks = self._clocks.get(row.run_id, (0, None))
        if seq == row.seq:
            return clocks
        if row.seq > CLOCK_EVENTS_MAX:
            return None
        state = await self.shown(row.run_id)
        if state.unreadable is None:
            _keep(self._clocks, row.run_id, (state.seq, state.clocks), OVER_MAX)
        return state.clocks

    async def _ended(self, run_id: str, head: int) -> tuple[int, bool]:
        try:
            state = await self._state(run_id)
        except EventUnreadable:  # nobody goes on with it; its row says how it stands
            return head, (await self._app.runs.shown(run_id)).status.is_terminal
        return (0, True) if state is None else (state.seq, is_over(state))

    async def _state(self, run_id: str) -> RunState | None:
        """Page by page: others are answered between two of them."""
        state = self._states.get(run_id)
        while True:
            after = 0 if state is None else state.seq
            events = await self._app.ledger.read(run_stream(run_id), after, _PAGE_EVENTS)
            must_be_understood(events)
            if events:
                state = _after(run_id, state, events)
            if len(events) < _PAGE_EVENTS:
                break
            await asyncio.sleep(0)
        if state is None or (not events and await self._app.ledger.head(run_stream(run_id)) == 0):
            self._states.pop(run_id, None)
            return None
        return self._newest(run_id, state)

    def _newest(self, run_id: str, state: RunState) -> RunState:
        """Another request may have folded further meanwhile."""
        kept = self._states.get(run_id)
        newest = state if kept is None or kept.seq <= state.seq else kept
        _keep(self._states, run_id, newest, STATES_MAX)
        return newest


def _after(run_id: str, state: RunState | None, events: Sequence[Event]) -> RunState:
    return state_after(run_id, events) if state is None else reduce(following, events, state)


def _keep(kept: OrderedDict[str, Any], key: str, value: Any, limit: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > limit:
        kept.popitem(last=False)
