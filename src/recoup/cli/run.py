"""`run` and `resume`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from recoup.cli.completing import complete_plan, complete_run, complete_step
from recoup.cli.output import json_option, print_error, settings_of, with_app
from recoup.errors import NotFound, RecoupError, UsageError, about_run
from recoup.terminal.screen import is_in_front
from recoup.terminal.writer import is_terminal, note, print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.engine.driver import Driver
    from recoup.fleet.linked import Reusing
    from recoup.kernel.controls.kind import ControlKind
    from recoup.model.plan import Plan
    from recoup.model.policy import Policy
    from recoup.model.run import RunState
    from recoup.settings import Settings

quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress, only the result.")
input_option = click.option(
    "--input", "inputs", multiple=True, metavar="NAME=VALUE", help="An input of the plan; may be repeated."
)
from_step_option = click.option(
    "--from-step",
    metavar="STEP",
    shell_complete=complete_step,
    help="Perform this step and all after it again, whatever is proven.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Only say what would be reused and what would run, and why."
)
heal_option = click.option(
    "--heal",
    type=click.Choice(["off", "report", "apply"]),
    help="When a target in the browser is not as it was written; no step goes beyond it.",
)


@click.command()
@click.argument("plan", type=click.Path(path_type=Path), shell_complete=complete_plan)
@input_option
@click.option(
    "--reuse", "reuse_name", metavar="RUN", shell_complete=complete_run,
    help="Do not repeat what is proven in this run.",
)  # fmt: skip
@from_step_option
@dry_run_option
@heal_option
@json_option
@quiet_option
@click.pass_context
def run(
    ctx: click.Context,
    plan: Path,
    inputs: tuple[str, ...],
    reuse_name: str | None,
    from_step: str | None,
    dry_run: bool,
    heal: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run PLAN in the foreground: one delivery. With --reuse the leading steps that RUN has proven are not repeated, as
    far as nothing they rest on has changed.

    \b
    Exit codes: 0 succeeded, 1 failed, 2 refused, or a wrong option, 3 invalid plan, 4 blocked by the mode of its
    workflow (`recoup mode`), 5 waits for an operator, 6 cancelled, 75 exhausted but worth another delivery, or trouble
    of the machine such as a full disk (`recoup resume`), 130 interrupted (`recoup resume`).

    \b
    Examples:
      recoup run plan.yaml
      recoup run plan.yaml --input customer=acme --input month=2026-11
      recoup run plan.yaml --json | jq -c .type
      recoup run plan.yaml --reuse last --dry-run
    """
    if reuse_name is None and (from_step is not None or dry_run):
        raise UsageError(
            "--from-step and --dry-run say what is reused: name the run with --reuse",
            hint="Look at the plan alone with: recoup check PLAN",
        )
    given = parse_inputs(inputs)
    parsed = read_plan_of(plan, read_policy_of(settings_of(ctx)))

    async def work(app: App) -> int:
        order = Ordered(parsed, given, str(plan.absolute()), heal)
        if reuse_name is not None:
            earlier = await app.runs.state(await app.runs.find(reuse_name))
            return await run_linked(app, order, earlier, from_step, dry_run, as_json=as_json, quiet=quiet)
        return await run_new(app, order, None, as_json=as_json, quiet=quiet)

    ctx.exit(with_app(ctx, work))


