"""Probes elsewhere over HTTP, as docs/reference/probe-gateway.md says: the bodies are read at the desk, not here, so
that whatever is wrong with them is said in the words that probes know."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Body
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import desk_shapes as shapes
from recoup.gateway.answering import PAGE_MAX, document
from recoup.gateway.asking import ask_first, may_wait, must_ask
from recoup.gateway.described import answers
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.routing import new_router
from recoup.kernel.approvals import COMMAND
from recoup.model.answers.inbox import Acknowledged, Commands, Ordered, Released, Reported
from recoup.operations.declining import malformed

router = new_router("probes")
_NUMBER_MAX: Final = 2**53


def _body(shape: type[BaseModel]) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": shape.model_json_schema()}}}}


def _asked(**described: str) -> dict[str, Any]:
    schemas = {"string": {"type": "string"}, "number": {"type": "number", "minimum": 0}}
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name != "wait_s", "schema": schemas[kind]}
            for name, kind in described.items()
        ]
    }


@router.post("/api/probe/events", responses=answers(Acknowledged), openapi_extra=_body(shapes.EventBatch))
async def take_events(request: Request) -> Response:
    """Events of a probe in order: the whole batch or nothing, once, durable before it is acknowledged."""
    told = await house_of(request).probes.take(await request.body(), principal_of(request).token_id)
    return document(request, {"acknowledged_seq": told})


@router.get(
    "/api/probe/events",
    responses=answers(Reported),
    openapi_extra=_asked(probe_id="string", after="number"),
)
async def list_events(request: Request) -> Response:
    """What a probe has told, behind `after`; 500 at most."""
    probe_id, after = request.query_params.get("probe_id", ""), _number(request, "after", 0)
    found = await house_of(request).probes.events(probe_id, int(after), PAGE_MAX)
    return document(request, {"events": found})


@router.get(
    "/api/probe/commands",
    responses=answers(Commands),
    openapi_extra=_asked(probe_id="string", lease_epoch="number", wait_s="number"),
)
async def list_commands(request: Request) -> Response:
    """What a probe has yet to do or refuse. With `wait_s`, up to 30: waits for something."""
    house, probe_id = house_of(request), request.query_params.get("probe_id", "")
    epoch, wait_s = _number(request, "lease_epoch", None), _number(request, "wait_s", 0)
    token_id = principal_of(request).token_id
    found = await house.probes.waiting(probe_id, int(epoch), wait_s, house.stopping, token_id)
    return document(request, {"commands": found})


@router.post(
    "/api/probe/commands",
    status_code=201,
    responses=may_wait(answers(Ordered, status=201)),
    openapi_extra=_body(shapes.CommandOrder),
)
async def order_command(request: Request) -> Response:
    """Have a probe told; the same command again changes nothing. What became of it stands in its events."""
    body, desk = await request.body(), house_of(request).probes
    if await must_ask(request, COMMAND):
        wanted = desk.read_order(body)
        order = {"probe_id": wanted.probe_id, "command": wanted.command}
        reason = str(wanted.command.get("reason", ""))
        waits = await ask_first(request, COMMAND, wanted.probe_id, order, reason)
        if waits is not None:
            return waits
    fact = await desk.order(body, principal_of(request).actor)
    return document(request, {"commandId": fact.command_id}, status=201)


@router.post("/api/probes/{probe_id}/release", responses=answers(Released))
async def release(request: Request, probe_id: str, wanted: Annotated[shapes.SaidRequest, Body()]) -> Response:
    """A probe belongs to the token that spoke for it first. Released, it belongs to the next, under any lease: when its
    token was changed, or another spoke for it."""
    house = house_of(request)
    await house.probes.release(probe_id, principal_of(request).actor, wanted.reason.strip())
    await house.app.chores.run()
    return document(request, {"probeId": probe_id})


def _number(request: Request, name: str, default: float | None) -> float:
    said = request.query_params.get(name)
    try:
        value = default if said is None else float(said)
    except ValueError:
        value = None
    if value is None or not 0 <= value <= _NUMBER_MAX:
        raise malformed(f"`{name}` must be a number from 0 on")
    return value
