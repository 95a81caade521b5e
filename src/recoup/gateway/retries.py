"""A run that has ended, once more: a new one, linked to it, that repeats nothing of what is proven."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import operating_shapes, shapes
from recoup.gateway.answering import document
from recoup.gateway.described import answers
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.routing import new_router

router = new_router("runs")


@router.post("/api/runs/{run_id}/retry", status_code=201, responses=answers(shapes.Submitted, status=201))
async def retry_run(
    request: Request, run_id: str, wanted: Annotated[operating_shapes.RetryRequest, Body()]
) -> Response:
    """As `recoup queue retry`: in the same queue. Asked twice it is one run, and `duplicate` says so."""
    house, actor = house_of(request), principal_of(request).actor
    done = await house.app.retry(await house.run(run_id), by=actor, reason=wanted.reason.strip())
    state = await house.app.state(done.run_id)
    told = {"runId": done.run_id, "queue": state.queue, "duplicate": done.duplicate, "note": done.note}
    place = {"Location": f"/api/runs/{done.run_id}"}
    return document(request, told, status=200 if done.duplicate else 201, headers=place)
