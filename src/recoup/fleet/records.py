"""What is recorded of runs, and where their files are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from recoup.damage import following, must_be_understood, read_leniently, readable_part, state_after
from recoup.errors import EventUnreadable, LedgerError, NotFound
from recoup.evidence.run_folder import RunFolder
from recoup.kernel.policies import stored_policy
from recoup.model.events import Event, RunSubmitted
from recoup.model.failure import FailureClass
from recoup.model.ids import run_stream
from recoup.model.instant import Instant
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, Submission, Unreadable
from recoup.model.storage import RunFilter, RunRow
from recoup.ports import Ledger
from recoup.streams import pages

if TYPE_CHECKING:
    from recoup.depot.shipping import Shipping

_EVENTS_PAGE = 1_000
_POLICIES_MAX = 100
_LOOKED_AT_MAX = 5_000
_NAMESAKES_MAX = 20
"""Runs that name this one, in their reasons, and may be newer."""
_STATUSES, _CLASSES = frozenset(RunStatus), frozenset(FailureClass)
_NO_EVENTS = Unreadable(1, RunSubmitted.TYPE, "it is missing, and so are all others of the run")


class Records:
    """The runs of one ledger, with what this home has of them."""

    def __init__(self, ledger: Ledger, home: Path, shipping: Shipping | None) -> None:
        self.ledger = ledger
        self._home = home
        self.named_home = home
        """How messages call the home: people may look at one that is not there yet."""
        self._shipping = shipping
        self._policies: dict[str, Policy] = {}
        """By digest: what a digest names does not change."""
        self.stored_policies: set[str] = set()
        """Digests of policies whose bodies are in the ledger: they go there once, and are never taken out."""
        self._looked_at: dict[str, tuple[int, Unreadable | None]] = {}
        """By run: up to which event all can be read, and the first that cannot."""

    async def state(self, run_id: str) -> RunState:
        """Raises NotFound, EventUnreadable."""
        events = await self.events(run_id)
        if not events:
            raise _unknown_run(run_id)
        return state_after(run_id, events)

    async def shown(self, run_id: str, row: RunRow | None = None) -> RunState:
        """For people to look at, never to act on: where an event cannot be read, the state before it, marked, with the
        status that the run's row has. Raises NotFound."""
        try:
            return await self.state(run_id)
        except EventUnreadable as error:
            whole, unreadable = await self._before(run_id, error)
        except NotFound:
            row = row or await self._row(run_id)
            if row is None:
                raise
            whole, unreadable = (), _NO_EVENTS
        state = state_after(run_id, whole) if whole else _bare_state(run_id)
        state = _as_listed(state, row or await self._row(run_id))
        return replace(state, unreadable=unreadable)

    async def unreadable(self, row: RunRow) -> Unreadable | None:
        """The first event of a listed run that cannot be read. Each event is looked at once."""
        if row.seq == 0:  # its last event is missing
            return (await self.shown(row.run_id, row)).unreadable
        seq, known = self._looked_at.pop(row.run_id, (0, None))
        state: RunState | None = None
        while known is None and seq < row.seq:
            try:
                page = await self.ledger.read(run_stream(row.run_id), seq, _EVENTS_PAGE)
                must_be_understood(page)
                if seq == 0:
                    state = state_after(row.run_id, page)
                elif state is not None:
                    for event in page:
                        state = following(state, event)
            except EventUnreadable as error:
                known = (await self._before(row.run_id, error))[1]
                break
            if not page:
                break
            seq = page[-1].seq
            await asyncio.sleep(0)
        self._looked_at[row.run_id] = (seq, known)
        if len(self._looked_at) > _LOOKED_AT_MAX:
            del self._looked_at[next(iter(self._looked_at))]
        return known

    async def _before(self, run_id: str, error: EventUnreadable) -> tuple[Sequence[Event], Unreadable]:
        """The events before the first that cannot be read, which may be an earlier one than was met, and that one."""
        events = [event for event in await self.shown_events(run_id) if event.seq < error.seq]
        whole, earlier = readable_part(run_id, events)
        first = earlier or error
        return whole, Unreadable(first.seq, first.event_type, first.reason)

    async def _row(self, run_id: str) -> RunRow | None:
        page = await self.ledger.runs(RunFilter(text=run_id), limit=_NAMESAKES_MAX)
        return next((row for row in page.rows if row.run_id == run_id), None)

    async def beginning(self, run_id: str) -> RunState:
        """As it was submitted, from its first event alone: the plan, its steps and the inputs. Raises NotFound."""
        first = await self.ledger.read(run_stream(run_id), 0, 1)
        if not first:
            raise _unknown_run(run_id)
        return state_after(run_id, first)

    async def shown_events(self, run_id: str, after: int = 0) -> list[Event]:
        """All events of a run, those that cannot be read in their place: for people to look at."""
        events: list[Event] = []
        async for page in pages(partial(read_leniently, self.ledger), run_stream(run_id), after):
            events += page
        return events

    async def events(self, run_id: str, after: int = 0) -> list[Event]:
        """All events of a run, in order. Raises EventUnreadable."""
        found: list[Event] = []
        async for page in pages(self.ledger.read, run_stream(run_id), after):
            must_be_understood(page)
            found += page
        return found

    async def find(self, name: str) -> str:
        """A run id from its beginning, or from `last`."""
        if name == "last":
            newest = (await self.ledger.runs(limit=1)).rows
            if newest:
                return newest[0].run_id
            raise NotFound(f"there are no runs yet in {self.named_home}", hint="Start one: recoup run PLAN")
        found = await self.ledger.find_runs(name)
        if name in found:
            return name
        if len(found) == 1:
            return found[0]
        if not found:
            raise NotFound(f"no run begins with {name!r} in {self.named_home}", hint="List them: recoup runs")
        raise NotFound(f"several runs begin with {name!r}: {', '.join(found)}", hint="Give more of the id.")

    def files(self, run_id: str) -> RunFolder:
        return RunFolder(self._home / "runs" / run_id)

    async def fetch_missing(self, run_id: str) -> None:
        if self._shipping is not None:
            await self._shipping.fetch_missing(run_id, self.files(run_id))

    async def policy(self, wanted: str) -> Policy:
        """The policy with this digest."""
        policy = self._policies.get(wanted)
        if policy is None:
            body = await self.ledger.policy_body(wanted)
            if body is None:
                raise LedgerError(
                    f"the policy {wanted} is not in the ledger", hint="The database is damaged."
                )
            try:
                policy = stored_policy(body)
            except msgspec.MsgspecError as error:
                raise _bad_policy(wanted, error) from None
            if len(self._policies) >= _POLICIES_MAX:
                self._policies.clear()
            self._policies[wanted] = policy
        return policy


