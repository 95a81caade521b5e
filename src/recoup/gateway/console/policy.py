"""The policy in force, what it means, where it came from, and what another one would have decided."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.console.menu import MenuEntry
from recoup.gateway.console.pages import Pages, page
from recoup.gateway.console.policy_views import groups, history
from recoup.gateway.house import house_of
from recoup.kernel.policies import policy_digest
from recoup.model.events import PolicyGeneration
from recoup.model.ids import EVERY_WORKFLOW
from recoup.model.policy import Policy
from recoup.operations.policies import generations, policy_problem, seen_policy
from recoup.operations.workflows import workflows as known_workflows

router = Pages(MenuEntry("/policy", "Policy"))
GENERATIONS_MAX: Final = 50
WORKFLOWS_MAX: Final = 500


@router.get("/policy")
async def policy(request: Request) -> Response:
    app = house_of(request).app
    now, source = await seen_policy(app)
    events, bodies = await generations(app, GENERATIONS_MAX)
    workflows = [name for name in sorted(await known_workflows(app)) if name != EVERY_WORKFLOW]
    return page(
        *(request, "policy.html"),
        title="Policy",
        groups=groups(now),
        changed=sum(value.changed for group in groups(now) for value in group.values),
        digest=policy_digest(now),
        source=source,
        problem=app.redactor.redact(policy_problem(app)).text,
        generations=history(events, bodies),
        generation=sum(isinstance(event.payload, PolicyGeneration) for event in events),
        workflows=workflows[:WORKFLOWS_MAX],
        written=_written(now),
    )


def _written(now: Policy) -> str:
    """As a file would say it: what differs from the defaults, to begin with."""
    usual = msgspec.to_builtins(Policy(), str_keys=True)
    said = {
        key: value for key, value in msgspec.to_builtins(now, str_keys=True).items() if value != usual[key]
    }
    lines = [f"{key}: {msgspec.json.encode(value).decode()}" for key, value in said.items()]
    return "\n".join(lines) or "step_max_attempts: 3"
