"""What a worker must be capable of to drive a plan."""

from __future__ import annotations

from recoup.model.plan import Action, AgentAction, BrowserAction, Plan

AGENT = "agent"
BROWSER = "browser"
_NEEDED = {AgentAction: AGENT, BrowserAction: BROWSER}


def needs_of(plan: Plan) -> frozenset[str]:
    """Commands and functions every worker can run; what they call is the business of whoever sets workers up."""
    actions: list[Action] = [step.action for step in plan.steps]
    for step in plan.steps:
        actions += [handler.action for handler in (*step.rescue, *step.on_empty, *step.always)]
    return frozenset(name for kind, name in _NEEDED.items() if any(isinstance(one, kind) for one in actions))
