"""The inbox over HTTP: what waits for a person, of runs and of probes."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Body, Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import desk_shapes as shapes
from recoup.gateway.answering import document, read_cursor
from recoup.gateway.described import answers
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.routing import new_router
from recoup.gateway.runs import Cursor, Limit
from recoup.kernel.escalations import escalation_document
from recoup.model.answers.inbox import EscalationDocument, EscalationPage
from recoup.model.storage import EscalationRow
from recoup.operations import escalations
from recoup.operations.cursor import Place, cursor_of
from recoup.operations.escalations import EscalationFilter

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
    wanted = EscalationFilter(state=state, source=source)
    rows, behind = await escalations.list_escalations(house_of(request).app, wanted, limit, after)
    told = {
        "escalations": [escalation_document(row) for row in rows],
        "nextCursor": None if behind is None else cursor_of(behind),
    }
    return document(request, told)


@router.get("/api/escalations/{escalation_id}", responses=answers(EscalationDocument))
async def show_escalation(request: Request, escalation_id: str) -> Response:
    """One of them, and what people did about it."""
    app = house_of(request).app
    return await _whole(request, await escalations.find_escalation(app, escalation_id))


@router.post("/api/escalations/{escalation_id}/acknowledge", responses=answers(EscalationDocument))
async def acknowledge(
    request: Request, escalation_id: str, wanted: Annotated[shapes.SaidRequest, Body()]
) -> Response:
    """Someone has seen it."""
    app, actor = house_of(request).app, principal_of(request).actor
    moved = await escalations.acknowledge(app, escalation_id, actor, wanted.reason.strip())
    return await _whole(request, moved.row)


@router.post("/api/escalations/{escalation_id}/assign", responses=answers(EscalationDocument))
async def assign(
    request: Request, escalation_id: str, wanted: Annotated[shapes.AssignRequest, Body()]
) -> Response:
    """It is somebody's."""
    app, actor = house_of(request).app, principal_of(request).actor
    reason = wanted.reason.strip()
    moved = await escalations.assign(app, escalation_id, wanted.assignee.strip(), actor, reason)
    return await _whole(request, moved.row)


@router.post("/api/escalations/{escalation_id}/resolve", responses=answers(EscalationDocument))
async def resolve(
    request: Request, escalation_id: str, wanted: Annotated[shapes.SaidRequest, Body()]
) -> Response:
    """Nothing is left to be done about it. This settles no step: `POST /api/runs/{run_id}/control` does."""
    app, actor = house_of(request).app, principal_of(request).actor
    moved = await escalations.resolve(app, escalation_id, actor, wanted.reason.strip())
    return await _whole(request, moved.row)


async def _whole(request: Request, row: EscalationRow) -> Response:
    return document(request, await escalations.show_escalation(house_of(request).app, row))
