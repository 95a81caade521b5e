"""`webhooks`."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from recoup.terminal.writer import note, print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.gateway.hooks import Hooks
    from recoup.model.answers.inbox import Webhook

Value = TypeVar("Value")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def webhooks() -> None:
    """Tell others of events as they come. `recoup serve` in this home delivers them.

    Each delivery is one event as JSON, signed with a secret that only you and the receiver know:
    Recoup-Signature: t=UNIX,v1=HEX is HMAC-SHA256 over "t.body". Recoup-Delivery is the event's number: the same one
    may come twice.

    \b
    Examples:
      recoup webhooks add https://hooks.example/x --events 'Escalated,task.run.*' --name ops
      recoup webhooks list
      recoup webhooks test hook-1a2b3c4d
      recoup webhooks remove hook-1a2b3c4d --reason "moved"
    """


@webhooks.command()
@click.argument("url")
@click.option(
    "--events", required=True, metavar="TYPES", help="With commas between; task.run.* means all of them."
)
@click.option("--name", required=True, help="Whose it is.")
@click.option("--reason", help="Why; it is recorded.")
@_json_option
@click.pass_context
def add(ctx: click.Context, url: str, events: str, name: str, reason: str | None, as_json: bool) -> None:
    """Tell URL of events from now on; prints the secret, once.

    \b
    Example:
      recoup webhooks add https://hooks.example/x --events 'Escalated,approval.requested' --name ops
    """
    import msgspec

    from recoup.gateway.hooks import hook_document
    from recoup.kernel.webhooks import matches
    from recoup.model.answers.inbox import WebhookAdded
    from recoup.model.events import PAYLOADS

    kinds = tuple(dict.fromkeys(kind.strip() for kind in events.split(",") if kind.strip()))

    async def work(hooks: Hooks) -> WebhookAdded:
        hook, secret = await hooks.add(url, kinds, name, local_user(), reason)
        return WebhookAdded(**msgspec.structs.asdict(hook_document(hook)), secret=secret)

    told = _with_hooks(ctx, work)
    print_json(told) if as_json else say(f"{told.id}  {told.secret}")
    for kind in kinds:  # not refused: a newer Recoup that shares the ledger may have more
        if not matches([kind], PAYLOADS):
            note(f"note: no event here is called {kind!r}: docs/reference/events.md lists them")


@webhooks.command("list")
@_json_option
@click.pass_context
def list_webhooks(ctx: click.Context, as_json: bool) -> None:
    """List them, and what is wrong with them.

    \b
    Example:
      recoup webhooks list
    """
    from recoup.gateway.hooks import hook_document
    from recoup.kernel.wording import one_line

    async def work(hooks: Hooks) -> list[Webhook]:
        return [hook_document(one) for one in hooks.book.all()]

    found = _with_hooks(ctx, work)
    if as_json:
        print_json(found)
        return
    for one in found:
        trouble = f"  {one.failed} failures: {one.trouble}" if one.trouble else ""
        row = f"{one.id}  {one.state:<3} {one.name}  {one.url}  {','.join(one.events)}{trouble}"
        say(one_line(row))
    if not found:
        note("no webhooks: `recoup webhooks add --help` shows how to add one")


@webhooks.command()
@click.argument("webhook_id", metavar="ID")
@click.option("--reason", help="Why; it is recorded.")
@click.pass_context
def remove(ctx: click.Context, webhook_id: str, reason: str | None) -> None:
    """Tell it of nothing any more.

    \b
    Example:
      recoup webhooks remove hook-1a2b3c4d --reason "moved"
    """
    _with_hooks(ctx, lambda hooks: hooks.remove(webhook_id, local_user(), reason))
    say(f"{webhook_id} is removed")


@webhooks.command()
@click.argument("webhook_id", metavar="ID")
@_json_option
@click.pass_context
def test(ctx: click.Context, webhook_id: str, as_json: bool) -> None:
    """Send something at once; the exit code is 1 if it was not taken.

    \b
    Example:
      recoup webhooks test hook-1a2b3c4d
    """
    told = _with_hooks(ctx, lambda hooks: hooks.test(webhook_id, local_user()))
    print_json({"ok": told.ok, "detail": told.detail}) if as_json else say(told.detail)
    ctx.exit(0 if told.ok else 1)


def _with_hooks(ctx: click.Context, work: Callable[[Hooks], Awaitable[Value]]) -> Value:
    from recoup.app import open_app
    from recoup.gateway.hooks import Hooks
    from recoup.settings import read_settings

    settings = read_settings(os.environ, Path.cwd(), (ctx.find_root().obj or {}).get("home"))

    async def inside() -> Value:
        async with open_app(settings, os.environ) as app:
            with contextlib.closing(Hooks(app)) as hooks:
                return await work(hooks)

    return asyncio.run(inside())
