"""Workflows: their modes and why, how near they are to their limits, how they went, and what they have learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.errors import NotFound
from recoup.gateway.console.health_charts import heals_chart, recovery_chart, success_chart
from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.console.workflow_views import (
    DURATIONS,
    MODE_MEANS,
    SETTABLE,
    Cause,
    by_care,
    cause_of,
    counters,
    mode_changes,
)
from recoup.gateway.house import house_of
from recoup.gateway.workflows import known as known_workflow
from recoup.model.answers.workflows import ModeDocument
from recoup.model.events import WorkflowModeChanged
from recoup.model.ids import EVERY_WORKFLOW, targets_stream, workflow_stream
from recoup.model.memory import State
from recoup.model.storage import RunFilter, RunRow
from recoup.operations import workflows as operations
from recoup.operations.events import event_at, last_events
from recoup.operations.memory import Change, Learnt, changes
from recoup.operations.memory import learnt as learned
from recoup.operations.policies import seen_policy
from recoup.operations.runs import list_runs
from recoup.operations.workflows import ALL

router = Pages(MenuEntry("/workflows", "Workflows"))
WORKFLOWS_MAX: Final = 500
EVENTS_MAX: Final = 2_000
RUNS_MAX: Final = 500
SHOWN_MAX: Final = 10
CHANGES_MAX: Final = 200
Version = Annotated[str, Query(max_length=100)]


@router.get("/workflows")
async def workflows(request: Request) -> Response:
    app = house_of(request).app
    names = sorted(set(await operations.workflows(app)) - {EVERY_WORKFLOW})
    together = await operations.mode(app, EVERY_WORKFLOW)
    return page(
        *(request, "workflows.html"),
        title="Workflows",
        together=together,
        rows=by_care(await operations.modes(app, names[:WORKFLOWS_MAX])),
        means=MODE_MEANS,
        left_out=max(0, len(names) - WORKFLOWS_MAX),
    )


async def _runs_of(app: App, workflow: str) -> Sequence[RunRow]:
    if workflow == EVERY_WORKFLOW:
        return ()
    return (await list_runs(app, RunFilter(workflow=workflow), RUNS_MAX)).rows


@router.get("/workflows/{name}")
async def workflow(request: Request, name: str) -> Response:
    app = house_of(request).app
    known = await known_workflow(app, name)
    document = await operations.mode(app, known)
    policy, _ = await seen_policy(app)
    events = await last_events(app, workflow_stream(known), EVENTS_MAX)
    rows = await _runs_of(app, known)
    stuck = [row for row in rows if row.status in ("escalated", "dead_letter", "blocked")]
    return page(
        *(request, "workflow.html"),
        title="All workflows together" if name == ALL else name,
        name=name,
        is_all=name == ALL,
        mode=document,
        counters=counters(document, policy),
        causes=await _causes(app, known, document),
        history=mode_changes(events, SHOWN_MAX),
        means=MODE_MEANS,
        settable=SETTABLE,
        durations=DURATIONS,
        quarantine_s=policy.quarantine_duration_s,
        charts=[
            chart
            for chart in (
                success_chart(rows),
                recovery_chart(events),
                heals_chart(await last_events(app, targets_stream(known), EVENTS_MAX)),
            )
            if chart
        ],
        rows=rows[:SHOWN_MAX],
        stuck=stuck[:SHOWN_MAX],
        events_max=EVENTS_MAX,
    )


@router.get("/workflows/{name}/memory")
async def memory(request: Request, name: str, old: Version = "", new: Version = "") -> Response:
    app = house_of(request).app
    known = await known_workflow(app, name)
    if known == EVERY_WORKFLOW:
        raise NotFound(
            "all workflows together have learned nothing: each learns for itself", hint="Choose one."
        )
    learnt = await learned(app, known)
    versions = learnt.versions()
    return page(
        *(request, "memory.html"),
        title=f"What {name} has learned",
        name=name,
        versions=versions,
        current=learnt.memory.version_name,
        learned_since=bool(learnt.memory.learned_since),
        known=changes(State(), learnt.memory.state)[:CHANGES_MAX],
        old=old,
        new=new,
        diff=learnt.diff(old, new or None)[:CHANGES_MAX] if old else None,
        back=_going_back(learnt),
    )


def _going_back(learnt: Learnt) -> list[dict[str, Any]]:
    """For each version: what exactly is taken back by going there."""
    found = []
    for one in learnt.versions():
        gone = changes(learnt.at(one.version_id), learnt.memory.state)
        found.append(
            {"version": one.version_id, "count": len(gone), "words": [_words(change) for change in gone[:5]]}
        )
    return found


def _words(change: Change) -> str:
    return f"{change.kind}: {change.step_id}, {change.element}"


async def _causes(app: App, workflow: str, document: ModeDocument) -> list[Cause]:
    """The events that the last change of mode names, here or in the streams of others."""
    places = [(workflow, seq) for seq in document.causes]
    if document.unreadable is not None:
        return []
    health = await operations.health_of(app, workflow)
    if not places and health.since is not None:
        event = await event_at(app, workflow_stream(workflow), health.since.seq)
        if event is not None and isinstance(event.payload, WorkflowModeChanged):
            told = event.payload.causes_elsewhere
            places = [(other, seq) for other, seqs in told.items() for seq in seqs]
    return [
        cause_of(name, seq, await event_at(app, workflow_stream(name), seq))
        for name, seq in places[-2 * SHOWN_MAX :]
    ]
