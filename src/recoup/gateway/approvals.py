"""What waits for a second person, over HTTP: listed, decided, and carried out once.

Approving is recorded first. What then is done is known by the request's own name (a control's id, a submission's key, a
command's id) or is written in one transaction with the note that it was done: to approve again after a crash goes on
with it, and does nothing twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Literal

import msgspec
from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.errors import InvalidPlan, UsageError, WorkspaceError
from recoup.gateway import desk_shapes, runs, shapes, workflows
from recoup.gateway.answering import document, page
from recoup.gateway.described import answers
from recoup.gateway.house import House, house_of, principal_of
from recoup.gateway.problems import Refused
from recoup.gateway.routing import new_router
from recoup.gateway.runs import Limit
from recoup.kernel.approvals import (
    APPROVED,
    COMMAND,
    DONE,
    MODE,
    REFUSED,
    ROLLBACK,
    SUBMIT,
    Approval,
    approval_document,
    held_to,
    standing,
    state_of,
)
from recoup.model.answers import inbox as inbox_answers
from recoup.model.answers.inbox import ApprovalDocument, ApprovalList
from recoup.model.events import ApprovalRequested, Pinned
from recoup.model.storage import StreamAppend
from recoup.operations.control import control, must_be_accepted, sent_control
from recoup.operations.memory import rollback
from recoup.operations.recording import run_with_key
from recoup.operations.workflows import set_mode
from recoup.streams import append_if

router = new_router("approvals")
_NOT_POSSIBLE: Final = (UsageError, InvalidPlan, WorkspaceError, Refused)
"""It makes no sense any more, and will not later: the request is over."""
State = Literal["waiting", "approved", "rejected", "expired", "done", "refused"]


@router.get("/api/approvals", responses=answers(ApprovalList))
async def list_approvals(request: Request, state: State | None = None, limit: Limit = 100) -> Response:
    """Newest first; the last 1,000 are remembered."""
    house = house_of(request)
    now = house.app.world.clock.now()
    found = [one for one in await house.approvals.all() if state in (None, state_of(one, now))]
    return page(request, [approval_document(one, now) for one in found[:limit]], None)


@router.get("/api/approvals/{ref}", responses=answers(ApprovalDocument))
async def show_approval(request: Request, ref: str) -> Response:
    """With what exactly was asked for."""
    house = house_of(request)
    return await _whole(request, house, await house.approvals.find(ref))


@router.post("/api/approvals/{ref}/approve", responses=answers(ApprovalDocument))
async def approve(request: Request, ref: str, wanted: Annotated[desk_shapes.SaidRequest, Body()]) -> Response:
    """Agree to it, with another token than it was asked for with; then it is carried out. If that was interrupted,
    approving it again goes on with it."""
    house, who = house_of(request), principal_of(request)
    await house.approvals.find(ref)
    approval = await house.approvals.approve(ref, who.token_id, who.actor, wanted.reason.strip())
    approval = await carry_out(house, approval)
    await house.app.chores.run()
    return await _whole(request, house, approval)


@router.post("/api/approvals/{ref}/reject", responses=answers(ApprovalDocument))
async def reject(request: Request, ref: str, wanted: Annotated[desk_shapes.SaidRequest, Body()]) -> Response:
    """It is not done, for good."""
    house, who = house_of(request), principal_of(request)
    await house.approvals.find(ref)
    approval = await house.approvals.reject(ref, who.token_id, who.actor, wanted.reason.strip())
    await house.app.chores.run()
    return await _whole(request, house, approval)


async def carry_out(house: House, approval: Approval) -> Approval:
    """What was approved, once. What cannot be reached now is left as it is: approving again tries again."""
    if approval.said != APPROVED:
        return approval
    asked = await house.approvals.wanted(approval)
    actor = f"{approval.asked_by}, approved by {approval.decided_by} as {approval.ref}"
    try:
        detail = await _DEEDS.get(asked.action, _control)(house, asked, actor)
    except _NOT_POSSIBLE as error:
        why = (await house.app.redactor_of(asked.target)).redact(str(error)).text
        return await house.approvals.tell(approval.ref, REFUSED, why)
    return await house.approvals.tell(approval.ref, DONE, detail)


async def _control(house: House, asked: ApprovalRequested, actor: str) -> str:
    wanted = shapes.ControlRequest.model_validate(asked.request)
    sent = await sent_control(house.app, asked.ref)
    held = held_to(asked.pinned, asked.action) if sent is None else sent.argument
    request = runs.control_request(asked.target, wanted, actor, asked.ref, held)
    await runs.must_make_sense(house, request)
    if sent is None:
        await _must_stand_there(house, asked)
    answer = await control(house.app, request, runs.PATIENCE_S)
    must_be_accepted(answer)
    return answer.detail or ("sent to its driver" if answer.outcome is None else "")


async def _must_stand_there(house: House, asked: ApprovalRequested) -> None:
    """Where the run stood when it was asked for. To be asked before it is sent: it may itself move the run."""
    now = standing(await house.states.state(asked.target), asked.action)
    if now != asked.pinned:
        raise UsageError(
            f"the run stands elsewhere by now: at {_place(now)}; it was asked for at {_place(asked.pinned)}",
            hint="Ask for it again.",
        )


def _place(pinned: Pinned) -> str:
    anew = f", steps invalidated by then: {pinned.invalidations}" if pinned.invalidations else ""
    return f"{pinned.step_id or 'its end'}, delivery {pinned.delivery}{anew}"


async def _submit(house: House, asked: ApprovalRequested, actor: str) -> str:
    wanted = shapes.RunRequest.model_validate(asked.request)
    key = f"approval:{asked.ref}"
    # Submitted before the gateway was killed: the plan may be another by now, the run is not.
    made = await run_with_key(house.app, asked.target, wanted.dedup_key or key)
    return f"run {made or (await runs.submitted(house, wanted, actor, key, asked)).run_id}"


async def _mode(house: House, asked: ApprovalRequested, actor: str) -> str:
    wanted = shapes.ModeRequest.model_validate(asked.request)
    workflow = await workflows.known(house.app, asked.target)

    async def force(beside: tuple[StreamAppend, ...]) -> None:
        await set_mode(house.app, workflows.mode_request(workflow, wanted), actor, asked.ref, beside)

    return await _with_its_note(house, asked.ref, f"{asked.target} is {wanted.mode}", force)


async def _rollback(house: House, asked: ApprovalRequested, actor: str) -> str:
    wanted = shapes.RollbackRequest.model_validate(asked.request)
    workflow = await workflows.known(house.app, asked.target)

    async def back(beside: tuple[StreamAppend, ...]) -> None:
        await rollback(house.app, workflow, wanted.version, actor, wanted.reason, asked.ref, beside)

    return await _with_its_note(house, asked.ref, f"what {asked.target} learned was taken back", back)


async def _command(house: House, asked: ApprovalRequested, actor: str) -> str:
    fact = await house.probes.order(asked.request, actor, asked.ref)
    return f"command {fact.command_id} waits for probe {asked.target}"


async def _with_its_note(
    house: House, ref: str, detail: str, deed: Callable[[tuple[StreamAppend, ...]], Awaitable[None]]
) -> str:
    """What has no name of its own is written together with the note that it was done."""

    async def attempt() -> str:
        note = await house.approvals.carried_out(ref, detail)
        if note:
            await deed(note)
        return detail

    return await append_if(
        attempt, f"others decide so much that {ref} found no turn", hint="Approve it again."
    )


_DEEDS: Final[dict[str, Callable[[House, ApprovalRequested, str], Awaitable[str]]]] = {
    SUBMIT: _submit,
    MODE: _mode,
    ROLLBACK: _rollback,
    COMMAND: _command,
}
"""By what the policy calls them; everything else is a control."""


async def _whole(request: Request, house: House, approval: Approval) -> Response:
    told = approval_document(approval, house.app.world.clock.now())
    asked = await house.approvals.wanted(approval)
    pinned = inbox_answers.Pinned(**msgspec.structs.asdict(asked.pinned))
    whole = ApprovalDocument(**msgspec.structs.asdict(told), request=asked.request, pinned=pinned)
    return document(request, whole)
