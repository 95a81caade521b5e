"""What could be asked of a run now, and what each control would do."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.errors import NotFound
from recoup.gateway.answering import page
from recoup.gateway.described import answers
from recoup.gateway.house import house_of
from recoup.gateway.routing import new_router
from recoup.kernel.preview import previews, previews_of_step, previews_of_unknown_step
from recoup.model.answers.controls import ControlPreviews
from recoup.model.run import RunState

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
    policy, driven = await house.app.driving.shown_policy_of(state), await house.app.driving.is_driven(run_id)
    found = previews(state, policy, driven)
    if step is not None and state.unreadable is not None and not state.steps:
        found += previews_of_unknown_step(state, step)
    elif step is not None:
        found += previews_of_step(state, _index(state, step), policy, driven)
    return page(request, msgspec.to_builtins(found), None)


def _index(state: RunState, step: str) -> int:
    for record in state.steps:
        if record.step_id == step:
            return record.index
    known = ", ".join(record.step_id for record in state.steps[:20])
    raise NotFound(f"run {state.run_id} has no step {step!r}", hint=f"Its steps: {known}.")