@click.command()
@click.argument("run_name", metavar="RUN", shell_complete=complete_run)
@from_step_option
@dry_run_option
@json_option
@quiet_option
@click.pass_context
def resume(
    ctx: click.Context, run_name: str, from_step: str | None, dry_run: bool, as_json: bool, quiet: bool
) -> None:
    """Go on with RUN where its driver was lost or stopped, or give an exhausted run its next delivery.

    A run that has ended goes on in a new one, linked to it, with the same plan and inputs. Finished steps are not
    repeated, as far as nothing they rest on has changed. RUN is an id, its beginning, or `last`.

    \b
    Examples:
      recoup resume last
      recoup resume last --dry-run
      recoup resume 20261115-0312 --from-step build
    """

    async def work(app: App) -> int:
        from recoup.kernel.position import is_over
        from recoup.operations import recording

        state = await app.runs.state(await app.runs.find(run_name))
        if not is_over(state):
            return await _resume_in_place(app, state, from_step, dry_run, as_json=as_json, quiet=quiet)
        if state.status == "succeeded" and from_step is None:
            raise UsageError(
                f"run {state.run_id} has succeeded: nothing is left to do",
                hint=f"Do it again from a step: recoup resume {state.run_id} --from-step STEP",
            )
        plan, given = await recording.recorded(app, state)
        read_policy_of(app.settings)  # what is wrong with it is said while somebody is here
        order = Ordered(plan, given, state.submission.plan_source, state.submission.heal)
        return await run_linked(app, order, state, from_step, dry_run, as_json=as_json, quiet=quiet)

    ctx.exit(with_app(ctx, work, makes_home=False))


class Ordered(msgspec.Struct, frozen=True):
    """What is to be run."""

    plan: Plan
    given: dict[str, str]
    source: str | None
    heal: str | None = None
    """off | report | apply: for all steps, whatever the plan says beyond it."""


