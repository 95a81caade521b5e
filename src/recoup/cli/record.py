"""`record`: what somebody does in a browser becomes a plan."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from recoup.cli.importing import write_new
from recoup.cli.output import json_option, settings_of
from recoup.errors import SettingsError, UsageError
from recoup.files.named import read_named
from recoup.terminal.writer import hand_over, note, print_json

if TYPE_CHECKING:
    from recoup.runtimes.browser.record import Wanted, Watched

STEPS_MAX = 1_000
LONGEST_S = 3_600
SCRIPT_BYTES_MAX = 4 << 20


@click.command()
@click.argument("url")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the plan there.")
@click.option("--name", metavar="NAME", help="Of the plan; the host of URL otherwise.")
@click.option("--steps", type=click.IntRange(1, STEPS_MAX), default=STEPS_MAX, help="Record at most so many.")
@click.option(
    "--seconds", type=click.IntRange(1, 24 * 3_600), default=LONGEST_S, help="Record at most so long."
)
@click.option("--headless", is_flag=True, help="Without a window; needs --script.")
@click.option(
    "--script", type=click.Path(path_type=Path), metavar="FILE", help="Do what this JSON file says."
)
@json_option
@click.pass_context
def record(ctx: click.Context, /, url: str, output: Path | None, as_json: bool, **how: Any) -> None:
    """Open a browser at URL and write a plan of what you do there.

    Close the window or press Ctrl-C when you are done. Every element is written as people name it, and in full
    beside it, so that it is found again when the page has changed. What is typed into a field for passwords, or looks
    like a secret, becomes an input of the plan; so do the files that are uploaded.

    The plan goes to stdout, or to --output; what there is to say about it goes to stderr.

    \b
    A script is a list such as [{"do": "fill", "css": "#who", "value": "Ada"}, {"do": "click", "css": "button"}].

    \b
    Examples:
      recoup record https://shop.example/login --output login.yaml
      recoup record https://shop.example --headless --script moves.json > shop.yaml
    """
    if output is not None and output.exists():
        raise UsageError(f"{output} is there already", hint="Remove it first, or choose another name.")
    wanted = _wanted(url, how)
    watched = _watched(wanted)
    plan, text = _plan(how["name"] or urlsplit(url).hostname or "recorded", watched)
    if output is not None:
        write_new(output, text)
    if as_json:
        document = {"steps": len(plan["steps"]), "remarks": watched.remarks, "plan": plan, "exitCode": 0}
        print_json({"output": None if output is None else str(output), **document})
    elif output is None:
        hand_over(text)
    _report(plan, watched, output)
    _check(ctx, text, output)


def _wanted(url: str, how: dict[str, Any]) -> Wanted:
    if urlsplit(url).scheme not in ("http", "https", "file"):
        raise UsageError(f"{url} is no address", hint="Give one with http:// or https://.")
    if how["headless"] and how["script"] is None:
        raise UsageError(
            "without a window nobody can do anything", hint="Give --script, or leave out --headless."
        )
    _needs_library()
    from recoup.runtimes.browser.record import Wanted
    from recoup.runtimes.browser.scripted_person import read_moves

    moves = None if how["script"] is None else tuple(read_moves(_read(how["script"])))
    return Wanted(
        url=url, headless=how["headless"], moves=moves, longest_s=how["seconds"], deeds_max=how["steps"]
    )


def _needs_library() -> None:
    from recoup.runtimes.browser.finding import has_library

    if not has_library():
        raise SettingsError("Playwright is missing", hint="Get it: pip install 'recoup[browser]'")


def _read(file: Path) -> bytes:
    try:
        text = read_named(file, SCRIPT_BYTES_MAX + 1, pipes=True)
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror}", hint="Name a file for --script."
        ) from None
    if len(text) > SCRIPT_BYTES_MAX:
        raise UsageError(f"{file} has more than {SCRIPT_BYTES_MAX} bytes", hint="Split the script.")
    return text


def _watched(wanted: Wanted) -> Watched:
    from recoup.runtimes.browser.record import watch
    from recoup.shapes.aria_roles import ROLES
    from recoup.targets.naming import named

    def opened() -> None:
        note("Recording. Close the window, or press Ctrl-C, when you are done.")

    return asyncio.run(watch(wanted, partial(named, roles=ROLES), os.environ, opened))


def _plan(name: str, watched: Watched) -> tuple[dict[str, Any], str]:
    from recoup.documents.plan_yaml import plan_text
    from recoup.documents.recorded_plan import recorded_plan

    plan = recorded_plan(name, watched.deeds, _cleaner(watched))
    return plan, plan_text(plan, ["Made by `recoup record`.", *watched.remarks])


def _check(ctx: click.Context, text: str, output: Path | None) -> None:
    """Only when it is written: what a person did is not thrown away for something that can be mended in the file."""
    from recoup.cli.run import read_policy_of
    from recoup.documents.plan_file import parse_plan

    folder = Path() if output is None else output.absolute().parent
    parse_plan(text, str(output or "the recorded plan"), folder, policy=read_policy_of(settings_of(ctx)))


def _cleaner(watched: Watched) -> Callable[[str], str]:
    """Hides what was typed in secret wherever a page shows it, and what looks like a secret."""
    from recoup.redaction.redactor import SecretTooShort
    from recoup.redaction.registration import environment_redactor

    redactor = environment_redactor(os.environ)
    for number, value in enumerate(watched.secrets, 1):
        try:
            redactor.register(f"typed-{number}", value)
        except SecretTooShort:
            watched.remarks.append("a secret that was typed is too short to be found where pages show it")
        except ValueError as error:
            watched.remarks.append(f"a secret that was typed may stand where pages show it: {error}")
    return lambda text: redactor.redact(text).data.decode("utf-8", "replace")


def _report(plan: dict[str, Any], watched: Watched, output: Path | None) -> None:
    for remark in watched.remarks:
        note(f"To know: {remark}")
    needed = ", ".join(plan.get("inputs", {}))
    steps = len(plan["steps"])
    where = "" if output is None else f", written to {output}"
    note(f"{steps} step{'' if steps == 1 else 's'}{where}")
    if needed:
        note(f"It needs these inputs when it is run: {needed}")
