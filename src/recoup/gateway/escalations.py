"""The inbox over HTTP: what waits for a person, of runs and of probes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import Body, Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import desk_shapes as shapes
from recoup.gateway.answering import Place, document, read_cursor
from recoup.gateway.described import answers
from recoup.gateway.house import House, house_of, principal_of
from recoup.gateway.routing import new_router
from recoup.gateway.runs import Cursor, Limit
from recoup.kernel.escalations import escalation_document, history, merged_count
from recoup.model.answers.inbox import EscalationDocument, EscalationPage
from recoup.model.storage import EscalationRow
from recoup.operations.cursor import cursor_of

router = new_router("escalations")


@router.get("/api/escalations", responses=answers(EscalationPage))
async def list_escalations(
    request: Request,
    state: Literal["open", "acknowledged", "assigned", "resolved"] | None = None,
    source: Annotated[Literal["run", "probe"] | None, Query()] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Oldest first. An escalation of a run is resolved by itself when the run goes on."""
    (after,) = (0,) if cursor is None else read_cursor(cursor, tuple[Place])
    rows = await house_of(request).app.ledger.inbox(
        state=state, of_runs=None if source is None else source == "run", after=after, limit=limit + 1
    )
    behind = cursor_of(rows[limit - 1].number) if len(rows) > limit else None
    return document(
        request, {"escalations": [escalation_document(row) for row in rows[:limit]], "nextCursor": behind}
    )


@router.get("/api/escalations/{escalation_id}", responses=answers(EscalationDocument))
async def show_escalation(request: Request, escalation_id: str) -> Response:
    """One of them, and what people did about it."""
    house = house_of(request)
    return await _whole(request, house, await house.inbox.find(escalation_id))


@router.post("/api/escalations/{escalation_id}/acknowledge", responses=answers(EscalationDocument))
async def acknowledge(
    request: Request, escalation_id: str, wanted: Annotated[shapes.SaidRequest, Body()]
) -> Response:
    """Somebody has seen it."""
    house, actor = house_of(request), principal_of(request).actor
    return await _whole(
        request, house, await house.inbox.acknowledge(escalation_id, actor, wanted.reason.strip())
    )


@router.post("/api/escalations/{escalation_id}/assign", responses=answers(EscalationDocument))
async def assign(
    request: Request, escalation_id: str, wanted: Annotated[shapes.AssignRequest, Body()]
) -> Response:
    """It is somebody's."""
    house, actor = house_of(request), principal_of(request).actor
    row = await house.inbox.assign(escalation_id, wanted.assignee.strip(), actor, wanted.reason.strip())
    return await _whole(request, house, row)


@router.post("/api/escalations/{escalation_id}/resolve", responses=answers(EscalationDocument))
async def resolve(
    request: Request, escalation_id: str, wanted: Annotated[shapes.SaidRequest, Body()]
) -> Response:
    """Nothing is left to be done about it. This settles no step: `POST /api/runs/{run_id}/control` does."""
    house, actor = house_of(request), principal_of(request).actor
    row = await house.inbox.resolve(escalation_id, actor, wanted.reason.strip())
    return await _whole(request, house, row)


async def _whole(request: Request, house: House, row: EscalationRow) -> Response:
    if request.method == "POST":
        await house.app.chores.run()
    said = await house.inbox.said(row.id)
    listed = msgspec.structs.asdict(escalation_document(row))
    return document(request, EscalationDocument(**listed, merged=merged_count(said), history=history(said)))
