"""The inbox: every escalation of runs and probes, and what people did about it.

A run that goes on ends its escalations by itself: the ledger folds that from the run's own events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from recoup.damage import read_leniently
from recoup.errors import NotFound
from recoup.kernel.escalations import (
    ACKNOWLEDGE,
    ASSIGN,
    RESOLVE,
    escalation_document,
    history,
    merged_count,
    refuse_move,
)
from recoup.kernel.reports import Refusal
from recoup.model.answers.inbox import EscalationDocument
from recoup.model.events import (
    EscalationAcknowledged,
    EscalationAssigned,
    EscalationPayload,
    EscalationResolved,
    Event,
    decode_payload,
)
from recoup.model.ids import escalation_stream, run_of_stream
from recoup.model.run import RunState
from recoup.model.storage import Append, Draft, EscalationRow, RunFilter, StreamAppend
from recoup.operations.declining import Declined
from recoup.ports import Clock, Ledger, RedactorOf
from recoup.streams import append_if

if TYPE_CHECKING:
    from recoup.app import App

CHANGES_MAX: Final = 1_000
"""Of one escalation."""


class EscalationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which of them are meant."""

    state: str | None = None
    """open | acknowledged | assigned | resolved."""
    source: str | None = None
    """run | probe."""


class Moved(msgspec.Struct, frozen=True):
    """An escalation that was acknowledged, assigned or resolved."""

    row: EscalationRow
    troubles: list[str]
    """What went wrong beside it, in words."""


async def list_escalations(
    app: App, wanted: EscalationFilter, limit: int, after: int = 0
) -> tuple[list[EscalationRow], int | None]:
    """Oldest first, behind the number `after`; and the number of the last one, if there are more."""
    of_runs = None if wanted.source is None else wanted.source == "run"
    rows = await app.ledger.inbox(state=wanted.state, of_runs=of_runs, after=after, limit=limit + 1)
    return rows[:limit], rows[limit - 1].number if len(rows) > limit else None


async def open_count(app: App, limit: int) -> int:
    """At most `limit`."""
    return len(await app.ledger.inbox(state="open", limit=limit))


async def find_escalation(app: App, escalation_id: str) -> EscalationRow:
    """Raises NotFound."""
    return await _inbox(app).find(escalation_id)


async def said_about(app: App, escalation_id: str) -> list[Event]:
    """What people did about it."""
    return await _inbox(app).said(escalation_id)


async def show_escalation(app: App, row: EscalationRow) -> EscalationDocument:
    said = await said_about(app, row.id)
    listed = msgspec.structs.asdict(escalation_document(row))
    return EscalationDocument(**listed, merged=merged_count(said), history=history(said))


async def acknowledge(app: App, escalation_id: str, actor: str, reason: str) -> Moved:
    """Records that a person has seen it."""
    return await _moved(app, lambda inbox: inbox.acknowledge(escalation_id, actor, reason))


async def assign(app: App, escalation_id: str, assignee: str, actor: str, reason: str) -> Moved:
    """Gives it to a person."""
    return await _moved(app, lambda inbox: inbox.assign(escalation_id, assignee, actor, reason))


async def resolve(app: App, escalation_id: str, actor: str, reason: str) -> Moved:
    """Records that nothing is left to be done about it. It settles no step: controls do."""
    return await _moved(app, lambda inbox: inbox.resolve(escalation_id, actor, reason))


async def waiting_gates(app: App, limit: int) -> list[RunState]:
    """The runs that wait for an answer at a gate, of the newest that wait; oldest first."""
    page = await app.ledger.runs(RunFilter(statuses=("waiting",)), limit=limit)
    states = [await app.runs.shown(row.run_id, row) for row in reversed(page.rows)]
    return [state for state in states if state.status == "waiting" and state.hold.waiting_for == "approval"]


async def _moved(app: App, move: Callable[[Inbox], Awaitable[EscalationRow]]) -> Moved:
    row = await move(_inbox(app))
    return Moved(row, await app.chores.run())


def _inbox(app: App) -> Inbox:
    return Inbox(app.ledger, app.redactor_of, app.world.clock)


class Inbox:
    """The escalations in one ledger."""

    def __init__(self, ledger: Ledger, redactor_of: RedactorOf, clock: Clock) -> None:
        self._ledger = ledger
        self._redactor_of = redactor_of
        self._clock = clock

    async def find(self, escalation_id: str) -> EscalationRow:
        row = await self._ledger.escalation(escalation_id)
        if row is None:
            raise NotFound(
                f"there is no escalation {escalation_id!r}", hint="List them: recoup escalations list"
            )
        return row

    async def said(self, escalation_id: str) -> list[Event]:
        return await read_leniently(self._ledger, escalation_stream(escalation_id), 0, CHANGES_MAX)

    async def acknowledge(self, escalation_id: str, by: str, reason: str) -> EscalationRow:
        """Marks it as seen."""
        fact = EscalationAcknowledged(escalation_id=escalation_id, by=by, reason=reason)
        return await self._move(ACKNOWLEDGE, fact)

    async def assign(self, escalation_id: str, assignee: str, by: str, reason: str) -> EscalationRow:
        fact = EscalationAssigned(escalation_id=escalation_id, assignee=assignee, by=by, reason=reason)
        return await self._move(ASSIGN, fact)

    async def resolve(self, escalation_id: str, by: str, reason: str) -> EscalationRow:
        """Closes it: nothing is left to do. It settles no step; controls do that."""
        return await self._move(
            RESOLVE, EscalationResolved(escalation_id=escalation_id, by=by, reason=reason)
        )

    async def _move(self, move: str, fact: EscalationPayload) -> EscalationRow:
        async def attempt() -> EscalationRow:
            stream = escalation_stream(fact.escalation_id)
            seq = await self._ledger.head(stream)  # first: what comes after it is a conflict
            row = await self.find(fact.escalation_id)
            if (why := refuse_move(row, move)) or (why := _full(row, seq)):
                raise Declined(Refusal(409, "state", why))
            stored = (await self._redactor_of(run_of_stream(row.stream))).seal(fact)
            draft = Draft(fact.TYPE, stored, decode_payload(fact.TYPE, stored.data))
            part = StreamAppend(stream, (draft,), seq)
            await self._ledger.append(Append(at=self._clock.now(), streams=(part,)))
            return await self.find(fact.escalation_id)

        return await append_if(attempt, f"others change escalation {fact.escalation_id} all the time")


def _full(row: EscalationRow, changes: int) -> str:
    return (
        f"escalation {row.id} was changed {changes} times, which is the limit"
        if changes >= CHANGES_MAX
        else ""
    )
