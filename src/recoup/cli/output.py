"""How things are printed: data on stdout, progress and errors on stderr."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
import msgspec

from recoup.errors import InvalidPlan, RecoupError

if TYPE_CHECKING:
    from recoup.settings import Settings

Answer = TypeVar("Answer")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(document: Any) -> None:
    """One document on one line, so that streams of them are JSON lines."""
    write_line(sys.stdout, msgspec.json.encode(document).decode())


def write_line(stream: TextIO, text: str) -> None:
    """A reader that goes away (`| head`) must not end the work: it goes on unread."""
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_error(error: RecoupError) -> int:
    """To stderr in words, and with --json as a document on stdout too; returns the exit code."""
    click.echo(f"recoup: {error.message}", err=True)
    if error.what_to_do:
        click.echo(error.what_to_do, err=True)
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
) -> Answer:
    """Open the application for one piece of work. `waiting` hears that the database is away and is waited for; without
    it the command fails. `disk_too`: a disk that cannot be written is waited for, too."""
    from recoup.app import open_app

    settings = settings_of(ctx)

    async def inside() -> Answer:
        async with open_app(settings, os.environ, waiting, disk_too=disk_too) as app:
            return await work(app)

    return asyncio.run(inside())


def seconds(value: float) -> str:
    """A length of time as people say it."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
