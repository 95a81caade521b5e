"""`audit`: the ledger's events as files that nobody can change unnoticed."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.output import json_option, settings_of, with_app
from recoup.errors import UsageError
from recoup.terminal.moments import second
from recoup.terminal.writer import hand_over, is_terminal, print_json, print_json_text, say

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.audit.exporting import Exported
    from recoup.audit.verifying import Verified
    from recoup.settings import Settings

_FOLLOW_S = 0.5
_BROKEN = 1


@click.group()
def audit() -> None:
    """Export every event of every run to files in which each line hangs on the one before it, and verify them.

    \b
    Examples:
      recoup audit export
      recoup audit verify
      recoup audit show --since 1h --type task.self_heal.triggered
    """


@audit.command("export", short_help="Append what the files do not hold yet.")
@click.option("--follow", "-f", is_flag=True, help="Go on as events come, until interrupted.")
@json_option
@click.pass_context
def export_(ctx: click.Context, follow: bool, as_json: bool) -> None:
    """Append to the files in the home's folder `audit` what they do not hold yet.

    \b
    Examples:
      recoup audit export
      recoup audit export --follow --json
    """

    async def work(app: App) -> None:
        from recoup.operations.audit import export_audit, follow_audit

        folder_of(app.settings)
        if not follow:
            _print_exported(await export_audit(app), as_json)
            return
        said_n = -1
        async for done in follow_audit(app, _FOLLOW_S):
            if done.n != said_n:
                _print_exported(done, as_json)
            said_n = done.n

    with_app(ctx, work)


@audit.command("verify")
@click.option(
    "--folder", type=click.Path(path_type=Path), metavar="DIR", help="A copy of an audit, without a ledger."
)
@json_option
@click.pass_context
def verify_(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """Walk all files, line by line, and compare them with the ledger. Exit code 0: intact; 1: broken.

    \b
    Examples:
      recoup audit verify
      recoup audit verify --folder /mnt/archive/audit --json
    """
    from recoup.audit.verifying import verify

    settings = settings_of(ctx)
    root = folder or folder_of(settings)
    if folder is not None and not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}", hint="Name the folder that holds audit-000001.jsonl."
        )

    async def compare(app: App) -> Verified:
        from recoup.operations.audit import verify_audit

        return await verify_audit(app)

    if folder is None and isinstance(settings.database, Path):
        from recoup.ledger.loss import require_present

        require_present(settings.database)
    beside = folder is None and settings.database.exists()
    report = with_app(ctx, compare) if beside else asyncio.run(verify(root))
    if as_json:
        print_json(_document(report))
    else:
        _print_report(root, report)
    ctx.exit(0 if report.intact else _BROKEN)


@audit.command("show", short_help="Print what was exported, oldest first.")
@click.option("--since", metavar="DURATION", help="Only what is younger than this: 90s, 15m, 1h30m, 2d.")
@click.option("--type", "kind", metavar="TYPE", help="Only events whose type begins like this.")
@json_option
@click.pass_context
def show(ctx: click.Context, since: str | None, kind: str | None, as_json: bool) -> None:
    """Print what was exported, oldest first: with --json the lines as they are. Nothing is verified.

    \b
    Examples:
      recoup audit show --since 1h
      recoup audit show --type audit.gap --json
    """
    from recoup.audit.reading import lines

    root, begin = folder_of(settings_of(ctx)), _begin(since)
    for line, body in lines(root):
        if body.at < begin or not body.type.startswith(kind or ""):
            continue
        if as_json:
            print_json_text(line.decode()) if is_terminal() else hand_over(line + b"\n")
        else:
            say(f"{body.n:>7}  {second(body.at)}  {body.type:<28} {body.stream} {body.seq}")


def folder_of(settings: Settings) -> Path:
    from recoup.settings import require_own_home

    with contextlib.suppress(OSError):  # reading the audit says it better
        require_own_home(settings.home)
    return settings.home / "audit"


def _begin(since: str | None) -> str:
    if since is None:
        return ""
    from recoup.clock import SystemClock
    from recoup.shapes.durations import duration_s

    try:
        return SystemClock().now().plus_s(-duration_s(since)).iso()
    except ValueError as error:
        raise UsageError(f"--since {since} {error}", hint="For example: --since 1h") from None


def _print_exported(done: Exported, as_json: bool) -> None:
    if as_json:
        print_json({"events": done.events, "n": done.n, "file": str(done.file) if done.file else None})
    else:
        say(f"{_count(done.events, 'event')} exported; the audit ends with line {done.n} in {done.file}")


def _document(report: Verified) -> dict[str, Any]:
    import msgspec

    return {"intact": report.intact, **msgspec.to_builtins(report)}


def _print_report(root: Path, report: Verified) -> None:
    found = report.first_break
    say(f"audit in {root}: {'intact' if found is None else 'BROKEN'}")
    if found is not None:
        where = found.file if found.line is None else f"{found.file}:{found.line}"
        say(f"{where}: {found.what}")
    good = "" if found is None else " before that"
    say(
        f"{_count(report.lines, 'good line')}{good}, {_count(report.events, 'event')}, "
        f"in {_count(report.files, 'file')}"
    )
    for gap in report.gaps:
        state = "filled from the ledger" if gap.filled else "not filled yet: recoup audit export"
        kept = f", {gap.gap.bytes} bytes kept in {gap.gap.kept_as}" if gap.gap.kept_as else ""
        say(f"{gap.file}:{gap.line}: a gap ({gap.gap.reason}{kept}), {state}")
    if report.ledger is not None:
        waiting = report.ledger.waiting
        wait = f", {waiting} not exported yet: recoup audit export" if waiting else ""
        pruned = f", {report.ledger.pruned} pruned" if report.ledger.pruned else ""
        say(f"ledger: {_count(report.ledger.events, 'event')}{pruned}{wait}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
