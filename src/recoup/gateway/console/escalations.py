"""What waits for a person: escalations of runs and probes, and what somebody asked to be allowed."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.gateway.access import Principal
from recoup.gateway.console import inbox
from recoup.gateway.console.escalation_views import Advice, advice_for, why_not_approve, why_not_move
from recoup.gateway.console.pages import new_pages, page
from recoup.gateway.house import house_of, principal_of
from recoup.kernel.controls import gate, possible
from recoup.kernel.fold import fold
from recoup.model.events import RunSubmitted
from recoup.model.plan import ApproveAction
from recoup.model.policy import Policy

router = new_pages()
LISTED_MAX: Final = 100
GATES_MAX: Final = 25
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
async def escalations(request: Request, state: Annotated[str, Query(max_length=20)] = "open") -> Response:
    app = house_of(request).app
    chosen = state if state in inbox.STATES else None
    return page(
        *(request, "escalations.html"),
        title="Escalations",
        items=await inbox.items(app, chosen, LISTED_MAX),
        states=(*inbox.STATES, "all"),
        chosen=chosen or "all",
        tabs=TABS,
        limit=LISTED_MAX,
    )


@router.get("/escalations/{escalation_id}")
async def escalation(request: Request, escalation_id: str) -> Response:
    app, me = house_of(request).app, principal_of(request)
    found = await inbox.item(app, escalation_id)
    return page(
        *(request, "escalation.html"),
        title=f"Escalation {found.id}",
        item=found,
        history=await inbox.history(app, found.id),
        advice=await _advice(app, found),
        why_not={move: why_not_move(me, found.state, move) for move in ("acknowledge", "assign", "resolve")},
        address=f"/api/escalations/{found.id}",
    )


async def _advice(app: App, item: inbox.Item) -> Advice:
    """What can be done about it now."""
    if item.run_id is None or not await app.ledger.head(f"run:{item.run_id}"):
        return advice_for(item, None, ())
    state = await app.state(item.run_id)
    return advice_for(item, state, possible(state, Policy()))


@router.get("/approvals")
async def approvals(request: Request) -> Response:
    app, me = house_of(request).app, principal_of(request)
    asked = await inbox.approvals(app, LISTED_MAX)
    return page(
        *(request, "approvals.html"),
        title="Approvals",
        tabs=TABS,
        gates=await _gates(app),
        asked=[(one, _refused(me, one)) for one in asked],
        why_not_gate="" if me.role.value == "operator" else "A viewer may only look.",
    )


def _refused(me: Principal, one: inbox.Approval) -> str:
    return why_not_approve(me, one.asked_by, one.state)


async def _gates(app: App) -> list[Gate]:
    """Runs that have come to a gate, the newest of those that wait."""
    found = []
    for row in await app.ledger.runs(status="waiting", limit=GATES_MAX):
        events = await app.events(row.run_id)
        state = fold(row.run_id, events)
        step, first = gate(state), events[0].payload
        if step is not None and isinstance(first, RunSubmitted):
            message: Any = state.plan.steps[step.index].action
            found.append(
                Gate(
                    run_id=row.run_id,
                    workflow=row.workflow,
                    step_id=step.step_id,
                    message=message.message if isinstance(message, ApproveAction) else "",
                    since_us=row.updated_at_us,
                    submitted_by=first.submitted_by or "",
                    submit_reason=first.submit_reason or "",
                )
            )
    return found
