"""`serve` and `tokens`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from recoup.errors import SettingsError, StateError
from recoup.terminal.moments import minute
from recoup.terminal.writer import clean_reports, is_terminal, note, print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.fleet.worker import Notice
    from recoup.gateway.book import Book
    from recoup.gateway.serving import Opened
    from recoup.model.events import TokenPayload
    from recoup.settings import Settings

FIRST_TOKENS = "first-tokens"
"""In the home, where the first start has no terminal to print them on."""
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _names(_ctx: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", default=8620, show_default=True, type=click.IntRange(0, 65_535), help="0: any free one."
)
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="A certificate, as PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its key, as PEM.")
@click.option(
    "--allow-host", "allow_hosts", multiple=True, metavar="NAME",
    help="A name by which it may be asked, besides its address; may be repeated.",
)  # fmt: skip
@click.option("--insecure", is_flag=True, help="A public address without TLS: something before it does that.")
@click.option(
    "--workers",
    default=0,
    show_default=True,
    type=click.IntRange(0, 1000),
    help="Drive so many runs at once here.",
)
@click.option("--queues", default="default", show_default=True, callback=_names, help="Of these workers.")
@click.option(
    "--capabilities", default="agent,browser", show_default=True, callback=_names, help="Of these workers."
)
@click.option(
    "--plans", "plan_folders", multiple=True, metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Take plans from this folder only; may be repeated.",
)  # fmt: skip
@_json_option
@click.pass_context
def serve(
    ctx: click.Context,
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    allow_hosts: tuple[str, ...],
    insecure: bool,
    workers: int,
    queues: tuple[str, ...],
    capabilities: tuple[str, ...],
    plan_folders: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C.

    On the first start a token for each role (viewer, operator, worker, probe) is made and printed, once. Without a
    terminal, as in a service, they are written to the file first-tokens of the home instead; with --json they are
    printed all the same. Later ones are made with `recoup tokens`. RECOUP_TOKEN, if it is set, is an operator's token,
    and none is made.

    A plan is code: whoever holds an operator's token may run any command that the workers may. With --plans only files
    in those folders are taken.

    \b
    Examples:
      recoup serve --workers 4
      recoup serve --plans /srv/plans --port 0 --json
      recoup serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    """
    try:
        from recoup.gateway.serving import Setup, must_be_safe
        from recoup.gateway.serving import serve as serve_until_told
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"serving needs the package {error.name}", hint="pip install 'recoup[serve]'"
        ) from None
    from recoup.app import open_app
    from recoup.steps.registry import offered_kinds

    settings = _settings(ctx)
    usual = ctx.get_parameter_source("capabilities") is ParameterSource.DEFAULT
    offered = offered_kinds() if workers and usual else frozenset[str]()
    setup = Setup(
        host=host,
        port=port,
        tls_cert=tls_cert,
        tls_key=tls_key,
        allow_hosts=allow_hosts,
        insecure=insecure,
        workers=workers,
        queues=queues,
        capabilities=frozenset(capabilities) | offered,
        plan_folders=plan_folders,
        token=settings.token,
    )
    must_be_safe(setup)

    clean_reports()

    async def work() -> None:
        async with open_app(settings, os.environ, lambda words: note(f"recoup: {words}")) as app:
            await serve_until_told(
                app, setup, lambda opened: _opened(opened, settings.home, as_json), _trouble
            )

    asyncio.run(work())


@click.group()
def tokens() -> None:
    """Who may use the HTTP API. Tokens are kept as hashes: a lost one cannot be shown, only replaced.

    \b
    Examples:
      recoup tokens make viewer --name dashboard
      recoup tokens list
      recoup tokens revoke tok-1a2b3c4d --reason "the laptop was lost"
    """


