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
    from recoup.desk.escalations import Inbox
    from recoup.model.answers.inbox import Escalation
    from recoup.model.run import RunState
    from recoup.model.storage import EscalationRow

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

    async def work(app: App) -> tuple[list[Escalation], list[RunState]]:
        of_runs = None if source is None else source == "run"
        rows = await app.ledger.inbox(state=state, of_runs=of_runs, limit=limit)
        gates = await _gates(app, limit) if state in (None, "open") and source in (None, "run") else []
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


async def _gates(app: App, limit: int) -> list[RunState]:
    """The runs that wait for an answer at a gate."""
    from recoup.model.storage import RunFilter

    page = await app.ledger.runs(RunFilter(statuses=("waiting",)), limit=limit)
    states = [await app.runs.shown(row.run_id, row) for row in reversed(page.rows)]
    return [state for state in states if state.status == "waiting" and state.hold.waiting_for == "approval"]


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
    _move(ctx, as_json, lambda inbox, by: inbox.acknowledge(escalation_id, by, reason))


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
    _move(ctx, as_json, lambda inbox, by: inbox.assign(escalation_id, assignee, by, reason))


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
    _move(ctx, as_json, lambda inbox, by: inbox.resolve(escalation_id, by, reason))


def _move(ctx: click.Context, as_json: bool, move: Callable[[Inbox, str], Awaitable[EscalationRow]]) -> None:
    from recoup.desk.escalations import Inbox
    from recoup.kernel.escalations import escalation_document

    async def work(app: App) -> Escalation:
        row = await move(Inbox(app.ledger, app.redactor_of, app.world.clock), local_user())
        for trouble in await app.chores():
            note(f"note: {trouble}")
        return escalation_document(row)

    told = with_app(ctx, work, makes_home=False)
    print_json(told) if as_json else say(_line(told))


def _line(one: Escalation) -> str:
    whose = f"run {one.run_id}" if one.source == "run" else f"probe {one.probe_id}"
    state = f"{one.state} to {one.assignee}" if one.state == "assigned" else one.state
    return one_line(f"{minute(one.raised_at)}  {one.id}  {state}  {whose}: {one.reason}")
