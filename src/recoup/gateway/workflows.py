"""Workflows over HTTP: their modes and what they have learned."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Body, Query
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.gateway import shapes
from recoup.gateway.answering import cut, document, read_cursor
from recoup.gateway.asking import ask_first, may_wait
from recoup.gateway.described import answers
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.routing import new_router
from recoup.gateway.runs import Cursor, Limit
from recoup.kernel.approvals import MODE, ROLLBACK
from recoup.model.answers.workflows import (
    MemoryChange,
    MemoryDiff,
    ModeDocument,
    ModeList,
    Rollback,
    Snapshot,
    Version,
    VersionList,
)
from recoup.model.ids import EVERY_WORKFLOW
from recoup.model.mode import Mode
from recoup.operations import memory, workflows
from recoup.operations.cursor import cursor_of
from recoup.operations.workflows import ALL, ModeRequest, exact_workflow

router = new_router("workflows")


@router.get("/api/workflows", responses=answers(ModeList))
async def list_workflows(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every workflow that has run here, by name, with its mode."""
    app = house_of(request).app
    after = None if cursor is None else read_cursor(cursor, tuple[str])[0]
    names, more = cut(sorted(await workflows.workflows(app)), str, after, limit)
    modes = await workflows.modes(app, names)
    return document(request, ModeList(items=modes, next_cursor=cursor_of(names[-1]) if more else None))


@router.get("/api/workflows/{name}/mode", responses=answers(ModeDocument))
async def show_mode(request: Request, name: str) -> Response:
    """`-` instead of a name: all workflows together."""
    app = house_of(request).app
    return document(request, await workflows.mode(app, await known(app, name)))


@router.post("/api/workflows/{name}/mode", responses=may_wait(answers(ModeDocument)))
async def set_mode(request: Request, name: str, wanted: Annotated[shapes.ModeRequest, Body()]) -> Response:
    """Put a workflow into a mode. `-` instead of a name: all workflows together."""
    app = house_of(request).app
    workflow = await known(app, name)
    waits = await ask_first(request, MODE, name, wanted, wanted.reason.strip())
    if waits is not None:
        return waits
    actor = principal_of(request).actor
    await workflows.set_mode(app, mode_request(workflow, wanted), actor)
    return document(request, await workflows.mode(app, workflow))


def mode_request(workflow: str, wanted: shapes.ModeRequest) -> ModeRequest:
    return ModeRequest(
        workflow=workflow, mode=Mode(wanted.mode), reason=wanted.reason.strip(), for_s=wanted.for_s
    )


@router.get("/api/workflows/{name}/memory", responses=answers(VersionList))
async def list_versions(request: Request, name: str) -> Response:
    """The versions of what it has learned, newest first."""
    app = house_of(request).app
    versions = await memory.versions(app, await known(app, name))
    items = [msgspec.convert(one, Version, from_attributes=True) for one in versions]
    return document(request, VersionList(items=items, next_cursor=None))


@router.get("/api/workflows/{name}/memory/diff", responses=answers(MemoryDiff))
async def diff_versions(
    request: Request,
    name: str,
    old: Annotated[str, Query(max_length=100)],
    new: Annotated[str | None, Query(max_length=100, description="Without it: until now.")] = None,
) -> Response:
    """What was learned between two versions."""
    app = house_of(request).app
    found = await memory.diff(app, await known(app, name), old, new)
    items = [msgspec.convert(one, MemoryChange, from_attributes=True) for one in found]
    return document(request, MemoryDiff(items=items, next_cursor=None))


@router.post("/api/workflows/{name}/memory/snapshot", responses=answers(Snapshot))
async def snapshot(
    request: Request, name: str, wanted: Annotated[shapes.SnapshotRequest, Body()]
) -> Response:
    """Keep what is known now as a version."""
    app, actor = house_of(request).app, principal_of(request).actor
    made = await memory.snapshot(app, await known(app, name), actor, wanted.reason)
    return document(request, Snapshot(version=made))


@router.post("/api/workflows/{name}/memory/rollback", responses=may_wait(answers(Rollback)))
async def rollback(
    request: Request, name: str, wanted: Annotated[shapes.RollbackRequest, Body()]
) -> Response:
    """Take back what was learned after a version: all of it, or nothing."""
    app, actor = house_of(request).app, principal_of(request).actor
    workflow = await known(app, name)
    waits = await ask_first(request, ROLLBACK, name, wanted, wanted.reason.strip())
    if waits is not None:
        return waits
    back = await memory.rollback(app, workflow, wanted.version, actor, wanted.reason)
    return document(request, msgspec.convert(back, Rollback, from_attributes=True))


async def known(app: App, name: str) -> str:
    """`-` is all of them together."""
    return EVERY_WORKFLOW if name == ALL else await exact_workflow(app, name, "GET /api/workflows")
