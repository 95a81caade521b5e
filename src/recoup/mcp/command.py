"""`mcp`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from recoup.errors import SettingsError, UsageError
from recoup.terminal.writer import note, print_json
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.settings import Settings

WAIT_MAX_S: Final = 20.0
"""How long stdio waits for a database that is away. Clients wait for the first answer, most of them 30 s or more."""


@click.command()
@click.option(
    "--inside/--outside",
    "inside",
    default=None,
    help="For the step that this runs in, or for the whole home.",
)
@click.option(
    "--http", "http", is_flag=True, help="Serve streamable HTTP on loopback, to those with a token."
)
@click.option(
    "--port",
    default=8621,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="With --http. 0: any free one.",
)
@click.option(
    "--plans", "plan_folders", multiple=True, metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="With --http: take plans from this folder only; may be repeated.",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Offer only tools that look.")
@click.option("--json", "as_json", is_flag=True, help="With --http: print the address as JSON.")
@click.pass_context
def mcp(
    ctx: click.Context,
    inside: bool | None,
    http: bool,
    port: int,
    plan_folders: tuple[Path, ...],
    read_only: bool,
    as_json: bool,
) -> None:
    """Serve MCP: to the program that starts this (stdio), or with --http.

    Outside a step: submit, inspect and control runs. With RECOUP_GATEWAY and RECOUP_TOKEN set, the gateway is asked;
    else the ledger of this home. --http takes the tokens of `recoup tokens`, with their roles; what the policy's
    approval_required names is refused there, and with --plans only files in those folders are taken.

    Inside a step (its environment says so): report_progress, get_failure_context, request_reset. An `agent:` step
    starts this for claude and codex by itself.

    While PostgreSQL is away at the start, --http waits for it; over stdio it waits 20 s, then exits with 75.

    \b
    Examples:
      claude mcp add recoup -- recoup mcp
      recoup mcp --read-only
      recoup mcp --http --port 8621 --plans /srv/plans
    """
    try:
        import mcp as _package  # noqa: F401
    except ModuleNotFoundError as error:
        raise SettingsError(f"MCP needs the package {error.name}", hint="pip install 'recoup[mcp]'") from None
    from recoup.mcp.inside import is_inside
    from recoup.mcp.inside import main as serve_inside

    if inside or (inside is None and not http and is_inside()):
        if http or read_only:
            raise UsageError("--http and --read-only are for outside a step", hint="Add --outside.")
        serve_inside()
        return
    if plan_folders and not http:
        raise UsageError("--plans is for --http", hint="Whoever starts it over stdio has the files anyway.")
    asyncio.run(_outside(_settings(ctx), http, port, plan_folders, read_only, as_json))


async def _outside(
    settings: Settings, http: bool, port: int, plan_folders: tuple[Path, ...], read_only: bool, as_json: bool
) -> None:

    from recoup.app import open_app
    from recoup.mcp.serving import serve_gateway, serve_http, serve_stdio

    if settings.gateway is not None and not http:
        if settings.token is None:
            raise SettingsError(
                "RECOUP_GATEWAY needs RECOUP_TOKEN, too", hint="recoup tokens make operator --name NAME"
            )
        if settings.file is not None:
            _waiting(f"settings are read from {settings.file}")
        await serve_gateway(settings.gateway, settings.token, read_only=read_only)
        return
    wait_max_s = None if http else WAIT_MAX_S
    async with open_app(settings, os.environ, _waiting, wait_max_s=wait_max_s) as app:
        if http:
            await serve_http(
                *(app, port, lambda url: _opened(url, as_json)),
                read_only=read_only,
                plan_folders=plan_folders,
            )
        else:
            await serve_stdio(app, f"{local_user()} (mcp)", read_only=read_only)


def _settings(ctx: click.Context) -> Settings:
    from recoup.settings import read_settings

    return read_settings(os.environ, Path.cwd(), (ctx.find_root().obj or {}).get("home"))


def _waiting(words: str) -> None:
    """On stderr: over stdio, stdout is the client's."""
    note(f"recoup: {words}")


def _opened(url: str, as_json: bool) -> None:
    if as_json:
        print_json({"url": url})
    else:
        note(f"serving MCP on {url} (Ctrl-C ends it)")
