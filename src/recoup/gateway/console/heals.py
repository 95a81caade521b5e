"""Heals, one after the other and each in full: what was looked for, what was taken, how sure that was, and a word."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Final

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.errors import NotFound, StateError
from recoup.gateway.console.heal_views import (
    FOUND_BY,
    boxes_of,
    candidate_lines,
    changes_of,
    diff_lines,
    heal_line,
    over_picture,
    picture_size,
    resolution_of,
    said_facts,
    sketch,
)
from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.console.reviews import reviews_of, waiting_count
from recoup.gateway.house import house_of
from recoup.kernel.reviewing import HealState
from recoup.model.events import ResolutionDetails, TargetHealed
from recoup.operations.events import run_event_pages
from recoup.operations.evidence import evidence_of
from recoup.operations.heal_acceptance import shown_patch
from recoup.operations.heals import Heal, HealFilter, find_heal, list_heals

router = Pages(MenuEntry("/heals", "Heals", waiting_count))
LISTED_MAX: Final = 25
PICTURES_MAX: Final = 4
Word = Annotated[str, Query(max_length=200)]


@router.get("/heals")
async def heals(
    request: Request,
    workflow: Word = "",
    run: Word = "",
    state: Word = "",
    at: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> Response:
    reviews, chosen = reviews_of(request), HealState(state) if state in set(HealState) else None
    await reviews.look()
    if run:
        listed, more = await _of_run(request, run, workflow, chosen), False
    else:
        known = reviews.newest(workflow or None, chosen)
        listed = await reviews.in_full(known[at : at + LISTED_MAX])
        more = len(known) > at + LISTED_MAX
    return page(
        *(request, "heals.html"),
        title="Heals",
        lines=[heal_line(one) for one in listed],
        found_by=FOUND_BY,
        states=[one.value for one in HealState],
        workflows=reviews.workflows,
        chosen={"workflow": workflow, "run": run, "state": chosen.value if chosen else ""},
        at=at,
        behind=at + LISTED_MAX if more else None,
        before=max(0, at - LISTED_MAX) if at else None,
    )


async def _of_run(request: Request, run: str, workflow: str, state: HealState | None) -> list[Heal]:
    """Of one run also those whose attempts failed afterwards. Of one that is not known: nothing."""
    wanted = HealFilter(workflow=workflow or None, run_id=run, state=state)
    return await list_heals(house_of(request).app, wanted, LISTED_MAX)


@router.get("/heals/{run_id}/{step}/{attempt}")
async def heal(request: Request, run_id: str, step: str, attempt: int) -> Response:
    app = house_of(request).app
    found = await find_heal(app, run_id, step, attempt or None)
    fact = found.fact
    patch, problem = await shown_patch(app, found)
    details = await _details(app, fact)
    boxes, pictures = boxes_of(found), await _pictures(app, found)
    return page(
        *(request, "heal.html"),
        title=f"Heal of {fact.step_id}",
        heal=found,
        line=heal_line(found),
        word=found.reviewed.word,
        reason=fact.reason or "",
        found_by=FOUND_BY.get(fact.found_by, fact.found_by),
        candidates=candidate_lines(found),
        changes=changes_of(found),
        known_before=fact.before is not None,
        facts=said_facts(details),
        pictures=[over_picture(f"/api/evidence/{handle}", size, boxes, _ALT) for handle, size in pictures],
        sketch=sketch(boxes),
        patch=patch,
        patch_lines=diff_lines(patch),
        problem=problem,
        why_not=_why_not(found),
    )


_ALT: Final = (
    "The page before the step acted, with boxes around the element that was taken and the next best one."
)


def _why_not(heal: Heal) -> str:
    word = heal.reviewed.word
    if word is not None:
        return f"{word.by or 'Somebody'} has {word.state.value} it already."
    if heal.fact.after is None:
        return "What was taken is not known any more: its run was forgotten."
    return ""


async def _details(app: App, fact: TargetHealed) -> ResolutionDetails | None:
    """How the attempt looked for its target: page by page, others are answered between two of them."""
    found = None
    async for events in run_event_pages(app, fact.run_id):
        found = resolution_of(events, fact.step_id, fact.attempt) or found
    return found


async def _pictures(app: App, heal: Heal) -> list[tuple[str, tuple[int, int]]]:
    """Handles and sizes; without what was forgotten or lies elsewhere."""
    found: list[tuple[str, Any]] = []
    for handle in heal.fact.evidence[:PICTURES_MAX]:
        with contextlib.suppress(NotFound, StateError):
            found.append((handle, picture_size(await evidence_of(app, handle))))
    return [(handle, size) for handle, size in found if size is not None]
