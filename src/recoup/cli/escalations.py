"""`escalations`: what waits for a person, of runs and of probes, and what somebody does about it."""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.output import json_option, print_json, with_app
from recoup.kernel.wording import one_line

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.desk.escalations import Inbox
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
    """List them, oldest first.

    \b
    Examples:
      recoup escalations list
      recoup escalations list --state open --source probe --json
    """
    from recoup.kernel.escalations import escalation_document

    async def work(app: App) -> list[dict[str, Any]]:
        of_runs = None if source is None else source == "run"
        rows = await app.ledger.inbox(state=state, of_runs=of_runs, limit=limit)
        return [escalation_document(row) for row in rows]

    found = with_app(ctx, work)
    if as_json:
        print_json(found)
        return
    for one in found:
        click.echo(_line(one))
    if not found:
        click.echo("nothing waits for anybody", err=True)


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

    async def work(app: App) -> dict[str, Any]:
        row = await move(Inbox(app.ledger, app.redactor, app.world.clock), getpass.getuser())
        for trouble in await app.chores():
            click.echo(f"note: {trouble}", err=True)
        return escalation_document(row)

    told = with_app(ctx, work)
    print_json(told) if as_json else click.echo(_line(told))


def _line(one: dict[str, Any]) -> str:
    whose = f"run {one['runId']}" if one["source"] == "run" else f"probe {one['probe_id']}"
    state = f"{one['state']} to {one['assignee']}" if one["state"] == "assigned" else one["state"]
    return one_line(f"{one['raisedAt'][:16]}Z  {one['id']}  {state}  {whose}: {one['reason']}")
