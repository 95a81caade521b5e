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
from recoup.errors import Conflict, NotFound, UsageError

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.storage import Control

_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_POLL_S = 0.1
_PATIENCE_S = 60


@click.command()
@click.argument("run_name", metavar="RUN")
@click.argument("action", type=click.Choice(["cancel", "settle"]))
@click.option("--reason", required=True, help="Why; it is recorded.")
@click.option("--step", metavar="STEP", help="The step that is meant.")
@click.option("--as", "argument", type=click.Choice(["done", "not-done"]), help="For settle: what you found.")
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
    control_id: str | None,
    as_json: bool,
) -> None:
    """Steer RUN from outside.

    cancel ends it and kills what runs. settle says whether a step whose outcome nobody knows was done.

    \b
    Examples:
      recoup control last cancel --reason "wrong branch"
      recoup control last settle --step pay --as done --reason "the bank shows it"
    """
    if action == "settle" and (argument is None or step is None):
        raise UsageError(
            "settle needs --step STEP and --as done or --as not-done",
            hint="Look whether the step was done first; recoup show names it.",
        )
    if not reason.strip():
        raise UsageError("--reason is empty", hint="Say why in a few words; it is recorded.")

    async def work(app: App) -> int:
        sent = await _send(app, run_name, action, reason, step, argument, control_id)
        answered = await _answered(app, sent)
        return await _report(app, answered, as_json)

    ctx.exit(with_app(ctx, work))


async def _send(
    app: App,
    run_name: str,
    action: str,
    reason: str,
    step: str | None,
    argument: str | None,
    control_id: str | None,
) -> Control:
    from recoup.model.storage import Control

    run_id = await app.find(run_name)
    known = [record.step_id for record in (await app.state(run_id)).steps]
    if step is not None and step not in known:
        raise NotFound(f"run {run_id} has no step {step!r}", hint=f"Its steps: {', '.join(known[:20])}.")
    if control_id is not None and (
        not _ID.fullmatch(control_id) or app.redactor.found_in(control_id.encode())
    ):
        raise UsageError("--id must be 1 to 64 letters, digits, dots, dashes or colons, and no secret")
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
