"""What waits for a second person. Their stream says all; here is only how far it was read.

Deciding is an event that is appended behind exactly what was looked at: of two who decide at once, one does.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from recoup.errors import NotFound, UsageError
from recoup.kernel.approvals import (
    APPROVED,
    DONE,
    Approval,
    Approvals,
    advance_approvals,
    refuse_decision,
    refuse_request,
    state_of,
)
from recoup.kernel.reports import Refusal
from recoup.model.events import (
    ApprovalApproved,
    ApprovalCarriedOut,
    ApprovalRejected,
    ApprovalRequested,
    Payload,
    decode_payload,
)
from recoup.model.ids import APPROVALS_STREAM
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.operations.declining import Declined
from recoup.ports import Clock, Ledger, RedactorOf
from recoup.streams import append_if, pages

if TYPE_CHECKING:
    from recoup.app import App


def approval_desk(app: App) -> ApprovalDesk:
    return ApprovalDesk(app.ledger, app.redactor_of, app.world.clock)


class ApprovalDesk:
    """The requests in one ledger."""

    def __init__(self, ledger: Ledger, redactor_of: RedactorOf, clock: Clock) -> None:
        self._ledger = ledger
        self._redactor_of = redactor_of
        self._clock = clock
        self._folded = Approvals(known={})

    async def all(self) -> list[Approval]:
        """Newest first; as many as are remembered."""
        return list((await self._look()).known.values())[::-1]

    async def find(self, ref: str) -> Approval:
        found = (await self._look()).known.get(ref)
        if found is None:
            raise NotFound(f"there is no request {ref!r} for approval", hint="List them: GET /api/approvals")
        return found

    async def request(self, wanted: ApprovalRequested) -> Approval:
        """Recorded, and nothing else is done. The same `ref` again is the same request."""
        draft = await self._draft(wanted.target, wanted)
        if decode_payload(draft.type, draft.payload.data) != wanted:
            raise UsageError(
                "the request holds a secret, so that it cannot be recorded as it is and wait for approval",
                hint="Keep secrets in the environment of the workers, or in files that only they read.",
            )
        await self._append(wanted.ref, lambda known: self._asked(known, wanted.ref, draft))
        return await self.find(wanted.ref)

    async def wanted(self, approval: Approval) -> ApprovalRequested:
        """What exactly was asked for."""
        (event,) = await self._ledger.read(APPROVALS_STREAM, approval.seq - 1, 1)
        assert isinstance(event.payload, ApprovalRequested), "a request stands where its fold says"
        return event.payload

    async def approve(self, ref: str, token_id: str, by: str, reason: str) -> Approval:
        """From here on it is to be carried out. Raises Declined."""
        fact = ApprovalApproved(ref=ref, by=by, reason=reason, token_id=token_id)
        draft = await self._draft_about(ref, fact)
        await self._append(ref, lambda known: self._decided(known, fact, draft, approves=True))
        return await self.find(ref)

    async def reject(self, ref: str, token_id: str, by: str, reason: str) -> Approval:
        fact = ApprovalRejected(ref=ref, by=by, reason=reason, token_id=token_id)
        draft = await self._draft_about(ref, fact)
        await self._append(ref, lambda known: self._decided(known, fact, draft, approves=False))
        return await self.find(ref)

    async def carried_out(self, ref: str, detail: str) -> tuple[StreamAppend, ...]:
        """To be appended with what it is about: so neither is there without the other. Empty: it was done before."""
        known = await self._look()
        if known.known[ref].said != APPROVED:
            return ()
        fact = ApprovalCarriedOut(ref=ref, outcome=DONE, detail=detail)
        return (StreamAppend(APPROVALS_STREAM, (await self._draft_about(ref, fact),), known.seq),)

    async def tell(self, ref: str, outcome: str, detail: str) -> Approval:
        """What came of it, once."""
        draft = await self._draft_about(ref, ApprovalCarriedOut(ref=ref, outcome=outcome, detail=detail))
        await self._append(ref, lambda known: draft if known.known[ref].said == APPROVED else None)
        return await self.find(ref)

    def _asked(self, known: Approvals, ref: str, draft: Draft) -> Draft | None:
        if ref in known.known:
            return None
        if why := refuse_request(known, self._clock.now()):
            raise Declined(Refusal(409, "full", why), "Decide some of them: GET /api/approvals?state=waiting")
        return draft

    def _decided(
        self, known: Approvals, fact: ApprovalApproved | ApprovalRejected, draft: Draft, approves: bool
    ) -> Draft | None:
        approval, now = known.known[fact.ref], self._clock.now()
        if why := refuse_decision(approval, fact.token_id, now, approves):
            raise Declined(Refusal(409, "state", why))
        return None if state_of(approval, now) == APPROVED else draft

    async def _append(self, ref: str, decide: Callable[[Approvals], Draft | None]) -> None:
        async def attempt() -> None:
            known = await self._look()
            if (draft := decide(known)) is not None:
                part = StreamAppend(APPROVALS_STREAM, (draft,), known.seq)
                await self._ledger.append(Append(at=self._clock.now(), streams=(part,)))

        await append_if(attempt, f"others decide so much that {ref} found no turn")

    async def _look(self) -> Approvals:
        async for page in pages(self._ledger.read, APPROVALS_STREAM, self._folded.seq):
            for event in page:
                advance_approvals(self._folded, event)
        return self._folded

    async def _draft_about(self, ref: str, fact: Payload) -> Draft:
        approval = (await self._look()).known.get(ref)
        return await self._draft(None if approval is None else approval.target, fact)

    async def _draft(self, target: str | None, fact: Payload) -> Draft:
        """Where the target is a run, without what that run hides."""
        return Draft(fact.TYPE, (await self._redactor_of(target)).seal(fact))


def new_ref() -> str:
    return f"apr-{secrets.token_hex(8)}"
