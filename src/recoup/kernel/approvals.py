"""What one person asks for and another must agree to: what needs it, how far each is, and who may decide.

A request waits until somebody with another token decides, or until its time is over. What was approved is carried out
once; if that was interrupted, it is done again under the same names, so that nothing happens twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

import msgspec

from recoup.kernel.controls import CONTROLS
from recoup.kernel.controls.kind import Pin, StepUse
from recoup.kernel.position import current_step, visit
from recoup.model import events as ev
from recoup.model.answers import inbox as answers
from recoup.model.events import Event, Pinned
from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import RunState

MODE, ROLLBACK, SUBMIT, COMMAND = "mode", "memory_rollback", "submit", "probe_command"
APPROVABLE: Final = (
    *(kind.name for kind in CONTROLS.values() if kind.approvable),
    *(MODE, ROLLBACK, SUBMIT, COMMAND),
)
"""What a policy may name in `approval_required`."""
WAITING, APPROVED, REJECTED, EXPIRED, DONE, REFUSED = (
    *("waiting", "approved", "rejected", "expired"),
    *("done", "refused"),
)
STATES: Final = (WAITING, APPROVED, REJECTED, EXPIRED, DONE, REFUSED)
KEPT_MAX: Final = 1_000
"""That are remembered, and so can be listed; those that wait are not forgotten."""
WAITING_MAX: Final = 500


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """One request, without what it asks for exactly: that stands in its event."""

    ref: str
    seq: int
    """Of the event that holds the request."""
    action: str
    target: str
    asked_by: str
    token_id: str
    reason: str
    asked_at: str
    expires_at_us: int
    said: str = WAITING
    decided_by: str | None = None
    decision_reason: str | None = None
    detail: str = ""


class Approvals(msgspec.Struct):
    """A fold of their stream."""

    seq: int = 0
    known: dict[str, Approval] = {}


def needs_approval(policy: Policy, action: str) -> bool:
    return action in policy.approval_required


def is_about_the_current_step(action: str) -> bool:
    """Without a step's name it is about the one at which the run stands."""
    return CONTROLS[action].takes.step is StepUse.CURRENT


def standing(state: RunState, action: str, named: str | None = None) -> Pinned:
    """What a request for a control is held to. What stops a run stops it wherever it is by then."""
    if CONTROLS[action].pin is Pin.ANYWHERE:
        return Pinned()
    step = current_step(state)
    here = None if step is None else step.step_id
    about = named if named is not None and is_about_the_current_step(action) else here
    return Pinned(step_id=about, delivery=state.driver.delivery, invalidations=state.progress.invalidations)


def held_to(pinned: Pinned, action: str) -> str | None:
    """The argument of the control itself: whoever carries it out looks once more, when nobody else can move the run."""
    return visit(pinned.delivery, pinned.invalidations) if CONTROLS[action].pin is Pin.VISIT else None


def advance_approvals(approvals: Approvals, event: Event) -> None:
    if event.seq <= approvals.seq:
        return
    approvals.seq = event.seq
    known = approvals.known
    match event.payload:
        case ev.ApprovalRequested() as asked:
            known[asked.ref] = _asked(asked, event)
        case ev.ApprovalApproved() | ev.ApprovalRejected() as said if said.ref in known:
            state = APPROVED if isinstance(said, ev.ApprovalApproved) else REJECTED
            known[said.ref] = msgspec.structs.replace(
                known[said.ref], said=state, decided_by=said.by, decision_reason=said.reason
            )
        case ev.ApprovalCarriedOut() as out if out.ref in known:
            known[out.ref] = msgspec.structs.replace(known[out.ref], said=out.outcome, detail=out.detail)
        case _:
            pass
    _forget_oldest(known, event.at)


def state_of(approval: Approval, now: Instant) -> str:
    """By the wall clock: days may pass, and machines are started again meanwhile."""
    if approval.said == WAITING and now.wall_us >= approval.expires_at_us:
        return EXPIRED
    return approval.said


def urgent_first(approvals: Iterable[Approval], now: Instant) -> list[Approval]:
    """Those that wait, the first to expire first; those that were approved and not carried out; the others as they
    come."""

    def rank(one: Approval) -> tuple[int, int]:
        state = state_of(one, now)
        return (0, one.expires_at_us) if state == WAITING else (1 if state == APPROVED else 2, 0)

    return sorted(approvals, key=rank)


def refuse_request(approvals: Approvals, now: Instant) -> str | None:
    waiting = sum(state_of(one, now) == WAITING for one in approvals.known.values())
    return f"{waiting} requests wait for approval, which is the limit" if waiting >= WAITING_MAX else None


def refuse_decision(approval: Approval, token_id: str, now: Instant, approves: bool) -> str | None:
    """Why this token cannot decide it now; None: it can. What was approved and never carried out may be approved again:
    that only carries it out."""
    state = state_of(approval, now)
    if state != WAITING and not (approves and state == APPROVED):
        by = f" by {approval.decided_by}" if approval.decided_by else ""
        return f"{approval.ref} is {state}{by}"
    if token_id == approval.token_id:
        return f"{approval.ref} was asked for with this token: somebody else must decide"
    return None


def approval_document(approval: Approval, now: Instant) -> answers.Approval:
    return answers.Approval(
        approval_ref=approval.ref,
        state=cast(answers.ApprovalState, state_of(approval, now)),
        action=approval.action,
        target=approval.target,
        asked_by=approval.asked_by,
        asked_at=approval.asked_at,
        reason=approval.reason,
        expires_at=Instant(approval.expires_at_us, 0, "").iso(),
        decided_by=approval.decided_by,
        decision_reason=approval.decision_reason,
        detail=approval.detail,
    )


def _asked(asked: ev.ApprovalRequested, event: Event) -> Approval:
    return Approval(
        ref=asked.ref,
        seq=event.seq,
        action=asked.action,
        target=asked.target,
        asked_by=asked.by,
        token_id=asked.token_id,
        reason=asked.reason,
        asked_at=event.at.iso(),
        expires_at_us=event.at.plus_s(asked.expires_s).wall_us,
    )


def _forget_oldest(known: dict[str, Approval], now: Instant) -> None:
    over = [ref for ref, one in known.items() if state_of(one, now) not in (WAITING, APPROVED)]
    for ref in over[: max(0, len(known) - KEPT_MAX)]:
        del known[ref]
