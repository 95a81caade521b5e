"""`probe`: look after what runs on this machine, and steer who does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.output import json_option, settings_of, with_app
from recoup.errors import InvalidProbe, NotFound, UsageError
from recoup.kernel.wording import one_line
from recoup.model.probe import Action, Command, CommandKind
from recoup.terminal.moments import second
from recoup.terminal.writer import note, print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.events import Event
    from recoup.model.probe import ProbeConfig

_CHORES_S = 30.0
_FOLLOW_S = 0.5
_FILES_OF_OURS = 256
_FILES_EACH = 10
"""Two pipes, a channel, a log, and some for checks; a handle on the keeper where each process has its own."""

probe_option = click.option("--probe", "probe_name", metavar="ID", help="Which probe, if there are several.")
file_argument = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


def _listing(names: Sequence[str], last: str) -> str:
    """The names as one phrase: `a, b and c`."""
    return f" {last} ".join((", ".join(names[:-1]), names[-1]))


_ABOUT = f"""Look after processes and channels on this machine, within strict limits.

A probe may {_listing([action.phrase for action in Action], "and")}, and nothing else. When its budget is spent it hands
over, with a reason.

\b
Examples:
  recoup probe run probe.yaml
  recoup probe status
  recoup probe act api restart --reason "new certificate"
"""


@click.group(help=_ABOUT)
def probe() -> None:
    pass


@probe.command(short_help="Look after everything in FILE until told to stop.")
@file_argument
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def run(ctx: click.Context, file: Path, as_json: bool, quiet: bool) -> None:
    """Look after everything in FILE until told to stop (SIGTERM or Ctrl-C): then all of it is stopped, in order.

    \b
    Examples:
      recoup probe run probe.yaml
      recoup probe run probe.yaml --json | jq -c 'select(.type == "Escalated")'
    """
    from recoup.cli.probe_live import watching
    from recoup.operations.probes import make_probe, probe_world
    from recoup.probe.notify import ServiceManager
    from recoup.processes.orphans import adopt
    from recoup.standing import asked_to_end, room_for_files

    adopt()
    manager = ServiceManager(os.environ)

    async def work(app: App) -> None:
        config = await _config(app, file)
        room_for_files(_FILES_OF_OURS + len(config.resources) * _FILES_EACH)  # the usual limit is for less
        with watching(config, as_json=as_json, quiet=quiet) as seen:
            one = make_probe(app, config, probe_world(app, seen, manager.alive))
            stop = asyncio.Event()

            def end(_times: int) -> None:
                manager.stopping()
                stop.set()

            with asked_to_end(end):
                async with _beside(app, one.started, manager):
                    await one.run(stop)

    with_app(ctx, work, lambda words: note(f"recoup: {words}"))


@probe.command(short_help="Say everything that is wrong with a probe file.")
@file_argument
@json_option
def check(file: Path, as_json: bool) -> None:
    """Say everything that is wrong with a probe file, or that nothing is.

    \b
    Example:
      recoup probe check probe.yaml
    """
    from recoup.documents.probe_file import read_probe_file
    from recoup.probe.supervisor import config_digest

    if not file.exists():
        raise NotFound(f"there is no probe file {file}", hint="Give the path of a YAML or JSON file.")
    config = read_probe_file(file)
    if as_json:
        print_json({"valid": True, "probe": config.id, "digest": config_digest(config), "problems": []})
    else:
        count = len(config.resources)
        say(f"{file}: nothing wrong, probe {config.id} with {count} resource{'' if count == 1 else 's'}")


@probe.command(short_help="Show what a probe looks after, and how it stands.")
@probe_option
@json_option
@click.pass_context
def status(ctx: click.Context, probe_name: str | None, as_json: bool) -> None:
    """Show what a probe looks after: phase, health, retries, what waits and for how long.

    \b
    Examples:
      recoup probe status
      recoup probe status --json | jq '.resources[] | select(.phase == "failed")'
    """
    from recoup.cli.probe_live import status_lines

    async def work(app: App) -> None:
        from recoup.operations.probes import probe_status

        document = await probe_status(app, probe_name)
        if as_json:
            print_json(document)
            return
        for line in (*status_lines(document), *_printed(settings_of(ctx).home, document)):
            say(one_line(line))

    with_app(ctx, work)


def _printed(home: Path, document: dict[str, Any]) -> Iterator[str]:
    """Where to read what the processes that are not well have printed; files of other machines are not here."""
    from recoup.probe.supervisor import probe_folder

    for one in document["resources"]:
        log = probe_folder(home, document["probe"]) / "resources" / one["resource_id"] / "output.log"
        if one["health"] != "healthy" and log.exists():
            yield f"what {one['resource_id']} printed: {log}"


@probe.command()
@probe_option
@click.option("--follow", "-f", is_flag=True, help="Go on as they come.")
@click.option("--resource", metavar="ID", help="Of this resource only.")
@json_option
@click.pass_context
def events(
    ctx: click.Context, probe_name: str | None, follow: bool, resource: str | None, as_json: bool
) -> None:
    """Print what happened, in order.

    \b
    Examples:
      recoup probe events --resource api
      recoup probe events --json | jq -c 'select(.type == "RecoveryAttempted")'
    """
    from recoup.cli.probe_live import words_of
    from recoup.kernel.probe_documents import probe_line

    def show(event: Event) -> None:
        if resource is not None and getattr(event.payload, "resource_id", "") != resource:
            return
        if as_json:
            print_json(probe_line(event))
        else:
            row = f"{event.seq:>6}  {second(event.at.iso())}  {event.type:<20} {words_of(event)}"
            say(one_line(row))

    async def work(app: App) -> None:
        from recoup.operations.probes import operators_of

        operators, after = operators_of(app), 0
        name = await operators.find(probe_name)
        while True:
            async for event in operators.events(name, after):
                after = max(after, event.seq) if event.stream.startswith("probe:") else after
                show(event)
            if not follow:
                return
            await asyncio.sleep(_FOLLOW_S)

    with_app(ctx, work)


_ACT = f"""Have the probe act on RESOURCE now: {_listing(list(Action), "or")}.