async def run_linked(
    app: App,
    order: Ordered,
    earlier: RunState,
    from_step: str | None,
    dry_run: bool,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """A new run that reuses what an earlier one has proven; what that is, is said first."""
    from recoup.cli.preview import print_preview, say_preview
    from recoup.fleet.linked import Reusing
    from recoup.operations.recording import preview

    await app.driving.must_not_be_driven(earlier)
    reusing = Reusing(earlier.run_id, from_step)
    reuse = await preview(app, order.plan, order.given, order.source, reusing)
    if dry_run:
        print_preview(reuse, as_json=as_json)
        return 0
    say_preview(reuse, quiet=quiet)
    return await run_new(app, order, reusing, as_json=as_json, quiet=quiet)


async def run_new(app: App, order: Ordered, reusing: Reusing | None, *, as_json: bool, quiet: bool) -> int:
    from recoup.cli.check import notes_on
    from recoup.model.target import HealMode
    from recoup.operations.recording import record

    heal = None if order.heal is None else HealMode(order.heal)
    run_id = await record(
        app, order.plan, order.given, order.source, reusing, heal=heal, submitted_by=local_user()
    )
    with about_run(run_id):  # it exists: whatever happens now, to run the plan again would be another run
        for words in await notes_on(order.plan, app.settings.home):
            note(f"note: {words}")
        if as_json:
            for event in await app.runs.events(run_id):
                print_json(event.line())
        return await drive(app, await app.runs.state(run_id), as_json=as_json, quiet=quiet)


async def _resume_in_place(
    app: App, state: RunState, from_step: str | None, dry_run: bool, *, as_json: bool, quiet: bool
) -> int:
    from recoup.cli.preview import print_preview, say_preview
    from recoup.kernel.controls.hold import RESUME
    from recoup.kernel.controls.rewind import RESUME_FROM_STEP
    from recoup.operations.recording import preview_in_place

    if from_step is not None:
        _must_go_back(state, from_step)
    # An operator's wish must not be left behind by a command that then fails.
    await app.driving.must_be_free(state.run_id)
    if dry_run:
        print_preview(await preview_in_place(app, state, from_step), as_json=as_json)
        return 0
    if from_step is not None or (state.hold.paused and state.status != "escalated"):
        await app.driving.must_not_be_blocked(state)
    if from_step is not None:
        say_preview(await preview_in_place(app, state, from_step), quiet=quiet)
        await _send(app, state, RESUME_FROM_STEP, "recoup resume --from-step", from_step)
    elif state.hold.paused and state.status != "escalated":
        await _send(app, state, RESUME, "recoup resume")
    return await drive(app, state, as_json=as_json, quiet=quiet)


async def _send(
    app: App, state: RunState, kind: ControlKind, reason: str, step_id: str | None = None
) -> None:
    """The driver that comes next heeds it."""
    from recoup.operations.control import ControlRequest, send

    wish = ControlRequest(
        run_id=state.run_id, action=kind.name, reason=reason, actor=local_user(), step_id=step_id
    )
    await send(app, wish)


def _must_go_back(state: RunState, from_step: str) -> None:
    """What a driver would refuse is refused here, with what to do first."""
    from recoup.kernel.commands import control_command
    from recoup.kernel.controls import possible, refusal, wish
    from recoup.kernel.controls.hold import PAUSE
    from recoup.kernel.controls.rewind import RESUME_FROM_STEP
    from recoup.model.policy import Policy

    why = refusal(state, wish(state, RESUME_FROM_STEP.name, from_step), Policy())
    if why is not None:
        pause = f"Pause it first: {control_command(state.run_id, PAUSE.name)}"
        hint = pause if PAUSE.name in possible(state, Policy()) else ""
        raise UsageError(f"run {state.run_id} cannot go back to {from_step}: {why}", hint=hint)


async def drive(app: App, before: RunState, *, as_json: bool, quiet: bool) -> int:
    """Drive with progress and clean interruption; prints the result and returns the exit code."""
    from recoup.cli.live import progress
    from recoup.kernel.documents import exit_code, run_document
    from recoup.processes.orphans import adopt

    adopt()
    drivers: list[Driver] = []
    stopped_by: RecoupError | None = None
    with progress(before, as_json=as_json, quiet=quiet) as watcher, _interruptible(drivers):
        try:
            state = await app.driving.drive(before.run_id, watcher, drivers.append)
        except RecoupError as error:
            if not drivers or not drivers[0].state.driver.interrupted:
                raise
            print_error(error)
            state = drivers[0].state
            stopped_by = None if drivers[0].interrupting else error
    for words in await app.chores.after_run(state):
        note(f"note: {words}")
    code = exit_code(state) if stopped_by is None else stopped_by.exit_code
    if as_json:
        print_json(msgspec.structs.replace(run_document(state, driven=False), exit_code=code))
    else:
        _print_result(app, state)
    return 1 if code is None else code


def parse_inputs(inputs: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    for item in inputs:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--input {item!r} is not NAME=VALUE", hint="Example: --input customer=acme")
        if name in given:
            raise UsageError(f"--input {name} is given twice", hint="Give each input once.")
        given[name] = value
    return given


def read_policy_of(settings: Settings) -> Policy:
    from recoup.model.policy import Policy

    if settings.policy is None:
        return Policy()
    from recoup.documents.policy_file import read_policy

    return read_policy(settings.policy)


def read_plan_of(path: Path, policy: Policy) -> Plan:
    from recoup.documents.plan_file import read_plan

    if not path.exists():
        raise NotFound(f"there is no plan {path}", hint="Give the path of a YAML or JSON file.")
    return read_plan(path, policy)


def _print_result(app: App, state: RunState) -> None:
    from recoup.cli.look import advice_lines, say_below
    from recoup.kernel.advice import advice

    if is_terminal() and not is_in_front(sys.stdout):
        say()  # not behind what the user is typing
    status = (
        "interrupted" if state.driver.interrupted and not state.status.is_terminal else state.status.value
    )
    say(f"run {state.run_id} {status}: {state.reason}")
    if state.status == "succeeded":
        say(f"  ledger: recoup ledger {state.run_id}")
    else:
        say_below("  next:   ", advice_lines(advice(state, driven=False)))
    say(f"  files:  {app.runs.files(state.run_id).artifacts}")


@contextlib.contextmanager
def _interruptible(drivers: list[Driver]) -> Iterator[None]:
    """The first signal stops cleanly; the second one ends at once, and the keepers take the steps with them."""
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if not drivers or drivers[0].interrupting:
            os._exit(130)
        note(f"{name}: stopping the step (again to end at once) ...")
        drivers[0].interrupt(f"interrupted by {name}")

    caught = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
    for number, name in caught.items():
        loop.add_signal_handler(number, stop, name)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
        sys.stderr.flush()
