"""The same for many runs, over HTTP: for each of those that are listed, and for no other."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import list_shapes
from recoup.gateway.answering import document
from recoup.gateway.asking import must_ask
from recoup.gateway.described import answers
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.problems import Refused
from recoup.gateway.routing import KEY_HEADER, new_router, sub_key
from recoup.kernel.approvals import SUBMIT
from recoup.kernel.controls.cancellation import CANCEL
from recoup.model.answers.lists import BulkAnswer
from recoup.operations.bulk import BulkRequest, change_many

router = new_router("runs")


@router.post("/api/runs/bulk", responses=answers(BulkAnswer))
async def bulk(request: Request, asked: Annotated[list_shapes.BulkRequest, Body()]) -> Response:
    """Cancel runs, or retry runs that are over: each as if it were asked for alone. Asked again under the same key
    nothing is done twice, even if the first request was cut off half-way."""
    await _must_not_wait(request, asked.action)
    principal, key = principal_of(request), request.headers.get(KEY_HEADER)
    wanted = BulkRequest(
        action=asked.action,
        run_ids=tuple(asked.run_ids),
        reason=asked.reason.strip(),
        actor=principal.actor,
        control_id=lambda run_id: sub_key(principal, key, f"bulk cancel {run_id}"),
        lists_runs="GET /api/runs",
    )
    return document(request, {"items": await change_many(house_of(request).app, wanted)})


async def _must_not_wait(request: Request, action: str) -> None:
    """What a second person must agree to, they agree to one by one."""
    needed = {"cancel": CANCEL.name, "retry": SUBMIT}[action]
    if await must_ask(request, needed):
        raise Refused(
            *(409, f"the policy's approval_required names {needed}: somebody else must agree to each"),
            hint="Ask for each run alone: a control, or POST /api/runs with reuse.",
        )
