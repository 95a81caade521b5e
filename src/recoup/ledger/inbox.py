"""Rows of the inbox, whichever database they are from, and how they are made anew from the events."""

from __future__ import annotations

from typing import Any

from recoup.kernel.escalations import STATES, raised, told_id
from recoup.kernel.projection import changes
from recoup.ledger.decoding import fact_of, sound_text, sound_us
from recoup.ledger.queries import queries
from recoup.ledger.transaction import Transaction
from recoup.model.events import Payload, ProbeEscalated, ProbeReported
from recoup.model.instant import Instant
from recoup.model.redacted import restored
from recoup.model.storage import EscalationRow

_Q = queries()


def escalation_row(row: tuple[Any, ...]) -> EscalationRow:
    """The readable parts of a row. An unknown state counts as open, so that a person sees it."""
    number, escalation_id, stream, reason, body, state, assignee, raised_us = row
    return EscalationRow(
        number=number,
        id=sound_text(escalation_id),
        stream=sound_text(stream),
        reason=sound_text(reason),
        body=restored(body if isinstance(body, bytes) else sound_text(body).encode()),
        state=state if state in STATES else STATES[0],
        assignee=None if assignee is None else sound_text(assignee),
        raised_at_us=sound_us(raised_us),
    )


def rebuild_inbox(transaction: Transaction) -> None:
    """In the order in which everything came, so that their order is the same again."""
    transaction.execute(_Q["forget_all_escalations"])
    here: set[tuple[str, str]] = set()
    for stream, *at, kind, raw in transaction.execute(_Q["told_of_escalations"]).fetchall():
        when = Instant(*at)
        payload = fact_of(stream, 0, when, kind, raw)
        if isinstance(payload, ProbeEscalated):
            here.add((stream.partition(":")[2], payload.escalation_id))
        found = None if _is_known(here, stream, payload) else raised(stream, payload, restored(raw))
        if found is not None:
            transaction.add_escalation(found, when)
        for change in changes(stream, when, payload):
            if change.shape.table == "escalations":
                transaction.write_row(change)


def _is_known(here: set[tuple[str, str]], stream: str, payload: Payload) -> bool:
    """A probe whose own ledger this is, too, has said so here before it reported it."""
    if not isinstance(payload, ProbeReported):
        return False
    return (stream.partition(":")[2], told_id(payload) or "") in here
