"""What a person can do about an escalation or a request, and why not: values in, words out."""

from __future__ import annotations

from typing import Final

from recoup.gateway.access import Principal, Role
from recoup.gateway.console.inbox import Approval, Item
from recoup.kernel.advice import Advice, advice
from recoup.model.run import RunState

LOOKS_ONLY: Final = "A viewer may only look."
_MOVES: Final = {
    "acknowledge": frozenset({"open"}),
    "assign": frozenset({"open", "acknowledged", "assigned"}),
    "resolve": frozenset({"open", "acknowledged", "assigned"}),
}


def why_not_move(me: Principal, state: str, move: str) -> str:
    if me.role is not Role.OPERATOR:
        return LOOKS_ONLY
    return "" if state in _MOVES[move] else f"It is {state} already."


def why_not_decide(me: Principal, one: Approval, approves: bool) -> str:
    """Nobody agrees to what they themselves have asked for. What was approved and never carried out may be approved
    again: that only carries it out."""
    if me.role is not Role.OPERATOR:
        return LOOKS_ONLY
    if one.state != "waiting" and not (approves and one.state == "approved"):
        return f"It is {one.state}."
    return "You asked for it: somebody else must decide." if one.token_id == me.token_id else ""


def advice_for(item: Item, state: RunState | None) -> tuple[Advice, ...]:
    if item.probe_id is not None:
        return _about_a_probe(item, item.probe_id)
    if state is None:
        return (Advice("Its run was forgotten: nothing is left to do but to resolve it"),)
    over = (Advice(f"Its run is {state.status}: nothing waits for an answer any more"),)
    happened = Advice("See what happened", f"recoup show {state.run_id}")
    return (*(over if state.status.is_terminal else ()), *advice(state), happened)


def _about_a_probe(item: Item, probe_id: str) -> tuple[Advice, ...]:
    words = item.hint or "Its budget is spent: fix the cause, give it its retries back, then act on it"
    resource = str(item.event.get("resource_id") or "")
    reset = f"recoup probe reset-budget {resource} --probe {probe_id} --reason '...'"
    return (
        Advice(words.rstrip(".")),
        Advice("See how it stands", f"recoup probe status --probe {probe_id}"),
        *((Advice("Give it its retries back", reset),) if resource else ()),
    )
