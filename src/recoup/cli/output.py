"""What commands have in common: options, the application, errors, lengths of time."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from recoup.errors import InvalidPlan, NotFound, RecoupError
from recoup.terminal.writer import clean_reports, note_lines, print_json

if TYPE_CHECKING:
    from recoup.settings import Settings

Answer = TypeVar("Answer")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_error(error: RecoupError) -> int:
    """To stderr in words, and with --json as a document on stdout too; returns the exit code."""
    note_lines(f"recoup: {error.message}")
    if error.what_to_do:
        note_lines(error.what_to_do)
    if "--json" in sys.argv:
        problems = msgspec.to_builtins(error.problems) if isinstance(error, InvalidPlan) else []
        print_json(
            {
                "error": error.message,
                "hint": error.what_to_do,
                "problems": problems,
                "exitCode": error.exit_code,
            }
        )
    return error.exit_code


def settings_of(ctx: click.Context) -> Settings:
    from recoup.settings import read_settings

    return read_settings(os.environ, Path.cwd(), (ctx.find_root().obj or {}).get("home"))


def with_app(
    ctx: click.Context,
    work: Callable[[Any], Awaitable[Answer]],
    waiting: Callable[[str], None] | None = None,
    *,
    disk_too: bool = False,
    makes_home: bool = True,
) -> Answer:
    """Open the application for one piece of work. `waiting` hears that the database is away and is waited for; without
    it the command fails. `disk_too`: a disk that cannot be written is waited for, too. `makes_home`: False for a
    command that reads, or acts on what is there already: it leaves no home where there was none."""
    from recoup.app import open_app
    from recoup.settings import require_own_home

    settings = settings_of(ctx)
    clean_reports()

    async def inside(settings: Settings, named_home: Path) -> Answer:
        async with open_app(settings, os.environ, waiting, disk_too=disk_too) as app:
            app.runs.named_home = named_home
            return await work(app)

    if makes_home or not is_missing(settings.home) or settings.database != settings.home / "ledger.db":
        return asyncio.run(inside(settings, settings.home))
    from tempfile import TemporaryDirectory  # brings much, and few commands need it

    require_own_home(settings.home)
    _must_not_be_mistyped(ctx, settings.home)
    with TemporaryDirectory(prefix="recoup-") as empty:
        home = Path(empty)
        nothing = dataclasses.replace(settings, home=home, database=home / "ledger.db")
        return asyncio.run(inside(nothing, settings.home))


def is_missing(home: Path) -> bool:
    """There is nothing of this name. A home that cannot be looked at may be there."""
    try:
        home.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _must_not_be_mistyped(ctx: click.Context, home: Path) -> None:
    """A home that nobody named is made by the first run."""
    if (ctx.find_root().obj or {}).get("home"):
        raise NotFound(
            f"there is no home {home}", hint="Check --home. `recoup run` and `recoup submit` make a new one."
        )
