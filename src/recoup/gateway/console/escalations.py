"""What waits for a person: escalations of runs and probes, and what somebody asked to be allowed."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.access import Role
from recoup.gateway.console import inbox
from recoup.gateway.console.escalation_views import (
    LOOKS_ONLY,
    advice_for,
    why_not_decide,
    why_not_move,
)
from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.house import House, house_of, principal_of
from recoup.kernel.advice import hint_of
from recoup.kernel.controls import possible
from recoup.kernel.escalations import history, merged_count
from recoup.kernel.position import gate
from recoup.model.plan import ApproveAction
from recoup.model.run import RunState
from recoup.model.storage import RunFilter, RunRow
from recoup.operations.cursor import PLACE_MAX
from recoup.operations.escalations import said_about
from recoup.operations.events import end_of_run, submission_of
from recoup.operations.policies import seen_policy
from recoup.operations.runs import list_runs

router = Pages(MenuEntry("/escalations", "Escalations", inbox.open_count))
LISTED_MAX: Final = 100
GATES_MAX: Final = 25
"""Runs that wait, and are looked at for one page."""
GATE_EVENTS_MAX: Final = 50_000
"""That are read for it, of all of them together."""
TABS: Final = (("/escalations", "Escalations"), ("/approvals", "Approvals"))


class Gate(msgspec.Struct, frozen=True):
    """A run that waits for a yes or no."""

    run_id: str
    workflow: str
    step_id: str
    message: str
    since_us: int
    submitted_by: str
    submit_reason: str


@router.get("/escalations")
async def escalations(
    request: Request,
    state: Annotated[str, Query(max_length=20)] = "open",
    after: Annotated[int, Query(ge=0, le=PLACE_MAX)] = 0,
) -> Response:
    chosen = state if state in inbox.STATES else None
    found = await inbox.items(house_of(request), chosen, after, LISTED_MAX + 1)
    return page(
        *(request, "escalations.html"),
        title="Escalations",
        items=found[:LISTED_MAX],
        states=(*inbox.STATES, "all"),
        chosen=chosen or "all",
        tabs=TABS,
        after=after,
        behind=found[LISTED_MAX - 1].number if len(found) > LISTED_MAX else None,
    )


@router.get("/escalations/{escalation_id}")
async def escalation(request: Request, escalation_id: str) -> Response:
    house, me = house_of(request), principal_of(request)
    found = await inbox.item(house, escalation_id)
    said, state = await said_about(house.app, found.id), await _state_of_run(house, found)
    policy, _ = await seen_policy(house.app)
    advised = advice_for(found, state)
    return page(
        *(request, "escalation.html"),
        title=f"Escalation {found.id}",
        item=found,
        history=history(said),
        merged=merged_count(said),
        advice=advised,
        hint="" if found.hint.rstrip(".") in hint_of(advised) else found.hint,
        controls=() if state is None else possible(state, policy),
        why_not={move: why_not_move(me, found.state, move) for move in ("acknowledge", "assign", "resolve")},
        address=f"/api/escalations/{quote(found.id, safe='')}",
    )


async def _state_of_run(house: House, item: inbox.Item) -> RunState | None:
    """None: a probe raised it, or its run was forgotten."""
    if item.run_id is None or not await end_of_run(house.app, item.run_id):
        return None
    return await house.states.shown(item.run_id)


@router.get("/approvals")
async def approvals(request: Request) -> Response:
    house, me = house_of(request), principal_of(request)
    asked, (gates, cut) = await inbox.approvals(house, LISTED_MAX), await gates_of(house)
    return page(
        *(request, "approvals.html"),
        title="Approvals",
        path="/escalations",
        tabs=TABS,
        gates=gates,
        gates_cut=cut,
        asked=[(one, why_not_decide(me, one, True), why_not_decide(me, one, False)) for one in asked],
        why_not_gate="" if me.role is Role.OPERATOR else LOOKS_ONLY,
    )


async def gates_of(house: House, events_max: int = GATE_EVENTS_MAX) -> tuple[list[Gate], bool]:
    """Runs that have come to a gate, of the newest that wait; and whether others wait that were not looked at."""
    waiting = await list_runs(house.app, RunFilter(statuses=("waiting",)), GATES_MAX)
    read, found, cut = 0, list[Gate](), waiting.next_cursor is not None
    for row in waiting.rows:
        read += row.seq
        if read > events_max:
            return found, True
        one = await _gate(house, row)
        found += [] if one is None else [one]
    return found, cut


async def _gate(house: House, row: RunRow) -> Gate | None:
    """None: it waits for something else, or was forgotten meanwhile."""
    first = await submission_of(house.app, row.run_id)
    if first is None:
        return None
    state = await house.states.shown(row.run_id)
    step = gate(state)
    if step is None:
        return None
    action = state.plan.steps[step.index].action
    return Gate(
        run_id=row.run_id,
        workflow=row.workflow,
        step_id=step.step_id,
        message=action.message if isinstance(action, ApproveAction) else "",
        since_us=row.updated_at_us,
        submitted_by=first.submitted_by or "",
        submit_reason=first.submit_reason or "",
    )
