"""`escalations`: what waits for a person, of runs and of probes, and what somebody does about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.output import json_option, with_app
from recoup.kernel.wording import one_line
from recoup.terminal.moments import minute
from recoup.terminal.writer import note, print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.answers.inbox import Escalation
    from recoup.model.run import RunState
    from recoup.operations.escalations import Moved

_reason_option = click.option("--reason", required=True, help="Why; it is recorded.")


@click.group()
def escalations() -> None:
    """Every decision that was handed to people: list them, take them on, be done with them.

    An escalation of a run is resolved by itself when the run goes on: see `recoup control`.

    \b
    Examples:
      recoup escalations list --state open
      recoup escalations acknowledge esc-1a2b3c4d --reason "I am looking"
      recoup escalations assign esc-1a2b3c4d --to ada --reason "her service"
      recoup escalations resolve dev~dev:api:1 --reason "the certificate was renewed"
    """


@escalations.command("list")
@click.option("--state", type=click.Choice(["open", "acknowledged", "assigned", "resolved"]))
@click.option("--source", type=click.Choice(["run", "probe"]))
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 10_000))
@json_option
@click.pass_context
def list_escalations(
    ctx: click.Context, state: str | None, source: str | None, limit: int, as_json: bool
) -> None:
    """List them, oldest first, and then the runs that wait at a gate.

    With --json a gate has the `source` "gate" and no `id`: `recoup control` answers it.

    \b
    Examples:
      recoup escalations list
      recoup escalations list --state open --source probe --json
    """
    from recoup.kernel.escalations import escalation_document
    from recoup.operations import escalations

    wanted = escalations.EscalationFilter(state=state, source=source)
    with_gates = state in (None, "open") and source in (None, "run")

    async def work(app: App) -> tuple[list[Escalation], list[RunState]]:
        rows, _ = await escalations.list_escalations(app, wanted, limit)
        gates = await escalations.waiting_gates(app, limit) if with_gates else []
        return [escalation_document(row) for row in rows], gates

    found, gates = with_app(ctx, work, makes_home=False)
    if as_json:
        print_json([*found, *(_gate_document(gate) for gate in gates)])
        return
    for one in found:
        say(_line(one))
    for gate in gates:
        say(
            f"{minute((gate.clocks.updated_at or gate.submission.at).iso())}  gate  run {gate.run_id}: {gate.reason}"
        )
    if not found and not gates:
        note("nothing waits for anybody")


def _gate_document(gate: RunState) -> dict[str, Any]:
    """It has no id: `recoup control` answers it, and nothing else."""
    raised = gate.clocks.updated_at or gate.submission.at
    return {
        **{"id": None, "source": "gate", "state": "open", "assignee": None, "reason": gate.reason},
        **{"raisedAt": raised.iso(), "runId": gate.run_id, "probe_id": None, "escalation_id": None},
        "event": None,
    }


@escalations.command()
@click.argument("escalation_id", metavar="ID")
@_reason_option
@json_option
@click.pass_context
def acknowledge(ctx: click.Context, escalation_id: str, reason: str, as_json: bool) -> None:
    """Say that you have seen it.

    \b
    Example:
      recoup escalations acknowledge esc-1a2b3c4d --reason "I am looking"
    """
    from recoup.operations import escalations

    _move(ctx, as_json, lambda app: escalations.acknowledge(app, escalation_id, local_user(), reason))


@escalations.command()
@click.argument("escalation_id", metavar="ID")
@click.option("--to", "assignee", required=True, metavar="NAME", help="Whose it is from now on.")
@_reason_option
@json_option
@click.pass_context
def assign(ctx: click.Context, escalation_id: str, assignee: str, reason: str, as_json: bool) -> None:
    """Give it to somebody.

    \b
    Example:
      recoup escalations assign esc-1a2b3c4d --to ada --reason "her service"
    """
    from recoup.operations import escalations

    _move(ctx, as_json, lambda app: escalations.assign(app, escalation_id, assignee, local_user(), reason))


@escalations.command()
@click.argument("escalation_id", metavar="ID")
@_reason_option
@json_option
@click.pass_context
def resolve(ctx: click.Context, escalation_id: str, reason: str, as_json: bool) -> None:
    """Say that nothing is left to be done. It settles no step: `recoup control` does.

    \b
    Example:
      recoup escalations resolve dev~dev:api:1 --reason "the certificate was renewed"
    """
    from recoup.operations import escalations

    _move(ctx, as_json, lambda app: escalations.resolve(app, escalation_id, local_user(), reason))


def _move(ctx: click.Context, as_json: bool, move: Callable[[App], Awaitable[Moved]]) -> None:
    from recoup.kernel.escalations import escalation_document

    async def work(app: App) -> Escalation:
        moved = await move(app)
        for trouble in moved.troubles:
            note(f"note: {trouble}")
        return escalation_document(moved.row)

    told = with_app(ctx, work, makes_home=False)
    print_json(told) if as_json else say(_line(told))


def _line(one: Escalation) -> str:
    whose = f"run {one.run_id}" if one.source == "run" else f"probe {one.probe_id}"
    state = f"{one.state} to {one.assignee}" if one.state == "assigned" else one.state
    return one_line(f"{minute(one.raised_at)}  {one.id}  {state}  {whose}: {one.reason}")
