"""Families of linked runs, and who may do what must be done once in a family. Written with the events, never later."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from recoup.errors import Conflict
from recoup.kernel.deeds import CLAIMING, Claim, GivenBack, claim_of
from recoup.ledger.queries import queries
from recoup.ledger.transaction import Transaction
from recoup.model.events import AttemptStarted, Payload, RunSubmitted
from recoup.model.ids import run_stream
from recoup.model.storage import StreamAppend

HEEDED = CLAIMING | {RunSubmitted.TYPE}
"""The types of event that change a row here."""

_Q = queries()
_RUN = run_stream("")


def claimant(transaction: Transaction, parts: Iterable[StreamAppend]) -> str | None:
    """The other run that has claimed what one of these facts begins."""
    for part in parts:
        for draft in part.drafts:
            if draft.type == AttemptStarted.TYPE and isinstance(claim := claim_of(draft.fact()), Claim):
                holder = _holder(transaction, part.stream.removeprefix(_RUN), claim)
                if holder is not None:
                    return holder
    return None


def refuse_claimed(transaction: Transaction, parts: Iterable[StreamAppend]) -> None:
    """Raises Conflict."""
    holder = claimant(transaction, parts)
    if holder is not None:
        raise Conflict(
            f"a step that must not be repeated was begun in run {holder}, which is linked to this one",
            hint=f"Look there what came of it: recoup show {holder}",
        )


def keep_claims(transaction: Transaction, stream: str, payload: Payload) -> None:
    """For a fact that is an event now."""
    if stream.startswith(_RUN):
        keep_claim(transaction, stream.removeprefix(_RUN), payload)


def keep_claim(transaction: Transaction, run_id: str, payload: Payload) -> None:
    """Also for one stream after the other, whatever the order of their events was: what a run still claims at its end
    nobody else does."""
    if isinstance(payload, RunSubmitted):
        if payload.reuse_from is not None:
            root = family_of(transaction.connection, payload.reuse_from)
            transaction.execute(_Q["add_to_family"], (run_id, root))
        return
    match claim_of(payload):
        case Claim() as claim:
            root = family_of(transaction.connection, run_id)
            row = (root, claim.step_id, claim.args_digest, run_id, claim.start)
            transaction.execute(_Q["claim"], row)
        case GivenBack(step_id, None):
            transaction.execute(_Q["give_back_step"], (run_id, step_id))
        case GivenBack(step_id, start):
            transaction.execute(_Q["give_back_start"], (run_id, step_id, start))


def family_of(connection: sqlite3.Connection, run_id: str) -> str:
    """The run that it goes back to; itself, where it reuses none."""
    row = connection.execute(_Q["family_of"], (run_id,)).fetchone()
    return run_id if row is None else str(row[0])


def family(connection: sqlite3.Connection, run_id: str) -> list[str]:
    root = family_of(connection, run_id)
    return [root, *(member for (member,) in connection.execute(_Q["family"], (root,)).fetchall())]


def _holder(transaction: Transaction, run_id: str, claim: Claim) -> str | None:
    """None: nobody, or the run itself."""
    root = family_of(transaction.connection, run_id)
    row = transaction.execute(_Q["claimant"], (root, claim.step_id, claim.args_digest)).fetchone()
    return None if row is None or row[0] == run_id else str(row[0])