def _unknown_run(run_id: str) -> NotFound:
    return NotFound(f"there is no run {run_id!r}", hint="List them: recoup runs")


def _bare_state(run_id: str) -> RunState:
    """Of a run whose first event cannot be read."""
    unknown = Instant(0, 0, "")
    return RunState(run_id, "", Plan(name="unreadable", steps=()), Submission(unknown, "", False, ""))


def _as_listed(state: RunState, row: RunRow | None) -> RunState:
    """With what the row of the run says, which was written with its events."""
    if row is None:
        return state
    cls = FailureClass(row.failure_class) if row.failure_class in _CLASSES else None
    return replace(
        state,
        workflow=row.workflow,
        reason=row.reason,
        status=RunStatus(row.status) if row.status in _STATUSES else state.status,
        driver=replace(state.driver, delivery=row.delivery, interrupted=False),
        failure=replace(state.failure, cls=cls),
        submission=replace(state.submission, at=Instant(row.submitted_at_us, 0, "")),
        clocks=replace(state.clocks, updated_at=Instant(row.updated_at_us, 0, "")),
    )


def _bad_policy(digest: str, error: Exception) -> LedgerError:
    return LedgerError(
        f"the policy {digest} in the ledger cannot be read: {error}",
        hint="A newer version of Recoup wrote it, or the database is damaged: upgrade Recoup, or restore a backup.",
    )
