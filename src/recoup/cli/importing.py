"""`import`: plans of other programs become plans of Recoup."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.output import json_option, settings_of
from recoup.errors import NotFound, UsageError
from recoup.terminal.writer import hand_over, note, print_json

if TYPE_CHECKING:
    from recoup.documents.openchrome import Translation

NOT_TURNED = 3


@click.group("import")
def importing() -> None:
    """Turn another program's plan into a plan of Recoup.

    \b
    Example:
      recoup import openchrome plan.json --output plan.yaml
    """


@importing.command(short_help="Turn a compiled plan of openchrome.")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the plan there.")
@click.option(
    "--partial", is_flag=True, help="Write it even if steps cannot be turned: a person is asked to do them."
)
@json_option
@click.pass_context
def openchrome(ctx: click.Context, plan: Path, output: Path | None, partial: bool, as_json: bool) -> None:
    """Turn PLAN, a compiled plan of openchrome, into a plan of Recoup, and name what cannot be turned.

    The plan goes to stdout, or to --output; what there is to say about it goes to stderr. What cannot
    be turned (elements that are named by a sentence, for example) becomes with --partial a gate that asks a person.

    \b
    Exit codes: 0 turned, 3 no compiled plan, or something cannot be turned and --partial is not given.

    \b
    Examples:
      recoup import openchrome ~/.openchrome/plans/plans/login.json --output login.yaml
      recoup import openchrome login.json --partial > login.yaml
    """
    translation = _translated(ctx, plan, output)
    writes = translation.complete or partial
    if writes and output is not None:
        write_new(output, translation.text())
    if as_json:
        print_json(_document(translation, output if writes else None, 0 if writes else NOT_TURNED))
    elif writes and output is None:
        hand_over(translation.text())
    _report(translation, plan, output if writes else None, partial)
    ctx.exit(0 if writes else NOT_TURNED)


def _translated(ctx: click.Context, plan: Path, output: Path | None) -> Translation:
    """As `recoup check` would find it: nothing wrong."""
    from recoup.cli.run import read_policy_of
    from recoup.documents.openchrome import read_openchrome
    from recoup.runtimes.shell import script_problem

    if not plan.exists():
        raise NotFound(f"there is no file {plan}", hint="Give the path of a compiled plan of openchrome.")
    policy = read_policy_of(settings_of(ctx))
    translation = read_openchrome(plan, script_problem, policy)
    translation.checked(policy, None if output is None else output.absolute())
    return translation


def write_new(output: Path, text: str) -> None:
    """A plan that somebody may have worked on is never overwritten."""
    try:
        with output.open("x", encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
            except OSError:
                with contextlib.suppress(OSError):
                    output.unlink()
                raise
    except FileExistsError:
        raise UsageError(
            f"{output} is there already", hint="Remove it first, or choose another name for --output."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror}", hint="Choose another place for --output."
        ) from None


def _document(translation: Translation, output: Path | None, exit_code: int) -> dict[str, Any]:
    import msgspec

    return {
        "workflow": translation.plan["name"],
        "steps": [step["id"] for step in translation.plan["steps"]],
        "complete": translation.complete,
        "notTurned": msgspec.to_builtins(translation.not_turned),
        "notes": msgspec.to_builtins(translation.notes),
        "output": None if output is None else str(output),
        "plan": translation.plan,
        "exitCode": exit_code,
    }


def _report(translation: Translation, plan: Path, output: Path | None, partial: bool) -> None:
    for line in translation.remarks():
        note(line)
    steps = len(translation.plan["steps"])
    counted = f"{steps} step{'' if steps == 1 else 's'}, {len(translation.not_turned)} not turned"
    where = "" if output is None else f", written to {output}"
    if translation.complete or partial:
        note(f"{plan}: {counted}{where}")
        return
    note(f"recoup: {plan}: {counted}, so nothing is written")
    note("Give --partial to write the plan all the same, with what is left for a person to do.")
