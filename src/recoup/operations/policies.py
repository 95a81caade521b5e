"""The policy in force, and what another one would have decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from recoup.kernel.policies import policy_digest
from recoup.model.events import Event, PolicyGeneration
from recoup.model.ids import POLICY_STREAM
from recoup.operations.events import last_events

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.policy import Policy
    from recoup.simulation.replaying import WhatIf


class WhatIfRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The policy, and the runs that are decided again under it."""

    policy: Policy
    workflow: str | None = None
    since_s: float | None = None
    """Maximum age of a run, in seconds."""
    limit: int | None = None
    """Number of runs at most, the newest."""


async def seen_policy(app: App) -> tuple[Policy, str | None]:
    """The one that a run would begin with, and where it is from. Who only looks makes no generation of their file."""
    return await app.generations.seen()


async def show_policy(app: App) -> dict[str, Any]:
    """The same as a document."""
    policy, source = await seen_policy(app)
    body = msgspec.to_builtins(policy, str_keys=True)
    return {"digest": policy_digest(policy), "source": source, "policy": body}


async def generations(app: App, limit: int) -> tuple[list[Event], dict[str, bytes]]:
    """The newest facts about policies, and the bodies that they name."""
    events, bodies = await last_events(app, POLICY_STREAM, limit), {}
    for event in events:
        if isinstance(event.payload, PolicyGeneration):
            digest = event.payload.policy_digest
            bodies[digest] = await app.ledger.policy_body(digest) or b""
    return events, {digest: body for digest, body in bodies.items() if body}


def policy_problem(app: App) -> str:
    """Why the policy file cannot be used; "" where it can, or where there is none."""
    written = None if app.policy_file is None else app.policy_file.read()
    if written is None or written.policy is not None:
        return ""
    return f"the policy file {app.settings.policy} is not followed: {written.problems}"


async def what_if(app: App, request: WhatIfRequest, enough: Callable[[], bool] = lambda: False) -> WhatIf:
    """What that policy would have decided about recorded runs. Nothing is changed by asking. `enough`: stop here."""
    from recoup.simulation import replaying

    since_us = None
    if request.since_s is not None:
        since_us = app.world.clock.now().wall_us - round(request.since_s * 1e6)
    return await replaying.what_if(
        *(app.ledger, request.policy, policy_digest(request.policy)),
        workflow=request.workflow,
        since_us=since_us,
        runs_max=request.limit or replaying.RUNS_MAX,
        enough=enough,
    )
