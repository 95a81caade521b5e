"""States of runs that somebody looks at again and again: folded once, then only what has come since."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from starlette.requests import Request

from recoup.app import App
from recoup.errors import NotFound
from recoup.gateway.house import house_of
from recoup.kernel.fold import advance, fold
from recoup.model.ids import run_stream
from recoup.model.run import RunState

STATES_MAX: Final = 32
_PAGE: Final = 1_000
"""Others are answered between two pages."""


class Folds:
    """Whoever gets a state reads what they need of it before they wait for anything else: it is everybody's."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._states: OrderedDict[str, RunState] = OrderedDict()

    async def state(self, run_id: str) -> RunState:
        known = self._states.get(run_id)
        while True:
            after = 0 if known is None else known.seq
            events = await self._app.ledger.read(run_stream(run_id), after, _PAGE)
            if known is None and not events:
                raise NotFound(f"there is no run {run_id!r}", hint="List them: recoup runs")
            if known is None:
                known = fold(run_id, events)
            else:
                for event in events:
                    if event.seq > known.seq:  # another request may have gone on with it
                        advance(known, event.payload, event.at, event.seq)
            if len(events) < _PAGE:
                return self._kept(run_id, known)
            await asyncio.sleep(0)

    def _kept(self, run_id: str, state: RunState) -> RunState:
        self._states[run_id] = state
        self._states.move_to_end(run_id)
        while len(self._states) > STATES_MAX:
            self._states.popitem(last=False)
        return state


def folds_of(request: Request) -> Folds:
    """One for each gateway."""
    state = request.app.state
    if not hasattr(state, "folds"):
        state.folds = Folds(house_of(request).app)
    found = state.folds
    assert isinstance(found, Folds)
    return found