It counts in the budget like the probe's own actions, and is refused when that is spent.

\b
Example:
  recoup probe act api restart --reason "new certificate"
"""


@probe.command(help=_ACT, short_help="Have the probe act on RESOURCE now.")
@click.argument("resource")
@click.argument("action")
@click.option("--reason", required=True, help="Why; it is recorded.")
@click.option(
    "--fault-class", metavar="CLASS", help="Whose budget it counts in. Default: the present fault's."
)
@click.option("--id", "command_id", metavar="ID", help="Sending the same id again changes nothing.")
@probe_option
@json_option
@click.pass_context
def act(
    ctx: click.Context,
    resource: str,
    action: str,
    reason: str,
    fault_class: str | None,
    command_id: str | None,
    probe_name: str | None,
    as_json: bool,
) -> None:

    command = Command(
        command_id=command_id or f"act-{secrets.token_hex(8)}",
        kind=CommandKind.ACT,
        resource_id=resource,
        action=action,
        fault_class=fault_class,
        reason=reason,
        actor=local_user(),
    )
    _tell(ctx, probe_name, command, as_json)


@probe.command("reset-budget")
@click.argument("resource")
@click.option("--reason", required=True, help="Why; it is recorded.")
@click.option("--fault-class", metavar="CLASS", help="Of this class of fault only.")
@click.option("--id", "command_id", metavar="ID", help="Sending the same id again changes nothing.")
@probe_option
@json_option
@click.pass_context
def reset_budget(
    ctx: click.Context,
    resource: str,
    reason: str,
    fault_class: str | None,
    command_id: str | None,
    probe_name: str | None,
    as_json: bool,
) -> None:
    """Give RESOURCE its retries back. It is audited; what has failed stays so until you act on it.

    \b
    Example:
      recoup probe reset-budget api --reason "the disk was full"
    """

    command = Command(
        command_id=command_id or f"reset-{secrets.token_hex(8)}",
        kind=CommandKind.RESET_BUDGET,
        resource_id=resource,
        fault_class=fault_class,
        reason=reason,
        actor=local_user(),
    )
    _tell(ctx, probe_name, command, as_json)


def _tell(ctx: click.Context, probe_name: str | None, command: Command, as_json: bool) -> None:
    from recoup.operations.probes import tell_probe

    answer = with_app(ctx, lambda app: tell_probe(app, probe_name, command))
    if as_json:
        print_json(answer)
        if answer["outcome"] != "accepted":
            ctx.exit(UsageError.exit_code)
        return
    if answer["outcome"] != "accepted":
        raise UsageError(f"refused: {answer['reason']}", hint="See what there is: recoup probe status")
    say(f"accepted: {command.kind} {command.resource_id}, see `recoup probe events`")


async def _config(app: App, file: Path) -> ProbeConfig:
    from recoup.documents.probe_file import read_probe_file

    if not file.exists():
        raise NotFound(f"there is no probe file {file}", hint="Give the path of a YAML or JSON file.")
    try:
        return read_probe_file(file)
    except InvalidProbe as error:
        if error.refused:
            from recoup.operations.probes import record_refusals

            await record_refusals(app, error, str(file))
        raise


@contextlib.asynccontextmanager
async def _beside(app: App, started: asyncio.Event, manager: Any) -> AsyncIterator[None]:
    """Say that we are ready once we are; write the audit now and then, and at the end."""

    async def chores() -> None:
        await started.wait()
        manager.ready()
        while True:
            await asyncio.sleep(_CHORES_S)
            await app.chores.run()

    task = asyncio.create_task(chores())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await app.chores.run()
