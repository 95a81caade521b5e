"""`queue`: what waits, for how long, and what was given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from recoup.cli.completing import complete_run
from recoup.cli.output import json_option, with_app
from recoup.kernel.wording import duration, one_line
from recoup.terminal.writer import note, print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def queue(ctx: click.Context, as_json: bool) -> None:
    """Show how many runs wait in each queue, how old the oldest is, what is being driven, and dead letters.

    \b
    Examples:
      recoup queue
      recoup queue --json
      recoup queue retry 20261115-0312
    """
    if ctx.invoked_subcommand is not None:
        return

    from recoup.operations.queues import show_queue

    async def work(app: App) -> None:
        document = await show_queue(app)
        if as_json:
            print_json(document)
        else:
            _print(document)

    with_app(ctx, work, makes_home=False)


@queue.command()
@click.argument("run_name", metavar="RUN", shell_complete=complete_run)
@json_option
@click.pass_context
def retry(ctx: click.Context, run_name: str, as_json: bool) -> None:
    """Submit RUN again: a new run, linked to it, in the same queue. What it has proven is not repeated.

    \b
    Examples:
      recoup queue retry last
      recoup queue retry 20261115-0312 --json
    """

    from recoup.operations import submission

    async def work(app: App) -> None:
        submitted = await submission.retry(app, await app.runs.find(run_name), local_user())
        if as_json:
            print_json({"runId": submitted.run_id, "duplicate": submitted.duplicate})
        else:
            say(submitted.run_id)
        if submitted.duplicate:
            note("note: this is the run that tries it again already")

    with_app(ctx, work, makes_home=False)


def _print(document: dict[str, Any]) -> None:
    if not document["queues"]:
        say("nothing waits, and nothing is driven")
    for one in document["queues"]:
        oldest = f", the oldest for {duration(one['oldestS'])}" if one["oldestS"] is not None else ""
        say(
            f"{one['queue']:<20} {one['waiting']} waiting{oldest}; {one['delayed']} delayed; {one['driven']} driven"
        )
    if document["deadLetters"]:
        say()
        say("dead letters (try one again: recoup queue retry RUN):")
    for one in document["deadLetters"]:
        say(f"  {one['runId']}  {one['workflow']}  {one_line(one['reason'])[:100]}")
    if document["moreDeadLetters"]:
        say("  and more: recoup runs --status dead_letter")
