"""Probes of this ledger over HTTP: told to act, as `recoup probe act` tells them. Those elsewhere ask by themselves."""

from __future__ import annotations

import hashlib
import secrets
from typing import Annotated, Final

from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import operating_shapes
from recoup.gateway.answering import document
from recoup.gateway.asking import must_ask
from recoup.gateway.described import answers
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.problems import Refused
from recoup.gateway.routing import KEY_HEADER, new_router
from recoup.kernel.approvals import COMMAND
from recoup.model.probe import Command, CommandKind

router = new_router("probes")
_KINDS: Final = {"restore_primary": CommandKind.RESTORE_MODE, "reset_budget": CommandKind.RESET_BUDGET}


@router.post("/api/probes/{probe_id}/act", responses=answers(operating_shapes.ProbeActed))
async def act(
    request: Request, probe_id: str, wanted: Annotated[operating_shapes.ProbeActRequest, Body()]
) -> Response:
    """It counts in the budget like the probe's own actions. `outcome` is accepted or refused; `rule` says why not."""
    if await must_ask(request, COMMAND):
        raise Refused(
            *(
                409,
                f"the policy's approval_required names {COMMAND}, and a probe of this ledger is told at once",
            ),
            hint="Tell it on its machine: recoup probe act",
        )
    app = house_of(request).app
    operators = app.probe_operators()
    kind = _KINDS.get(wanted.action, CommandKind.ACT)
    command = Command(
        command_id=_command_id(request),
        kind=kind,
        resource_id=wanted.resource_id,
        action=wanted.action if kind is CommandKind.ACT else None,
        reason=app.redactor.redact(wanted.reason.strip()).text,
        actor=principal_of(request).actor,
        by_gateway=kind is CommandKind.RESTORE_MODE,
    )
    told = await operators.tell(await operators.find(probe_id), command)
    await app.chores()
    return document(request, told)


def _command_id(request: Request) -> str:
    """The same request under the same key is the same command, even if the book of answers was lost meanwhile."""
    key = request.headers.get(KEY_HEADER)
    if key is None:
        return f"gateway-{secrets.token_hex(16)}"
    said = f"{principal_of(request).token_id}\n{request.url.path}\n{key}"
    return f"gateway-{hashlib.sha256(said.encode()).hexdigest()[:32]}"
