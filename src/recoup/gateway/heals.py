"""Heals over HTTP: looked through, accepted, rejected. The gateway changes no plan: it says what to change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

from fastapi import Body, Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.damage import read_leniently
from recoup.errors import NotFound, RecoupError, UsageError
from recoup.gateway import shapes
from recoup.gateway.answering import document, page
from recoup.gateway.described import answers, refusals
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.routing import new_router
from recoup.gateway.runs import Limit
from recoup.kernel.reviewing import HealState, Word, heal_document
from recoup.model.answers.workflows import HealAccepted, HealDocument, HealList
from recoup.model.events import RunSubmitted
from recoup.model.ids import run_stream
from recoup.operations.heals import Heal, Heals

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
    desk = desk_of(house.app)
    names = [workflow] if workflow is not None else await desk.workflows()
    if run is not None:
        home = await workflow_of(house.app, await house.run(run))
        names = [home] if home is not None and workflow in (None, home) else []
    found = await desk.newest(names, lambda one: state in (None, one.state), limit, run)
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
    heal = await found_heal(app, run_id, step, attempt)
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
    heal = await found_heal(app, run_id, step, wanted.attempt)
    word = await desk_of(app).accept(heal, principal_of(request).actor, (wanted.reason or "").strip())
    if word is not None and word.state is not HealState.ACCEPTED:
        raise _decided(heal, word)
    await app.chores.run()
    heal = await found_heal(app, run_id, step, wanted.attempt)
    patch, problem = await patch_for(app, heal)
    told = {"heal": heal_document(heal.workflow, heal.reviewed), "patch": patch, "problem": problem}
    return document(request, told)


@router.post("/api/heals/{run_id}/{step}/reject", responses=answers(HealDocument))
async def reject_heal(
    request: Request, run_id: str, step: str, wanted: Annotated[shapes.RejectRequest, Body()]
) -> Response:
    """From now on that element is never taken for that target."""
    app = house_of(request).app
    heal = await found_heal(app, run_id, step, wanted.attempt)
    word = await desk_of(app).reject(heal, principal_of(request).actor, wanted.reason.strip())
    if word is not None and word.state is HealState.ACCEPTED:
        raise _decided(heal, word)
    await app.chores.run()
    heal = await found_heal(app, run_id, step, wanted.attempt)
    return document(request, heal_document(heal.workflow, heal.reviewed))


def desk_of(app: App) -> Heals:
    return Heals(app.ledger, app.redactor_of, app.world.clock)


async def found_heal(app: App, run_id: str, step: str, attempt: int | None) -> Heal:
    desk, home = desk_of(app), await workflow_of(app, run_id)
    return await desk.one(await desk.workflows() if home is None else [home], run_id, step, attempt)


async def workflow_of(app: App, run_id: str) -> str | None:
    """By the first event of the run alone. None: it is not known, or was forgotten."""
    for event in await read_leniently(app.ledger, run_stream(run_id), 0, 1):
        return event.payload.workflow if isinstance(event.payload, RunSubmitted) else None
    return None


async def shown_patch(app: App, heal: Heal) -> tuple[str, str]:
    """For those who only look, too: what the run hides is hidden in it."""
    patch, problem = await patch_for(app, heal)
    redact = (await app.redactor_of(heal.fact.run_id)).redact
    return redact(patch).text, redact(problem).text


async def patch_for(app: App, heal: Heal) -> tuple[str, str]:
    """What accepting it changes in its plan; why there is nothing, in words."""
    from recoup.documents.plan_change import patch_of, read_plan_text, root_of
    from recoup.operations.heal_acceptance import accepted_text

    if heal.plan_source is None:
        return "", "where the plan is was not recorded"
    try:
        policy = (await app.generations.seen())[0]
        before = await asyncio.to_thread(read_plan_text, Path(heal.plan_source), policy)
        after = await asyncio.to_thread(accepted_text, heal, before, policy)
    except RecoupError as error:
        return "", error.message
    patch = patch_of(before, after, root_of(before.path))
    return patch, "" if patch else "the plan says it already"


def _decided(heal: Heal, word: Word) -> UsageError:
    who = f"by {word.by or 'someone'} on {word.at.iso()[:16].replace('T', ' ')}"
    return UsageError(
        f"{heal.name} was {word.state.value} {who}: {word.reason}",
        hint="Nothing was changed. Change the target in the plan by hand if that was wrong.",
    )