@tokens.command()
@click.argument("role", type=click.Choice(["viewer", "operator", "worker", "probe"]))
@click.option("--name", required=True, help="Whose it is; it stands in the audit.")
@click.option("--reason", help="Why; it is recorded.")
@_json_option
@click.pass_context
def make(ctx: click.Context, role: str, name: str, reason: str | None, as_json: bool) -> None:
    """Make a token and print it, once.

    \b
    Example:
      recoup tokens make viewer --name dashboard
    """
    from recoup.clock import SystemClock
    from recoup.gateway.access import Role
    from recoup.gateway.book import new_token_id
    from recoup.model.events import TokenMade

    token_id = new_token_id()
    with _book(ctx) as book:
        book.must_have_room()
        # Recorded first: nobody may hold a token that the audit does not know.
        made = TokenMade(token_id=token_id, name=name, role=role, by=local_user(), reason=reason)
        _tell(ctx, made)
        token = book.make(Role(role), name, SystemClock().now().iso(), token_id)
    print_json({"role": role, "name": name, "token": token}) if as_json else say(token)


@tokens.command("list")
@_json_option
@click.pass_context
def list_tokens(ctx: click.Context, as_json: bool) -> None:
    """List tokens: whose they are, not what they are.

    \b
    Example:
      recoup tokens list
    """
    import msgspec

    from recoup.kernel.wording import one_line

    with _book(ctx) as book:
        rows = book.tokens()
    if as_json:
        print_json(msgspec.to_builtins(rows))
        return
    for row in rows:
        ended = f"  revoked {minute(row.revoked_at)}" if row.revoked_at else ""
        say(one_line(f"{row.id}  {row.role:<9} {minute(row.made_at)}  {row.name}{ended}"))
    if not rows:
        note("no tokens: the first `recoup serve` makes one for each role")


@tokens.command()
@click.argument("token_id", metavar="ID")
@click.option("--reason", help="Why; it is recorded.")
@click.pass_context
def revoke(ctx: click.Context, token_id: str, reason: str | None) -> None:
    """Let a token count no more, from its next request on.

    \b
    Example:
      recoup tokens revoke tok-1a2b3c4d --reason "the laptop was lost"
    """
    from recoup.clock import SystemClock
    from recoup.model.events import TokenRevoked

    with _book(ctx) as book:
        # First of all: it must not count while somebody waits for the ledger.
        whose = book.revoke(token_id, SystemClock().now().iso())
    told = {"token_id": whose.token_id, "name": whose.name, "role": whose.role.value}
    _tell(ctx, TokenRevoked(**told, by=local_user(), reason=reason))
    say(f"{token_id} is revoked")


def _settings(ctx: click.Context) -> Settings:
    from recoup.settings import read_settings

    return read_settings(os.environ, Path.cwd(), (ctx.find_root().obj or {}).get("home"))


def _book(ctx: click.Context) -> Any:
    import contextlib
    import time

    from recoup.gateway.book import Book
    from recoup.settings import make_home

    home = _settings(ctx).home
    make_home(home)
    opened: contextlib.closing[Book] = contextlib.closing(Book(home / "gateway.db", time.time))
    return opened


def _tell(ctx: click.Context, fact: TokenPayload) -> None:
    from recoup.app import open_app
    from recoup.operations.gateway_facts import record_gateway_facts

    async def work() -> None:
        async with open_app(_settings(ctx), os.environ) as app:
            await record_gateway_facts(app, fact)

    asyncio.run(work())


def _opened(opened: Opened, home: Path, as_json: bool) -> None:
    if opened.note:
        note(f"recoup: {opened.note}")
    if as_json:
        print_json({"url": opened.url, "tokens": opened.tokens})
        return
    if opened.tokens:
        _hand_over(opened.tokens, home / FIRST_TOKENS)
    note(f"serving on {opened.url} (Ctrl-C ends it)")


def _hand_over(tokens: Mapping[str, str], path: Path) -> None:
    """On a terminal. What a service prints goes into a journal, which others may read and which keeps it."""
    from recoup.durable import write_whole

    lines = [f"{role:<9} {token}" for role, token in tokens.items()]
    if is_terminal():
        say("tokens, shown now and never again:")
        for line in lines:
            say(f"  {line}")
        return
    try:
        write_whole(path, "\n".join([*lines, ""]).encode())
    except OSError as error:
        raise StateError.of(error) from error
    say(
        f"a token for each role is in {path}, which only its owner can read: move them to where they belong,"
        " then delete it"
    )


def _trouble(notice: Notice) -> None:
    if notice.event == "trouble":
        note(f"worker: {notice.words}")
