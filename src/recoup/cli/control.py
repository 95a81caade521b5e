"""`control`: what an operator wishes, sent to the driver or carried out here where none lives."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, get_args

import click
import msgspec

from recoup.cli.completing import complete_run, complete_step
from recoup.cli.look import advice_lines, say_below
from recoup.cli.output import json_option, with_app
from recoup.errors import UsageError
from recoup.kernel.advice import Advice
from recoup.kernel.controls import CONTROLS
from recoup.operations import control as operations
from recoup.operations.control import ControlAnswer, ControlRequest, Spelling
from recoup.terminal.writer import print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App

_PATIENCE_S: Final = 60
_SPELLING: Final = Spelling(
    needs_step="--step STEP",
    needs_answer="--as {}",
    answer="--as",
    force="--force",
    lists_steps="List them: recoup ledger RUN",
    shows_step="; recoup show names it.",
    leave_out="Say {} without it.",
)


def _table() -> str:
    """Every control and what it does; neighbours that do the same share a line."""
    lines = []
    for summary, kinds in groupby(CONTROLS.values(), lambda kind: kind.summary):
        lines.append(f"{', '.join(kind.name for kind in kinds):<18}{summary}")
    return "\n".join(lines)


_HELP: Final = f"""Steer RUN from outside; its driver answers within a second, and where none lives it is done here.

\b
{_table()}

\b
Examples:
  recoup control last pause --reason "the database is being moved"
  recoup control last takeover --reason "I will fix the test by hand"
  recoup control last cancel --reason "wrong branch"
  recoup control last hard_reset_step --dry-run
  recoup control last settle --step pay --as done --reason "the bank shows it"
"""


@click.command(help=_HELP)
@click.argument("run_name", metavar="RUN", shell_complete=complete_run)
@click.argument("action", metavar="ACTION", type=click.Choice(list(CONTROLS)))
@click.option("--reason", help="Why; it is recorded. Needed but with --dry-run.")
@click.option("--step", metavar="STEP", shell_complete=complete_step, help="The step that is meant.")
@click.option(
    *("--as", "answer"),
    type=click.Choice(get_args(operations.ControlAnswerName)),
    help=f"For {' and '.join(operations.answering_kinds())}: what you found.",
)
@click.option("--force", is_flag=True, help=f"{operations.beyond_words()} too.")
@click.option("--dry-run", is_flag=True, help="Only say whether it is possible now, and what it would do.")
@click.option("--id", "control_id", metavar="ID", help="Sending the same id again changes nothing.")
@json_option
@click.pass_context
def control(
    ctx: click.Context,
    run_name: str,
    action: str,
    reason: str | None,
    step: str | None,
    answer: str | None,
    force: bool,
    dry_run: bool,
    control_id: str | None,
    as_json: bool,
) -> None:
    request = ControlRequest(
        run_id=run_name,
        action=action,
        reason=reason or "",
        actor=local_user(),
        step_id=step,
        answer=answer,
        force=force,
        id=control_id,
    )
    _must_make_sense(request)
    if not dry_run and not request.reason.strip():
        missing = "is needed" if reason is None else "is empty"
        raise UsageError(f"--reason {missing}", hint="Say why in a few words; it is recorded.")

    async def work(app: App) -> int:
        found = msgspec.structs.replace(request, run_id=await app.runs.find(run_name))
        await operations.must_have_step(app, found.run_id, step)
        if dry_run:
            return await _foresee(app, found, as_json)
        return _report(await operations.control(app, found, _PATIENCE_S), as_json)

    ctx.exit(with_app(ctx, work, makes_home=False))


def _must_make_sense(request: ControlRequest) -> None:
    mistake = operations.mistake_in(request, _SPELLING)
    if mistake is not None:
        raise UsageError(mistake.message, hint=mistake.hint)


async def _foresee(app: App, request: ControlRequest, as_json: bool) -> int:
    """What it would do, in words or as the API tells it. Exit code 2: it is not possible now."""
    seen = await operations.foresee(app, request)
    if as_json:
        print_json(msgspec.to_builtins(seen))
    else:
        words = "would be accepted" if seen.allowed else f"would be refused: {seen.why}"
        say(f"{request.action} {words}")
        for sentence in seen.scope.words:
            say(f"  {sentence}")
    return 0 if seen.allowed else 2


def _report(answer: ControlAnswer, as_json: bool) -> int:
    run = answer.run
    if answer.outcome is None:
        raise UsageError(
            f"the driver of {run['runId']} has not answered within {_PATIENCE_S} s",
            hint="It will, or its lease runs out; send the same --id again to see.",
        )
    if as_json:
        print_json(msgspec.to_builtins(answer))
    else:
        words = f"{answer.action} {answer.outcome}" + (f": {answer.detail}" if answer.detail else "")
        say(f"{words}; run {run['runId']} is {run['status']}")
        if run["status"] == "waiting":
            say_below("  next:   ", advice_lines([Advice(**one) for one in run["advice"]]))
    return 0 if answer.outcome == operations.ACCEPTED else 2
