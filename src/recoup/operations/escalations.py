"""The inbox: every escalation of runs and probes, and what people did about it.

A run that goes on ends its escalations by itself: the ledger folds that from the run's own events.
"""

from __future__ import annotations

from typing import Final

from recoup.damage import read_leniently
from recoup.errors import NotFound
from recoup.kernel.escalations import ACKNOWLEDGE, ASSIGN, RESOLVE, refuse_move
from recoup.kernel.reports import Refusal
from recoup.model.events import (
    EscalationAcknowledged,
    EscalationAssigned,
    EscalationPayload,
    EscalationResolved,
    Event,
    decode_payload,
)
from recoup.model.ids import escalation_stream, run_of_stream
from recoup.model.storage import Append, Draft, EscalationRow, StreamAppend
from recoup.operations.declining import Declined
from recoup.ports import Clock, Ledger, RedactorOf
from recoup.streams import append_if

CHANGES_MAX: Final = 1_000
"""Of one escalation."""


class Inbox:
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
        """Somebody has seen it."""
        fact = EscalationAcknowledged(escalation_id=escalation_id, by=by, reason=reason)
        return await self._move(ACKNOWLEDGE, fact)

    async def assign(self, escalation_id: str, assignee: str, by: str, reason: str) -> EscalationRow:
        fact = EscalationAssigned(escalation_id=escalation_id, assignee=assignee, by=by, reason=reason)
        return await self._move(ASSIGN, fact)

    async def resolve(self, escalation_id: str, by: str, reason: str) -> EscalationRow:
        """Somebody says that nothing is left to be done. It settles nothing by itself: controls do."""
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
