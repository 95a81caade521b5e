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

from recoup.cli.output import json_option, print_error, print_json, settings_of, with_app, write_line
from recoup.errors import NotFound, RecoupError, UsageError

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.engine.driver import Driver
    from recoup.model.plan import Plan
    from recoup.model.policy import Policy
    from recoup.model.run import RunState
    from recoup.settings import Settings

quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress, only the result.")
input_option = click.option(
    "--input", "inputs", multiple=True, metavar="NAME=VALUE", help="An input of the plan; may be repeated."
)


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@input_option
@json_option
@quiet_option
@click.pass_context
def run(ctx: click.Context, plan: Path, inputs: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Run PLAN in the foreground: one delivery.

    \b
    Exit codes: 0 succeeded, 1 failed, 3 invalid plan, 5 waits for an operator, 6 cancelled,
    75 exhausted but worth another delivery (`recoup resume`), 130 interrupted (`recoup resume`).

    \b
    Examples:
      recoup run plan.yaml
      recoup run plan.yaml --input customer=acme --input month=2026-11
      recoup run plan.yaml --json | jq -c .type
    """
    from recoup.cli.check import notes_on

    given = parse_inputs(inputs)
    policy = read_policy_of(settings_of(ctx))
    parsed = read_plan_of(plan, policy)

    async def work(app: App) -> int:
        run_id = await app.submit(parsed, policy, given, str(plan.absolute()))
        for note in await notes_on(parsed, app.settings.home):
            write_line(sys.stderr, f"note: {note}")
        if as_json:
            for event in await app.events(run_id):
                print_json(event.line())
        return await drive(app, await app.state(run_id), as_json=as_json, quiet=quiet)

    ctx.exit(with_app(ctx, work))


@click.command()
@click.argument("run_name", metavar="RUN")
@json_option
@quiet_option
@click.pass_context
def resume(ctx: click.Context, run_name: str, as_json: bool, quiet: bool) -> None:
    """Go on with RUN where its driver was lost or stopped, or give an exhausted run its next delivery.

    Finished steps are not repeated. RUN is an id, its beginning, or `last`.

    \b
    Examples:
      recoup resume last
      recoup resume 20261115-0312
    """

    async def work(app: App) -> int:
        return await drive(app, await app.state(await app.find(run_name)), as_json=as_json, quiet=quiet)

    ctx.exit(with_app(ctx, work))


async def drive(app: App, before: RunState, *, as_json: bool, quiet: bool) -> int:
    """Drive with progress and clean interruption; prints the result and returns the exit code."""
    from recoup.cli.live import progress
    from recoup.kernel.documents import exit_code, run_document

    drivers: list[Driver] = []
    with progress(before, as_json=as_json, quiet=quiet) as watcher, _interruptible(drivers):
        try:
            state = await app.drive(before.run_id, watcher, drivers.append)
        except RecoupError as error:
            if not drivers or not drivers[0].state.interrupted:
                raise
            print_error(error)
            state = drivers[0].state
    if as_json:
        print_json(run_document(state))
    else:
        _print_result(app, state)
    code = exit_code(state)
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
    if state.status == "succeeded":
        advice = f"ledger: recoup ledger {state.run_id}"
    elif state.retryable or state.interrupted:
        advice = f"go on:  recoup resume {state.run_id}"
    else:
        advice = f"why:    recoup show {state.run_id}"
    for line in (
        f"run {state.run_id} {state.status}: {state.reason}",
        f"  {advice}",
        f"  files:  {app.files(state.run_id).artifacts}",
    ):
        write_line(sys.stdout, line)


@contextlib.contextmanager
def _interruptible(drivers: list[Driver]) -> Iterator[None]:
    """The first signal stops cleanly; the second one ends at once, and the keepers take the steps with them."""
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if not drivers or drivers[0].interrupting:
            os._exit(130)
        click.echo(f"\n{name}: stopping the step (again to end at once) ...", err=True)
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
