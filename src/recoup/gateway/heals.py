"""Heals over HTTP: looked through, accepted, rejected. The gateway changes no plan: it says what to change."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Body, Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.errors import NotFound, UsageError
from recoup.gateway import shapes
from recoup.gateway.answering import document, page
from recoup.gateway.described import answers, refusals
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.routing import new_router
from recoup.gateway.runs import Limit
from recoup.kernel.reviewing import HealState, Word, heal_document
from recoup.model.answers.workflows import HealAccepted, HealDocument, HealList
from recoup.operations import heals
from recoup.operations.heal_acceptance import patch_for, shown_patch
from recoup.operations.heals import Heal, HealFilter, find_heal

router = new_router("heals")
PATCH: Final = "text/x-diff; charset=utf-8"


@router.get("/api/heals", responses=answers(HealList))
async def list_heals(
    request: Request,
    workflow: Annotated[str | None, Query(max_length=200)] = None,
    run: Annotated[str | None, Query(max_length=200)] = None,
    state: HealState | None = None,
    limit: Limit = 50,
) -> Response:
    """Newest first, at most `limit` of them: what was taken for what, and what became of it."""
    house = house_of(request)
    run_id = None if run is None else await house.run(run)
    wanted = HealFilter(workflow=workflow, run_id=run_id, state=state)
    found = await heals.list_heals(house.app, wanted, limit)
    return page(request, [heal_document(heal.workflow, heal.reviewed) for heal in found], None)


@router.get(
    "/api/heals/{run_id}/{step}/patch",
    responses={200: {"description": "A unified diff.", "content": {PATCH: {}}}, **refusals()},
)
async def show_patch(
    request: Request, run_id: str, step: str, attempt: Annotated[int | None, Query(ge=1)] = None
) -> Response:
    """What accepting this heal changes in its plan, as a file for `git apply`. Nothing is accepted by it."""
    app = house_of(request).app
    heal = await find_heal(app, run_id, step, attempt)
    patch, problem = await shown_patch(app, heal)
    if not patch:
        raise NotFound(
            f"there is no patch for {heal.name}: {problem}", hint="Change the target in the plan by hand."
        )
    headers = {"Content-Disposition": 'attachment; filename="heal.patch"'}
    return Response(patch, 200, headers, PATCH)


@router.post("/api/heals/{run_id}/{step}/accept", responses=answers(HealAccepted))
async def accept_heal(
    request: Request, run_id: str, step: str, wanted: Annotated[shapes.AcceptRequest, Body()]
) -> Response:
    """The workflow remembers the element from now on; the answer says what to change in the plan."""
    app = house_of(request).app
    heal = await find_heal(app, run_id, step, wanted.attempt)
    judged = await heals.accept_heal(app, heal, principal_of(request).actor, (wanted.reason or "").strip())
    if judged.before is not None and judged.before.state is not HealState.ACCEPTED:
        raise _decided(heal, judged.before)
    heal = await find_heal(app, run_id, step, wanted.attempt)
    patch, problem = await patch_for(app, heal)
    told = {"heal": heal_document(heal.workflow, heal.reviewed), "patch": patch, "problem": problem}
    return document(request, told)


@router.post("/api/heals/{run_id}/{step}/reject", responses=answers(HealDocument))
async def reject_heal(
    request: Request, run_id: str, step: str, wanted: Annotated[shapes.RejectRequest, Body()]
) -> Response:
    """From now on that element is never taken for that target."""
    app = house_of(request).app
    heal = await find_heal(app, run_id, step, wanted.attempt)
    judged = await heals.reject_heal(app, heal, principal_of(request).actor, wanted.reason.strip())
    if judged.before is not None and judged.before.state is HealState.ACCEPTED:
        raise _decided(heal, judged.before)
    heal = await find_heal(app, run_id, step, wanted.attempt)
    return document(request, heal_document(heal.workflow, heal.reviewed))


def _decided(heal: Heal, word: Word) -> UsageError:
    who = f"by {word.by or 'someone'} on {word.at.iso()[:16].replace('T', ' ')}"
    return UsageError(
        f"{heal.name} was {word.state.value} {who}: {word.reason}",
        hint="Nothing was changed. Change the target in the plan by hand if that was wrong.",
    )
