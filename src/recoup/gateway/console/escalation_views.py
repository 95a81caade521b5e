"""What a person can do about an escalation or a request, and why not: values in, words out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from recoup.gateway.access import Principal, Role
from recoup.gateway.console.inbox import Approval, Item
from recoup.kernel.commands import settle_commands
from recoup.kernel.controls.settlement import SETTLE
from recoup.model.run import RunState, RunStatus

LOOKS_ONLY: Final = "A viewer may only look."
_MOVES: Final = {
    "acknowledge": frozenset({"open"}),
    "assign": frozenset({"open", "acknowledged", "assigned"}),
    "resolve": frozenset({"open", "acknowledged", "assigned"}),
}


class Command(msgspec.Struct, frozen=True):
    words: str
    line: str


class Advice(msgspec.Struct, frozen=True):
    """What to do, in a sentence and as commands."""

    words: str
    commands: tuple[Command, ...] = ()
    controls: tuple[str, ...] = ()
    """Of the run, that are possible now."""


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


def advice_for(item: Item, state: RunState | None, possible: Sequence[str]) -> Advice:
    if item.probe_id is not None:
        return _about_a_probe(item, item.probe_id)
    if state is None:
        return Advice("Its run was forgotten: nothing is left to do but to resolve it.")
    return _about_a_run(item, state, tuple(possible))


def _about_a_run(item: Item, state: RunState, possible: tuple[str, ...]) -> Advice:
    run_id = state.run_id
    if state.status is RunStatus.ESCALATED and SETTLE.name in possible:
        words = "Find out whether the step was done, then say so: the run goes on from there, and repeats nothing."
        done, not_done = settle_commands(run_id, str(item.event.get("stepId") or "STEP"))
        commands = [Command("It was done", done), Command("It was not done", not_done)]
    elif state.status is RunStatus.DEAD_LETTER:
        words = "Every delivery was used. Mend the cause, then have it tried once more; what is proven is not repeated."
        commands = [Command("Try it once more", f"recoup queue retry {run_id}")]
    elif state.status.is_terminal:
        words, commands = f"Its run is {state.status}: nothing waits any more.", []
    else:
        words, commands = item.hint or "Look at the run, and decide how it goes on.", []
    commands += [Command("What happened", f"recoup show {run_id}")]
    return Advice(words, tuple(commands), possible)


def _about_a_probe(item: Item, probe_id: str) -> Advice:
    resource = str(item.event.get("resource_id") or "")
    commands = [Command("How it stands", f"recoup probe status --probe {probe_id}")]
    if resource:
        line = f"recoup probe reset-budget {resource} --probe {probe_id} --reason '...'"
        commands.append(Command("Give it its retries back", line))
    words = item.hint or "Its budget is spent: mend the cause, give it its retries back, then act on it."
    return Advice(words, tuple(commands))
