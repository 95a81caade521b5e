"""`control`: what an operator wishes, sent to the driver or carried out here where none lives."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import re
import secrets
from typing import TYPE_CHECKING

import click

from recoup.cli.output import json_option, print_json, with_app
from recoup.errors import Conflict, NotFound, SettingsError, StateError, UsageError

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.storage import Control

_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_ACTIONS = (
    *("pause", "resume", "takeover", "retry_step", "hard_reset_step", "resume_from_step"),
    *("approve", "reject", "settle", "cancel"),
)
_POLL_S = 0.1
_PATIENCE_S = 60


@click.command()
@click.argument("run_name", metavar="RUN")
@click.argument("action", type=click.Choice(_ACTIONS))
@click.option("--reason", required=True, help="Why; it is recorded.")
@click.option("--step", metavar="STEP", help="The step that is meant.")
@click.option("--as", "argument", type=click.Choice(["done", "not-done"]), help="For settle: what you found.")
@click.option("--force", is_flag=True, help="For hard_reset_step: beyond the run's resets too.")
@click.option("--id", "control_id", metavar="ID", help="Sending the same id again changes nothing.")
@json_option
@click.pass_context
def control(
    ctx: click.Context,
    run_name: str,
    action: str,
    reason: str,
    step: str | None,
    argument: str | None,
    force: bool,
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
        raise UsageError("--force is for hard_reset_step only")
    if not reason.strip():
        raise UsageError("--reason is empty", hint="Say why in a few words; it is recorded.")

    async def work(app: App) -> int:
        run_id = await app.find(run_name)
        await _must_be_known(app, run_id, step)
        said = "force" if force else argument
        sent = await send(app, run_id, action, reason, step, said, control_id)
        answered = await _answered(app, sent)
        return await _report(app, answered, as_json)

    ctx.exit(with_app(ctx, work))


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
    from recoup.model.storage import Control

    try:
        await app.know_secrets_of(await app.state(run_id))
    except (SettingsError, NotFound, StateError):
        if action != "cancel":  # nobody must be kept from ending a run because its secrets are elsewhere
            raise
    _must_be_an_id(app, control_id)
    wish = Control(
        id=control_id or f"ctl-{secrets.token_hex(8)}",
        run_id=run_id,
        action=action,
        reason=app.redactor.redact(reason).text,
        actor=getpass.getuser(),
        at=app.world.clock.now(),
        step_id=step,
        argument=argument,
    )
    if not await app.ledger.send_control(wish):
        await _must_be_the_same(app, wish)
    return wish


async def _must_be_known(app: App, run_id: str, step: str | None) -> None:
    known = [record.step_id for record in (await app.state(run_id)).steps]
    if step is not None and step not in known:
        raise NotFound(f"run {run_id} has no step {step!r}", hint=f"Its steps: {', '.join(known[:20])}.")


def _must_be_an_id(app: App, control_id: str | None) -> None:
    fits = control_id is None or (
        _ID.fullmatch(control_id) and not app.redactor.found_in(control_id.encode())
    )
    if not fits:
        raise UsageError("--id must be 1 to 64 letters, digits, dots, dashes or colons, and no secret")


async def _must_be_the_same(app: App, wish: Control) -> None:
    """An id that was used before must have meant the same."""
    before = await app.ledger.control(wish.id)
    assert before is not None, "a control that was refused as known is known"
    meant = [(one.run_id, one.action, one.step_id, one.argument) for one in (before, wish)]
    if meant[0] != meant[1]:
        raise UsageError(
            f"--id {wish.id} was used before for another control: {before.action} of run {before.run_id}",
            hint="Leave --id out, or give a new one.",
        )


async def _answered(app: App, sent: Control) -> Control:
    """Wait for the driver's answer; where none lives, be the one who answers."""
    for _ in range(round(_PATIENCE_S / _POLL_S)):
        current = await app.ledger.control(sent.id)
        assert current is not None, "a control that was sent is there"
        if current.outcome is not None:
            return current
        with contextlib.suppress(Conflict):  # its driver was still writing: look again
            await app.carry_out(sent)
        await asyncio.sleep(_POLL_S)
    raise UsageError(
        f"the driver of {sent.run_id} has not answered within {_PATIENCE_S} s",
        hint="It will, or its lease runs out; send the same --id again to see.",
    )


async def _report(app: App, answered: Control, as_json: bool) -> int:
    from recoup.kernel.documents import run_document
    from recoup.model.events import ControlHandled

    state = await app.state(answered.run_id)
    handled = [e.payload for e in await app.events(answered.run_id) if isinstance(e.payload, ControlHandled)]
    detail = next((h.detail for h in reversed(handled) if h.command_id == answered.id), "")
    if as_json:
        print_json(
            {
                "controlId": answered.id,
                "action": answered.action,
                "outcome": answered.outcome,
                "epoch": answered.epoch,
                "detail": detail,
                "run": run_document(state),
            }
        )
    else:
        words = f"{answered.action} {answered.outcome}" + (f": {detail}" if detail else "")
        click.echo(f"{words}; run {state.run_id} is {state.status}")
        if state.status == "waiting":
            click.echo(f"  go on: recoup resume {state.run_id}")
    return 0 if answered.outcome == "accepted" else 2
