"""What could be asked of a run now, and what each control would do."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.answering import page
from recoup.gateway.described import answers
from recoup.gateway.house import house_of
from recoup.gateway.routing import new_router
from recoup.model.answers.controls import ControlPreviews
from recoup.operations.control import possible_controls

router = new_router("runs")


@router.get("/api/runs/{run_id}/controls", responses=answers(ControlPreviews))
async def list_controls(
    request: Request,
    run_id: str,
    step: Annotated[
        str | None,
        Query(alias="stepId", max_length=200, description="Also what can be done with this step."),
    ] = None,
) -> Response:
    """Every control: whether it is possible now or why not, and exactly what it would do."""
    house = house_of(request)
    state = await house.states.shown(await house.run(run_id))
    found = await possible_controls(house.app, state, step)
    return page(request, msgspec.to_builtins(found), None)
