"""`serve` and `tokens`."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recoup.errors import SettingsError

if TYPE_CHECKING:
    from recoup.fleet.worker import Notice
    from recoup.gateway.book import Book
    from recoup.gateway.serving import Opened
    from recoup.model.events import TokenPayload
    from recoup.settings import Settings

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

    On the first start a token for each role (viewer, operator, worker, probe) is made and printed, once; later ones are
    made with `recoup tokens`. RECOUP_TOKEN, if it is set, is an operator's token, and none is made.

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

    settings = _settings(ctx)
    setup = Setup(
        host=host,
        port=port,
        tls_cert=tls_cert,
        tls_key=tls_key,
        allow_hosts=allow_hosts,
        insecure=insecure,
        workers=workers,
        queues=queues,
        capabilities=frozenset(capabilities),
        plan_folders=plan_folders,
        token=settings.token,
    )
    must_be_safe(setup)

    async def work() -> None:
        async with open_app(
            settings, os.environ, lambda words: click.echo(f"recoup: {words}", err=True)
        ) as app:
            await serve_until_told(app, setup, lambda opened: _opened(opened, as_json), _trouble)

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
        made = TokenMade(token_id=token_id, name=name, role=role, by=getpass.getuser(), reason=reason)
        _tell(ctx, made)
        token = book.make(Role(role), name, SystemClock().now().iso(), token_id)
    _print({"role": role, "name": name, "token": token}) if as_json else click.echo(token)


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
        _print(msgspec.to_builtins(rows))
        return
    for row in rows:
        ended = f"  revoked {row.revoked_at[:16]}Z" if row.revoked_at else ""
        click.echo(one_line(f"{row.id}  {row.role:<9} {row.made_at[:16]}Z  {row.name}{ended}"))
    if not rows:
        click.echo("no tokens: the first `recoup serve` makes one for each role", err=True)


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
    _tell(ctx, TokenRevoked(**told, by=getpass.getuser(), reason=reason))
    click.echo(f"{token_id} is revoked")


def _settings(ctx: click.Context) -> Settings:
    from recoup.settings import read_settings

    return read_settings(os.environ, Path.cwd(), (ctx.find_root().obj or {}).get("home"))


def _book(ctx: click.Context) -> Any:
    import contextlib
    import time

    from recoup.app import make_home
    from recoup.gateway.book import Book

    home = _settings(ctx).home
    make_home(home)
    opened: contextlib.closing[Book] = contextlib.closing(Book(home / "gateway.db", time.time))
    return opened


def _tell(ctx: click.Context, fact: TokenPayload) -> None:
    from recoup.app import open_app
    from recoup.desk.tokens import tell_of_tokens

    async def work() -> None:
        async with open_app(_settings(ctx), os.environ) as app:
            await tell_of_tokens(app.ledger, app.redactor, app.world.clock, [fact])
            await app.chores()

    asyncio.run(work())


def _opened(opened: Opened, as_json: bool) -> None:
    if opened.note:
        click.echo(f"recoup: {opened.note}", err=True)
    if as_json:
        _print({"url": opened.url, "tokens": opened.tokens})
        return
    if opened.tokens:
        click.echo("tokens, shown now and never again:")
        for role, token in opened.tokens.items():
            click.echo(f"  {role:<9} {token}")
    click.echo(f"serving on {opened.url} (Ctrl-C ends it)", err=True)


def _trouble(notice: Notice) -> None:
    if notice.event == "trouble":
        click.echo(f"worker: {notice.words}", err=True)


def _print(document: Any) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()
