"""Before something risky is done: whether a second person must agree to it, and if so, the request that waits."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.answering import document
from recoup.gateway.described import AnswerType, Responses, one_of
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.routing import KEY_HEADER
from recoup.kernel.approvals import approval_document, needs_approval
from recoup.model.answers.inbox import Approval
from recoup.model.events import ApprovalRequested, Pinned
from recoup.operations.approvals import new_ref
from recoup.operations.policies import seen_policy

_NOTHING: Final = Pinned()


def may_wait(responses: Responses, *now: AnswerType) -> Responses:
    """The answers of a route whose request may have to wait for a second person; `now`: or for something else."""
    return {**responses, 202: one_of(Approval, *now)}


async def must_ask(request: Request, action: str) -> bool:
    policy, _ = await seen_policy(house_of(request).app)
    return needs_approval(policy, action)


async def ask_first(
    request: Request,
    action: str,
    target: str,
    wanted: BaseModel | dict[str, Any],
    reason: str,
    pinned: Pinned = _NOTHING,
) -> Response | None:
    """None: nobody else need agree. Otherwise nothing is done but to record what is wanted."""
    if not await must_ask(request, action):
        return None
    house, principal = house_of(request), principal_of(request)
    policy, _ = await seen_policy(house.app)
    body = (
        wanted
        if isinstance(wanted, dict)
        else wanted.model_dump(mode="json", by_alias=True, exclude_unset=True)
    )
    asked = ApprovalRequested(
        ref=_ref(request),
        by=principal.actor,
        reason=reason,
        action=action,
        target=target,
        request=body,
        token_id=principal.token_id,
        expires_s=policy.approval_expires_s,
        pinned=pinned,
    )
    approval = await house.approvals.request(asked)
    await house.app.chores.run()
    told = approval_document(approval, house.app.world.clock.now())
    return document(request, told, status=202, headers={"Location": f"/api/approvals/{approval.ref}"})


def _ref(request: Request) -> str:
    """The same request under the same key is the same one, even if the book of answers was lost meanwhile."""
    key = request.headers.get(KEY_HEADER)
    if key is None:
        return new_ref()
    said = f"{principal_of(request).token_id}\n{request.url.path}\n{key}"
    return f"apr-{hashlib.sha256(said.encode()).hexdigest()[:32]}"
