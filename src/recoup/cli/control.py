"""`control`: what an operator wishes, sent to the driver or carried out here where none lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from recoup.cli.completing import complete_run, complete_step
from recoup.cli.output import json_option, with_app
from recoup.errors import UsageError
from recoup.terminal.writer import print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.storage import Control

_ACTIONS = (
    *("pause", "resume", "takeover", "retry_step", "hard_reset_step", "resume_from_step"),
    *("approve", "reject", "settle", "cancel"),
)
_PATIENCE_S = 60


@click.command()
@click.argument("run_name", metavar="RUN", shell_complete=complete_run)
@click.argument("action", metavar="ACTION", type=click.Choice(_ACTIONS))
@click.option("--reason", help="Why; it is recorded. Needed but with --dry-run.")
@click.option("--step", metavar="STEP", shell_complete=complete_step, help="The step that is meant.")
@click.option("--as", "argument", type=click.Choice(["done", "not-done"]), help="For settle: what you found.")
@click.option("--force", is_flag=True, help="For hard_reset_step: beyond the run's resets too.")
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
    argument: str | None,
    force: bool,
    dry_run: bool,
    control_id: str | None,
    as_json: bool,
) -> None:
    """Steer RUN from outside; its driver answers within a second, and where none lives it is done here.

    \b
    pause             before the next attempt
    resume            after a pause or a takeover
    takeover          stop the attempt and work in the workspace yourself; what you change there is kept
    retry_step        try the step at which the run stands again, at once
    hard_reset_step   the same in a workspace restored from the last checkpoint
    resume_from_step  go back to a step (only while paused); what came after it is done again
    approve, reject   at a gate
    settle            say whether a step whose outcome nobody knows was done
    cancel            end the run and kill what runs

    \b
    Examples:
      recoup control last pause --reason "the database is being moved"
      recoup control last takeover --reason "I will fix the test by hand"
      recoup control last cancel --reason "wrong branch"
      recoup control last hard_reset_step --dry-run
      recoup control last settle --step pay --as done --reason "the bank shows it"
    """
    if action == "settle" and (argument is None or step is None):
        raise UsageError(
            "settle needs --step STEP and --as done or --as not-done",
            hint="Look whether the step was done first; recoup show names it.",
        )
    if action == "resume_from_step" and step is None:
        raise UsageError("resume_from_step needs --step STEP", hint="List them: recoup ledger RUN")
    if force and action != "hard_reset_step":
        raise UsageError("--force is for hard_reset_step only", hint=f"Say {action} without it.")
    if argument is not None and action != "settle":
        raise UsageError("--as is for settle only", hint=f"Say {action} without it.")
    if not dry_run and not (reason or "").strip():
        missing = "is needed" if reason is None else "is empty"
        raise UsageError(f"--reason {missing}", hint="Say why in a few words; it is recorded.")

    async def work(app: App) -> int:
        from recoup.steering import must_have_step

        run_id = await app.runs.find(run_name)
        await must_have_step(app, run_id, step)
        said = "force" if force else argument
        if dry_run:
            return await _foresee(app, run_id, action, step, said, as_json)
        sent = await send(app, run_id, action, reason or "", step, said, control_id)
        answered = await _answered(app, sent)
        return await _report(app, answered, as_json)

    ctx.exit(with_app(ctx, work, makes_home=False))


async def send(
    app: App,
    run_id: str,
    action: str,
    reason: str,
    step: str | None = None,
    argument: str | None = None,
    control_id: str | None = None,
) -> Control:
    """Into the run's inbox; whoever drives it, or the next who does, will answer."""
    from recoup import steering

    wish = steering.Wish(
        run_id=run_id,
        action=action,
        reason=reason,
        actor=local_user(),
        step_id=step,
        argument=argument,
        id=control_id,
    )
    return await steering.send(app, wish)


async def _foresee(
    app: App, run_id: str, action: str, step: str | None, argument: str | None, as_json: bool
) -> int:
    """What it would do, in words or as the API tells it. Exit code 2: it is not possible now."""
    import msgspec

    seen = await app.driving.foresee(run_id, action, step, argument)
    if as_json:
        print_json(msgspec.to_builtins(seen))
    else:
        say(f"{action} would be accepted" if seen.allowed else f"{action} would be refused: {seen.why}")
        for sentence in seen.scope.words:
            say(f"  {sentence}")
    return 0 if seen.allowed else 2


async def _answered(app: App, sent: Control) -> Control:
    from recoup.steering import answered

    answer = await answered(app, sent, _PATIENCE_S)
    if answer is not None:
        return answer
    raise UsageError(
        f"the driver of {sent.run_id} has not answered within {_PATIENCE_S} s",
        hint="It will, or its lease runs out; send the same --id again to see.",
    )


async def _report(app: App, answered: Control, as_json: bool) -> int:
    from recoup.cli.look import advice_lines, say_below
    from recoup.kernel.advice import advice
    from recoup.kernel.documents import run_document
    from recoup.steering import detail_of

    state, driven = await app.runs.state(answered.run_id), await app.driving.is_driven(answered.run_id)
    detail = await detail_of(app, answered)
    if as_json:
        print_json(
            {
                "controlId": answered.id,
                "action": answered.action,
                "outcome": answered.outcome,
                "epoch": answered.epoch,
                "detail": detail,
                "run": run_document(state, driven),
            }
        )
    else:
        words = f"{answered.action} {answered.outcome}" + (f": {detail}" if detail else "")
        say(f"{words}; run {state.run_id} is {state.status}")
        if state.status == "waiting":
            say_below("  next:   ", advice_lines(advice(state, driven)))
    return 0 if answered.outcome == "accepted" else 2
