"""`prune`: forget what ended long ago."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.output import json_option, with_app
from recoup.errors import UsageError
from recoup.terminal.writer import note, print_json, say

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.storage import EndedRun
    from recoup.operations.retention import Pruned

LIMIT = 1_000_000
YOUNGEST_S = 3_600.0
OLDEST_S = 36_500 * 86_400.0
_LISTED_MAX = 20
_TOLD_EVERY_S = 1.0
_INCOMPLETE = 1


@click.command()
@click.option(
    "--older-than", required=True, metavar="DURATION", help="Since when they must be over: 12h, 30d, 365d."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT),
    default=LIMIT,
    metavar="N",
    help="Forget about so many runs at most; linked runs go together.",
)
@click.option("--force", is_flag=True, help="Also what ended less than an hour ago.")
@json_option
@click.pass_context
def prune(ctx: click.Context, older_than: str, dry_run: bool, limit: int, force: bool, as_json: bool) -> int:
    """Forget runs that ended long ago: their events, folders, parcels in the depot, and evidence that nobody cites.

    Only what is over goes: no delivery follows, nobody holds it, and all runs linked to it are over and as old.
    Workflows, their modes and the policy stay, and so does the audit, which is brought up to date first.

    \b
    Examples:
      recoup prune --older-than 30d --dry-run
      recoup prune --older-than 90d
      recoup prune --older-than 30d --limit 10000 --json
    """
    age_s = _age_s(older_than, force)

    async def work(app: App) -> int:
        from recoup.operations import retention

        if dry_run:
            _print_due(await retention.due(app, age_s, limit), as_json)
            return 0
        pruned, exported = await retention.prune(app, age_s, limit, _Progress())
        _print_pruned(pruned, exported, as_json)
        return _INCOMPLETE if pruned.problems else 0

    return with_app(ctx, work)


class _Progress:
    """A line now and then on stderr."""

    def __init__(self) -> None:
        self._told_s = time.monotonic()

    def __call__(self, words: str) -> None:
        if time.monotonic() - self._told_s >= _TOLD_EVERY_S:
            self._told_s = time.monotonic()
            note(words)


def _age_s(written: str, force: bool) -> float:
    from recoup.shapes.durations import duration_s

    try:
        age_s = duration_s(written, OLDEST_S)
    except ValueError as error:
        raise UsageError(f"--older-than {written} {error}", hint="For example: --older-than 30d") from None
    if age_s < YOUNGEST_S and not force:
        raise UsageError(
            f"--older-than {written}: what ended less than an hour ago may still be looked at",
            hint="Say 1h or more; or --force, if nobody will miss it.",
        )
    return age_s


def _print_due(due: list[EndedRun], as_json: bool) -> None:
    events = sum(run.events for run in due)
    if as_json:
        print_json(
            {"dryRun": True, "runs": len(due), "events": events, "runIds": [run.run_id for run in due]}
        )
        return
    say(f"{_count(len(due), 'run')} with {_count(events, 'event')} would be forgotten")
    for run in due[:_LISTED_MAX]:
        say(f"  {run.run_id}")
    if len(due) > _LISTED_MAX:
        say(f"  and {len(due) - _LISTED_MAX} more (--json lists all)")


def _print_pruned(pruned: Pruned, exported: int | None, as_json: bool) -> None:
    import msgspec

    if as_json:
        document: dict[str, Any] = {"dryRun": False, "exported": exported, **msgspec.to_builtins(pruned)}
        print_json(document)
        return
    parcels = f", {_count(pruned.parcels, 'object')} in the depot" if pruned.parcels else ""
    left = f", {_count(pruned.folders_left, 'folder')} left" if pruned.folders_left else ""
    say(
        f"{_count(pruned.runs, 'run')} with {_count(pruned.events, 'event')} forgotten; removed "
        f"{_count(pruned.folders, 'folder')}{left}, {_count(pruned.evidence, 'piece')} of evidence{parcels}: "
        f"{_size(pruned.bytes)} on this disk"
    )
    for problem in pruned.problems:
        note(f"recoup: {problem}")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(size_bytes: int) -> str:
    value = float(size_bytes)
    for unit in ("bytes", "KB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
