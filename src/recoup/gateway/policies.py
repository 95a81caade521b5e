"""Policies over HTTP: what another one would have decided about recorded runs. Nothing is changed by asking."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Final

from fastapi import Body
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import operating_shapes
from recoup.gateway.answering import document
from recoup.gateway.described import answers
from recoup.gateway.house import house_of
from recoup.gateway.routing import new_router
from recoup.model.answers.whatif import WhatIfAnswer
from recoup.operations import policies
from recoup.operations.policies import WhatIfRequest

router = new_router("policies")
WHAT_IF_S_MAX: Final = 8.0


@router.post("/api/policy/what-if", responses=answers(WhatIfAnswer))
async def what_if(request: Request, wanted: Annotated[operating_shapes.WhatIfRequest, Body()]) -> Response:
    """The decisions of the last runs, made again under another policy. 422 lists what is wrong with its text."""
    from recoup.documents.policy_file import parse_policy
    from recoup.simulation.replaying import what_if_document

    policy = await asyncio.to_thread(parse_policy, wanted.policy)  # a long text takes its time
    until_s = time.monotonic() + WHAT_IF_S_MAX
    asked = WhatIfRequest(policy=policy, workflow=wanted.workflow, limit=wanted.limit)
    found = await policies.what_if(house_of(request).app, asked, lambda: time.monotonic() > until_s)
    return document(request, what_if_document(found))
