"""Probes told to act, by people: one of this ledger at once, as `recoup probe act` does; others when they ask next."""

from __future__ import annotations

import hashlib
import math
import secrets
from typing import Annotated, Final

from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.app import App
from recoup.gateway import operating_shapes
from recoup.gateway.answering import document
from recoup.gateway.asking import ask_first, may_wait, must_ask
from recoup.gateway.described import answers
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.problems import Refused
from recoup.gateway.routing import KEY_HEADER, new_router
from recoup.kernel.approvals import COMMAND
from recoup.kernel.probe_gateway import ORDERS
from recoup.model.answers.inbox import ProbeActed
from recoup.model.probe import Command, CommandKind
from recoup.operations.policies import seen_policy
from recoup.operations.probes import list_probes, tell_probe

router = new_router("probes")
DEADLINE_S: Final = 600
"""A probe elsewhere that does not ask by then refuses it."""


@router.post("/api/probes/{probe_id}/act", responses=may_wait(answers(ProbeActed)))
async def act(
    request: Request, probe_id: str, wanted: Annotated[operating_shapes.ProbeActRequest, Body()]
) -> Response:
    """It counts in the budget like the probe's own actions. `outcome` is accepted or refused, and `rule` says why not;
    a probe elsewhere takes it when it asks next: `ordered`."""
    app = house_of(request).app
    if probe_id in await list_probes(app):
        return await _told(request, probe_id, wanted)
    return await _ordered(request, probe_id, wanted)


async def _told(request: Request, probe_id: str, wanted: operating_shapes.ProbeActRequest) -> Response:
    """One of this ledger: it is told at once, and answers."""
    if await must_ask(request, COMMAND):
        raise Refused(
            *(409, f"approval_required names {COMMAND}, and a probe of this ledger is told at once"),
            hint="Tell it on its machine: recoup probe act",
        )
    app = house_of(request).app
    kind = ORDERS[wanted.action]
    command = Command(
        command_id=_command_id(request),
        kind=kind,
        resource_id=wanted.resource_id,
        action=wanted.action if kind is CommandKind.ACT else None,
        reason=wanted.reason.strip(),
        actor=principal_of(request).actor,
        by_gateway=kind is CommandKind.RESTORE_MODE,
    )
    return document(request, await tell_probe(app, probe_id, command))


async def _ordered(request: Request, probe_id: str, wanted: operating_shapes.ProbeActRequest) -> Response:
    house, reason = house_of(request), wanted.reason.strip()
    asks = await must_ask(request, COMMAND)
    policy, _ = await seen_policy(house.app)
    command = {
        **{"command_id": _command_id(request), "action": wanted.action, "resource_id": wanted.resource_id},
        **{"reason": reason, "actor": principal_of(request).name},
        "deadline_unix": _deadline_unix(house.app, policy.approval_expires_s if asks else DEADLINE_S),
    }
    order = await house.probes.whole_order(probe_id, command)
    if asks:
        waits = await ask_first(request, COMMAND, probe_id, order, reason)
        assert waits is not None, "it was needed a moment ago"
        return waits
    fact = await house.probes.order(order, principal_of(request).actor)
    await house.app.chores.run()
    told = {"command_id": fact.command_id, "outcome": "ordered", "rule": None, "reason": reason}
    return document(request, told)


def _deadline_unix(app: App, within_s: float) -> int:
    """In whole seconds, so that the same request soon after is the same command."""
    return math.ceil((app.world.clock.now().wall_us / 1e6 + within_s) / DEADLINE_S) * DEADLINE_S


def _command_id(request: Request) -> str:
    """The same request under the same key is the same command, even if the book of answers was lost meanwhile."""
    key = request.headers.get(KEY_HEADER)
    if key is None:
        return f"gateway-{secrets.token_hex(16)}"
    said = f"{principal_of(request).token_id}\n{request.url.path}\n{key}"
    return f"gateway-{hashlib.sha256(said.encode()).hexdigest()[:32]}"
