"""`mode`: how cautious the runs of a workflow are, and an operator's word about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from recoup.cli.output import json_option, with_app
from recoup.errors import UsageError
from recoup.kernel.wording import one_line
from recoup.terminal.moments import minute, second
from recoup.terminal.writer import note, print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.answers.workflows import ModeDocument
    from recoup.model.mode import Mode

_MODES = ("running", "degraded", "quarantined", "paused")


@click.command()
@click.argument("workflow", required=False)
@click.argument("mode", required=False)
@click.option("--global", "everywhere", is_flag=True, help="All workflows together.")
@click.option("--reason", help="Why; it is recorded.")
@click.option("--for", "lasting", metavar="TIME", help="How long it lasts: 30m, 2h, 1d.")
@json_option
@click.pass_context
def mode(
    ctx: click.Context,
    workflow: str | None,
    mode: str | None,
    everywhere: bool,
    reason: str | None,
    lasting: str | None,
    as_json: bool,
) -> None:
    """Show the mode of WORKFLOW (or of every one that is known), or put it into MODE.

    \b
    running       as ever
    degraded      cautious: nothing is learned, and only what is certain is acted on
    quarantined   nothing begins; ends by itself, with a try
    paused        nothing begins until you say so, or until --for is over

    \b
    Examples:
      recoup mode
      recoup mode invoice-sync
      recoup mode invoice-sync paused --reason "the bank is down" --for 2h
      recoup mode invoice-sync running --reason "mended"
      recoup mode --global paused --reason "moving the database"
    """
    if everywhere:
        workflow, mode = _all_of_them(workflow, mode)
    if mode is None and (reason or lasting):
        raise UsageError("--reason and --for belong to a MODE", hint=f"One of: {', '.join(_MODES)}.")
    wanted, for_s = _wanted(mode), _for_s(lasting)
    if wanted is not None and not (reason or "").strip():
        raise UsageError("--reason is missing", hint="Say why in a few words; it is recorded.")

    async def work(app: App) -> int:
        from recoup.model.ids import EVERY_WORKFLOW
        from recoup.operations import workflows

        if workflow is None:
            return await _list(app, as_json)
        if workflow != EVERY_WORKFLOW:
            await workflows.exact_workflow(app, workflow)
        if wanted is not None:
            request = workflows.ModeRequest(workflow=workflow, mode=wanted, reason=reason or "", for_s=for_s)
            for trouble in await workflows.set_mode(app, request, local_user()):
                note(f"note: {trouble}")
        document = await workflows.mode(app, workflow)
        print_json(document) if as_json else _print(document)
        return 0

    ctx.exit(with_app(ctx, work))


def _all_of_them(workflow: str | None, mode: str | None) -> tuple[str, str | None]:
    from recoup.model.ids import EVERY_WORKFLOW

    if mode is not None:
        raise UsageError(
            "--global is for all workflows: name none", hint="recoup mode --global paused --reason ..."
        )
    return EVERY_WORKFLOW, workflow


def _wanted(mode: str | None) -> Mode | None:
    from recoup.model.mode import Mode

    if mode is None:
        return None
    if mode == "rollback":
        raise UsageError(
            "rollback is not a mode to be put into", hint="It follows when what was learned is taken back."
        )
    if mode not in _MODES:
        raise UsageError(f"no such mode: {mode!r}", hint=f"One of: {', '.join(_MODES)}.")
    return Mode(mode)


def _for_s(lasting: str | None) -> float | None:
    from recoup.shapes.durations import duration_s

    if lasting is None:
        return None
    try:
        return duration_s(lasting)
    except ValueError as error:
        raise UsageError(f"--for {lasting} {error}", hint="For example: --for 2h") from None


async def _list(app: App, as_json: bool) -> int:
    from recoup.operations import workflows

    documents = await workflows.modes(app, await workflows.workflows(app))
    if as_json:
        print_json(documents)
        return 0
    for document in documents:
        until = f" until {minute(document.until)}" if document.until else ""
        row = f"{document.mode:<12} {_name(document)}{until}  {document.reason}"
        say(one_line(row).rstrip())
    if not documents:
        note("no workflow has run here yet")
    return 0


def _print(document: ModeDocument) -> None:
    import msgspec

    say(f"{_name(document)}: {document.mode}" + (" (an operator's word)" if document.forced else ""))
    for label, value in (
        ("why", document.reason),
        ("since", document.since and second(document.since)),
        ("until", document.until and second(document.until)),
    ):
        if value:
            say(one_line(f"  {label:<10} {value}"))
    if document.half_open:
        say("  probing    the quarantine ends when a step passes and restarts when one fails")
    rests = document.mode == "quarantined" and not document.half_open
    counters = msgspec.to_builtins(document.counters)
    counted = "nothing: counting starts again when the quarantine ends" if rests else _counted(counters)
    say(f"  counted    {counted}")
    if document.counters_at_change:
        say(f"  at change  {_counted(document.counters_at_change)}")
    if failure := document.last_failure:
        say(f"  last       {failure.step_id} in {failure.run_id} at {second(failure.at)}")
    learning = "on" if document.learning_enabled else "off"
    say(f"  caution    confidence {document.confidence_floor:g}, learning {learning}")


def _counted(counts: Mapping[str, int]) -> str:
    return (
        f"{counts['stepStreak']} in a row of one step, {counts['failuresInWindow']} in the window, "
        f"{counts['failuresInCount']} of the last {counts['resultsCounted']} step results"
    )


def _name(document: ModeDocument) -> str:
    from recoup.model.ids import EVERY_WORKFLOW

    return "all workflows" if document.workflow == EVERY_WORKFLOW else document.workflow
