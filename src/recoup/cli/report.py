"""`report`: one page about one run, to read or to hand on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from recoup.cli.completing import complete_run
from recoup.cli.output import json_option, with_app
from recoup.errors import RecoupError, StateError, UsageError
from recoup.files.named import DatabaseInUse, require_no_database
from recoup.machine import TROUBLE_ERRORS
from recoup.terminal.writer import hand_over, note, print_json, say

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.run import RunState
    from recoup.redaction.redactor import SecretRedactor
    from recoup.settings import DatabaseUrl, Settings


@click.command()
@click.argument("run_name", metavar="RUN", shell_complete=complete_run)
@click.option(
    "--output",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="Where to write it, `-` for standard output; report.html among the run's artifacts otherwise.",
)
@click.option("--markdown", is_flag=True, help="Markdown for a pull request instead of an HTML page.")
@json_option
@click.pass_context
def report(ctx: click.Context, run_name: str, output: Path | None, markdown: bool, as_json: bool) -> None:
    """Write one page about a run: what was tried when, what failed and why, what was decided, what changed.

    The page needs no network and no script. Its path is printed. RUN is an id, its beginning, or `last`.

    \b
    Examples:
      recoup report last
      recoup report last --output nightly.html
      recoup report last --markdown --output - | gh pr comment 12 --body-file -
    """
    to_stdout = output is not None and str(output) == "-"
    if to_stdout and as_json:
        raise UsageError("--json says where the report is, and `--output -` prints it", hint="Leave one out.")

    async def work(app: App) -> None:
        run_id = await app.runs.find(run_name)
        page = (await _page(app, run_id, markdown)).encode()
        if to_stdout:
            _print(page)
            return
        name = "report.md" if markdown else "report.html"
        path = (output or app.runs.files(run_id).artifacts / name).absolute()
        _write(path if output is None else _followed(path, app.settings), page)
        if as_json:
            print_json({"runId": run_id, "path": str(path), "bytes": len(page), "markdown": markdown})
        else:
            say(str(path))

    with_app(ctx, work, makes_home=False)


async def _page(app: App, run_id: str, markdown: bool) -> str:
    from recoup.operations.reports import run_page

    redactor = await _redactor_of(app, run_id, await app.runs.shown(run_id))
    return await run_page(app, run_id, redactor, markdown=markdown)


async def _redactor_of(app: App, run_id: str, state: RunState) -> SecretRedactor | None:
    """Everything was redacted when it was stored; once more, for what shows only when colours are taken out."""
    try:
        return await app.hiding.of_run(state)
    except (RecoupError, OSError) as error:
        words = error.message if isinstance(error, RecoupError) else error.strerror
        note(f"recoup: the secrets of {run_id} are not known here ({words}): its records are shown as stored")
        return None


def _print(page: bytes) -> None:
    try:
        hand_over(page)
    except BrokenPipeError:
        raise  # nobody reads on
    except OSError as error:
        raise _unwritable("standard output", error) from None


def _followed(path: Path, settings: Settings) -> Path:
    """Where a link leads, unless that is a file of Recoup's own: a step may have left the link there."""
    target, home = path.resolve(), settings.home
    if target.is_relative_to(home.resolve()) and "artifacts" not in target.parts:
        raise UsageError(
            f"the report cannot be written to {path}: that is a file in the state folder {home}",
            hint="Name another file: --output FILE.",
        )
    if _is_of_the_ledger(target, settings.database):
        raise UsageError(
            f"the report cannot be written to {path}: that is a file of the ledger {settings.database}",
            hint="Name another file: --output FILE.",
        )
    return target


def _is_of_the_ledger(target: Path, database: Path | DatabaseUrl) -> bool:
    """The database may lie outside of the home, with its log, its mark and its lock files beside it."""
    if not isinstance(database, Path):
        return False
    try:
        require_no_database(target)
    except DatabaseInUse:
        return True
    own = database.resolve()
    names = {own.name, *(own.name + suffix for suffix in ("-wal", "-shm", "-journal"))}
    names |= {own.with_suffix(suffix).name for suffix in (".mark", ".turn", ".write")}
    return target.parent == own.parent and target.name in names


def _write(target: Path, page: bytes) -> None:
    from recoup.durable import write_whole

    try:
        if target.is_symlink():
            target.unlink()  # left by a step: a report is a file of its own
        if target.exists() and not target.is_file():
            target.write_bytes(page)  # a device or a pipe is written to, and never replaced by a file
        else:
            write_whole(target, page, durable=False)
    except OSError as error:
        raise _unwritable(str(target), error) from None


def _unwritable(where: str, error: OSError) -> RecoupError:
    kind = StateError if error.errno in TROUBLE_ERRORS else RecoupError
    return kind(
        f"the report cannot be written to {where}: {error.strerror or error}",
        hint="Name another file: --output FILE, or `--output -` for standard output.",
    )
