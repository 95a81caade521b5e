"""`memory`: what a workflow has learned about its targets, its versions, and going back to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from recoup.cli.output import json_option, with_app
from recoup.kernel.wording import one_line
from recoup.terminal.moments import second
from recoup.terminal.writer import note, print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App

_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@click.group()
def memory() -> None:
    """What a workflow has learned, and taking it back.

    \b
    Examples:
      recoup memory show invoice-sync
      recoup memory versions invoice-sync
      recoup memory diff invoice-sync v000002
      recoup memory rollback invoice-sync --reason "it takes the wrong button"
    """


@memory.command(short_help="What is known now, and how often it was right.")
@click.argument("workflow")
@json_option
@click.pass_context
def show(ctx: click.Context, workflow: str, as_json: bool) -> None:
    """What is known now: which element was taken for which step's target, and how that went.

    \b
    Examples:
      recoup memory show invoice-sync
      recoup memory show invoice-sync --json
    """

    async def work(app: App) -> int:
        from recoup.operations import memory

        known = await memory.known_now(app, workflow)
        if as_json:
            print_json([{**msgspec.to_builtins(one), "kind": "known"} for one in known])
            return 0
        for one in known:
            tried = one.successes + one.failures
            say(one_line(f"{one.step_id}: {one.element}, right {one.successes} of {tried} times"))
        if not known:
            note(f"{workflow} has learned nothing yet")
        return 0

    ctx.exit(with_app(ctx, work))


@memory.command(short_help="What can be gone back to, newest first.")
@click.argument("workflow")
@json_option
@click.pass_context
def versions(ctx: click.Context, workflow: str, as_json: bool) -> None:
    """What can be gone back to, newest first, with the success rate before and after.

    \b
    Example:
      recoup memory versions invoice-sync
    """

    async def work(app: App) -> int:
        from recoup.operations import memory

        found = [msgspec.to_builtins(one) for one in await memory.versions(app, workflow)]
        if as_json:
            print_json(found)
            return 0
        for one in found:
            say(_version_line(one))
        if not found:
            note(f"{workflow} has learned nothing yet")
        return 0

    ctx.exit(with_app(ctx, work))


@memory.command(short_help="What was learned between two versions.")
@click.argument("workflow")
@click.argument("old")
@click.argument("new", required=False)
@json_option
@click.pass_context
def diff(ctx: click.Context, workflow: str, old: str, new: str | None, as_json: bool) -> None:
    """What was learned between version OLD and version NEW, or until now.

    \b
    Examples:
      recoup memory diff invoice-sync v000002
      recoup memory diff invoice-sync v000001 v000002 --json
    """

    async def work(app: App) -> int:
        from recoup.operations import memory

        found = await memory.diff(app, workflow, old, new)
        if as_json:
            print_json(msgspec.to_builtins(found))
            return 0
        for one in found:
            tried = f"right {one.successes} of {one.successes + one.failures} times"
            say(one_line(f"{_SIGNS[one.kind]} {one.step_id}: {one.element}, {tried}, by {one.origin}"))
        if not found:
            note("nothing differs")
        return 0

    ctx.exit(with_app(ctx, work))


@memory.command()
@click.argument("workflow")
@click.option("--reason", default="", help="Why; it is recorded.")
@click.pass_context
def snapshot(ctx: click.Context, workflow: str, reason: str) -> None:
    """Keep what is known now as a version.

    \b
    Example:
      recoup memory snapshot invoice-sync --reason "before the redesign"
    """

    async def work(app: App) -> int:
        from recoup.operations import memory

        made = await memory.snapshot(app, workflow, local_user(), reason)
        say(f"{workflow}: what is known now is {made}")
        return 0

    ctx.exit(with_app(ctx, work))


@memory.command(short_help="Take back what was learned after a version.")
@click.argument("workflow")
@click.option(
    "--to", "version", metavar="VERSION", help="A version; without it, the last lessons are undone."
)
@click.option("--reason", required=True, help="Why; it is recorded.")
@json_option
@click.pass_context
def rollback(ctx: click.Context, workflow: str, version: str | None, reason: str, as_json: bool) -> None:
    """Take back what was learned after a version: all of it, or nothing.

    \b
    Examples:
      recoup memory rollback invoice-sync --reason "it takes the wrong button"
      recoup memory rollback invoice-sync --to v000002 --reason "back to last week"
    """

    async def work(app: App) -> int:
        from recoup.operations import memory

        back = await memory.rollback(app, workflow, version, local_user(), reason)
        if as_json:
            print_json(msgspec.to_builtins(back))
        else:
            say(f"{workflow}: what was learned after {back.to_version} is taken back")
        return 0

    ctx.exit(with_app(ctx, work))


def _version_line(one: dict[str, Any]) -> str:
    rates = [one["success_rate_before"], one["success_rate_after"]]
    before, after = ["unknown" if rate is None else f"{rate:.0%}" for rate in rates]
    here = "  (current)" if one["current"] else ""
    known = f"{one['entries']} known"
    line = f"{one['version_id']}  {second(one['created_at'])}  {known}, success {before} before, {after} after{here}"
    return f"{line}\n  damaged on this machine: {one_line(one['trouble'])}" if one["trouble"] else line
