"""The heals of all workflows, at hand: folded once, and from then on only by what is new. Bounded in what is read at a
time and in what is kept; what is older than that is on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from recoup.damage import read_leniently
from recoup.gateway.house import house_of
from recoup.heals.desk import Heal, Heals
from recoup.kernel.reviewing import HealState, Review, Reviewed
from recoup.model.ids import targets_stream
from recoup.model.storage import Head
from recoup.ports import Clock, Ledger, RedactorOf

EVENTS_KEPT_MAX: Final = 5_000
"""Of one workflow, the last ones."""
EVENTS_READ_MAX: Final = 5_000
"""In one look: the rest is read by the next one."""
WORKFLOWS_MAX: Final = 500
FULL_MAX: Final = 1_000
_PREFIX: Final = targets_stream("")


class _Fold:
    """One workflow, as far as it was read."""

    def __init__(self, after: int) -> None:
        self.review = Review()
        self.seq = after
        self.waiting = 0


class Reviews:
    """What this gateway knows of heals. One look at a time; each goes on where the last one ended."""

    def __init__(
        self, ledger: Ledger, redactor_of: RedactorOf, clock: Clock, read_max: int = EVENTS_READ_MAX
    ) -> None:
        self._ledger = ledger
        self._redactor_of = redactor_of
        self._clock = clock
        self._read_max = read_max
        self._folds: dict[str, _Fold] = {}
        self._full: dict[str, Heal] = {}
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        async with self._looking:  # no event may be folded twice
            await self._look()

    async def _look(self) -> None:
        heads = sorted(await self._ledger.heads(_PREFIX), key=lambda head: -head.at.wall_us)
        left = self._read_max
        for head in heads[:WORKFLOWS_MAX]:
            if left <= 0:
                return
            left -= await self._follow(head, left)

    async def _follow(self, head: Head, limit: int) -> int:
        name = head.stream.removeprefix(_PREFIX)
        fold = self._folds.get(name)
        if fold is None:
            fold = self._folds[name] = _Fold(max(0, head.seq - EVENTS_KEPT_MAX))
        if fold.seq >= head.seq:
            return 0
        events = await read_leniently(self._ledger, head.stream, fold.seq, min(limit, EVENTS_KEPT_MAX))
        for event in events:
            fold.review.add(event)
            fold.seq = event.seq
        fold.waiting = sum(one.state is HealState.WAITING for one in fold.review.heals())
        return len(events)

    @property
    def workflows(self) -> list[str]:
        return sorted(self._folds)

    @property
    def waiting(self) -> int:
        """Heals about which nobody has said a word and which the workflow does not remember by itself."""
        return sum(fold.waiting for fold in self._folds.values())

    def newest(self, workflow: str | None, state: HealState | None) -> list[tuple[str, Reviewed]]:
        found = [
            (name, one)
            for name, fold in self._folds.items()
            if workflow in (None, name)
            for one in fold.review.heals()
            if state in (None, one.state)
        ]
        return sorted(found, key=lambda pair: -pair[1].at.wall_us)

    async def in_full(self, found: Sequence[tuple[str, Reviewed]]) -> list[Heal]:
        """With what was taken, which stands in the stream of the run alone."""
        desk = Heals(self._ledger, self._redactor_of, self._clock)
        return [await self._one_in_full(desk, workflow, one) for workflow, one in found]

    async def _one_in_full(self, desk: Heals, workflow: str, one: Reviewed) -> Heal:
        known = self._full.get(one.name)
        if known is not None:
            return Heal(workflow, _with_fact(one, known), known.plan_source, known.plan)
        full = await desk.in_full(workflow, one)
        if full.fact.after is not None:
            if len(self._full) >= FULL_MAX:
                self._full.clear()
            self._full[one.name] = full
        return full


def _with_fact(one: Reviewed, known: Heal) -> Reviewed:
    """As it stands now, with the elements that were read before: they do not change."""
    return Reviewed(known.fact, one.at, one.state, one.word)


def reviews_of(request: Request) -> Reviews:
    found = getattr(request.app.state, "reviews", None)
    if found is None:
        app = house_of(request).app
        found = request.app.state.reviews = Reviews(app.ledger, app.redactor_of, app.world.clock)
    assert isinstance(found, Reviews)
    return found


async def waiting_count(request: Request) -> int:
    """Heals that wait for a word, after a look at what is new."""
    reviews = reviews_of(request)
    await reviews.look()
    return reviews.waiting
