"""Families of linked runs, and who may do what must be done once in a family. Written with the events, never later."""

from __future__ import annotations

from collections.abc import Iterable

from recoup.errors import Conflict
from recoup.kernel.deeds import CLAIMING, Claim, GivenBack, claim_of
from recoup.ledger.transacting import Transacting, seq_of
from recoup.model.events import AttemptStarted, Payload, RunSubmitted
from recoup.model.ids import run_stream
from recoup.model.storage import StreamAppend

HEEDED = CLAIMING | {RunSubmitted.TYPE}
"""The types of event that change a row here."""

_RUN = run_stream("")


def claimant(transaction: Transacting, parts: Iterable[StreamAppend]) -> str | None:
    """The other run that has claimed what one of these facts begins."""
    for part in parts:
        for claim in claims_in(part):
            holder = _holder(transaction, part.stream.removeprefix(_RUN), claim)
            if holder is not None:
                return holder
    return None


def claims_in(part: StreamAppend) -> Iterable[Claim]:
    """What its facts begin that must be done once."""
    for draft in part.drafts:
        if draft.type == AttemptStarted.TYPE and isinstance(claim := claim_of(draft.fact()), Claim):
            yield claim


def parents_in(part: StreamAppend) -> Iterable[str]:
    """The runs that those which are submitted here go on from."""
    for draft in part.drafts:
        if draft.type == RunSubmitted.TYPE:
            fact = draft.fact()
            if isinstance(fact, RunSubmitted) and fact.reuse_from is not None:
                yield fact.reuse_from


def refuse_claimed(transaction: Transacting, parts: Iterable[StreamAppend]) -> None:
    """Raises Conflict."""
    holder = claimant(transaction, parts)
    if holder is not None:
        raise Conflict(
            f"a step that must not be repeated was begun in run {holder}, which is linked to this one",
            hint=f"Look there what came of it: recoup show {holder}",
        )


def keep_claims(transaction: Transacting, stream: str, payload: Payload) -> None:
    """For a fact that is an event now. Raises Conflict."""
    if stream.startswith(_RUN):
        if isinstance(payload, RunSubmitted) and payload.reuse_from is not None:
            _require_parent(transaction, payload.reuse_from)
        keep_claim(transaction, stream.removeprefix(_RUN), payload)


def keep_claim(transaction: Transacting, run_id: str, payload: Payload) -> None:
    """Also for one stream after the other, whatever the order of their events was: what a run still claims at its end
    nobody else does."""
    if isinstance(payload, RunSubmitted):
        if payload.reuse_from is not None:
            transaction.add_to_family(run_id, transaction.family_of(payload.reuse_from))
        return
    match claim_of(payload):
        case Claim() as claim:
            for deed in claim.over:
                transaction.give_back(deed.run_id, claim.step_id, deed.start)
            transaction.claim(transaction.family_of(run_id), claim, run_id)
        case GivenBack(step_id, start):
            transaction.give_back(run_id, step_id, start)


def _holder(transaction: Transacting, run_id: str, claim: Claim) -> str | None:
    """None: nobody, the run itself, or one whose deed a person let be done again."""
    found = transaction.claimant(transaction.family_of(run_id), claim)
    if found is None or found[0] == run_id or claim.may_follow(*found):
        return None
    return found[0]


def _require_parent(transaction: Transacting, run_id: str) -> None:
    """Of a run that was forgotten nobody knows what must not be repeated."""
    if seq_of(transaction.last_place(run_stream(run_id))) == 0:
        raise Conflict(
            f"run {run_id}, which this one is to go on from, is not in the ledger (any more)",
            hint="It may have been pruned. Submit the plan without it.",
        )
