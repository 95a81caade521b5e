"""`simulate`: what another policy would have decided, and storms that test this program itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from recoup.cli.output import json_option, with_app
from recoup.errors import UsageError
from recoup.kernel.wording import duration, one_line
from recoup.terminal.moments import second
from recoup.terminal.writer import note, print_json, say

if TYPE_CHECKING:
    from recoup.kernel.whatif import Replayed
    from recoup.model.answers.whatif import Difference
    from recoup.simulation.replaying import WhatIf
    from recoup.simulation.storm import Ended

_BROKEN = 1
_RUNS_MAX = 100_000
_RUNS_STORM = 10_000
_LISTED_MAX = 20
_HEADS = ("workflow", "runs", "same", "other wait", "stops earlier", "goes on", "unknown")


@click.command()
@click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path), metavar="FILE", help="Another policy."
)
@click.option("--workflow", metavar="NAME", help="Only runs of this one.")
@click.option("--since", metavar="TIME", help="Only runs submitted within this time: 12h, 7d.")
@click.option(
    "--storm", is_flag=True, help="Test this program: the real engine in virtual time, with faults."
)
@click.option("--seed", type=click.IntRange(0), help="Of the storm: the same seed gives the same events.")
@click.option("--runs", type=click.IntRange(1, _RUNS_MAX), help=f"In the storm; {_RUNS_STORM} unless told.")
@json_option
@click.pass_context
def simulate(
    ctx: click.Context,
    policy_file: Path | None,
    workflow: str | None,
    since: str | None,
    storm: bool,
    seed: int | None,
    runs: int | None,
    as_json: bool,
) -> None:
    """Replay recorded runs under another policy, and say what would have been decided otherwise.

    The decisions are made again from the recorded facts, by the functions that made them. What would have followed on
    something that never happened is unknown, and is said to be. Nothing is changed.

    \b
    Examples:
      recoup simulate --policy new.yaml
      recoup simulate --policy new.yaml --workflow invoice-sync --since 7d --json
      recoup simulate --storm --seed 7 --runs 1000
    """
    if storm:
        if policy_file or workflow or since:
            raise UsageError(
                "--storm goes with --seed and --runs only", hint="recoup simulate --storm --seed 7"
            )
        ctx.exit(_storm(seed or 0, runs or _RUNS_STORM, as_json))
    if policy_file is None:
        raise UsageError("--policy is missing", hint="recoup simulate --policy new.yaml (or --storm)")
    if seed is not None or runs is not None:
        raise UsageError("--seed and --runs go with --storm", hint="recoup simulate --storm --seed 7")
    ctx.exit(_what_if(ctx, policy_file, workflow, since, as_json))


# Another policy


def _what_if(
    ctx: click.Context, policy_file: Path, workflow: str | None, since: str | None, as_json: bool
) -> int:
    from recoup.documents.policy_file import read_policy
    from recoup.operations.policies import WhatIfRequest, what_if
    from recoup.simulation.replaying import what_if_document

    asked = WhatIfRequest(policy=read_policy(policy_file), workflow=workflow, since_s=_since_s(since))
    found = with_app(ctx, lambda app: what_if(app, asked))
    print_json(what_if_document(found)) if as_json else _print(found, policy_file)
    return 0


def _since_s(since: str | None) -> float | None:
    from recoup.shapes.durations import duration_s

    if since is None:
        return None
    try:
        return duration_s(since)
    except ValueError as error:
        raise UsageError(f"--since {since} {error}", hint="For example: --since 7d") from None


def _print(found: WhatIf, policy_file: Path) -> None:
    decisions = sum(tally.decisions for tally in found.workflows)
    if found.same:
        say(
            f"nothing would have been decided otherwise: {_count(found.runs, 'run')}, {_count(decisions, 'decision')}"
        )
    else:
        say(f"{_count(found.runs, 'run')}, {_count(decisions, 'decision')} made again under {policy_file}")
        say()
        _print_table(found)
        _print_modes(found)
        say()
        say("most different:")
        for one in found.most_different:
            say(f"  {one.run_id}  {_why(one)}")
    if found.cut:
        say()
        say(f"only the newest {found.runs} runs were looked at: narrow it with --workflow or --since")
    if found.unreadable:
        say()
        say(f"left out, because an event cannot be read: {', '.join(found.unreadable[:20])}")
    if found.unseen_keys:
        say()
        say(f"not to be seen in what was recorded: {', '.join(found.unseen_keys)}")


def _print_table(found: WhatIf) -> None:
    rows = [
        (tally.workflow, str(tally.runs), *(str(count) for count in tally.verdicts.values()))
        for tally in found.workflows
    ]
    widths = [max(len(row[column]) for row in [_HEADS, *rows]) for column in range(len(_HEADS))]
    for row in [_HEADS, *rows]:
        cells = [
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(cells).rstrip())
    saved = sum(tally.attempts_saved for tally in found.workflows)
    lost = sum(tally.recoveries_lost for tally in found.workflows)
    more = sum(tally.more_attempts_max for tally in found.workflows)
    say()
    say(
        f"saved: {_count(saved, 'attempt')} and {duration(sum(tally.seconds_saved for tally in found.workflows))}; "
        f"spent: {duration(sum(tally.seconds_spent for tally in found.workflows))} of waiting"
    )
    if lost:
        say(f"LOST: {_count(lost, 'recovery', 'recoveries')} that came after the new end")
    if more:
        say(f"unknown: runs that would have gone on, with at most {_count(more, 'attempt')} more")


def _print_modes(found: WhatIf) -> None:
    from recoup.simulation.replaying import modes_that_differ

    for mode in modes_that_differ(found):
        say()
        say(f"modes of {mode.workflow}, from its recorded step results:")
        for changes, words in (
            (mode.would_have_begun, "would have been"),
            (mode.would_not_have_begun, "would not have been"),
        ):
            for change in changes[:_LISTED_MAX]:
                say(one_line(f"  {words} {change.mode} at {second(change.at)}: {change.reason}"))
            if len(changes) > _LISTED_MAX:
                say(f"  and {len(changes) - _LISTED_MAX} more")
        if mode.attempts_blocked:
            say(
                f"  {_count(mode.attempts_blocked, 'run')} would have been blocked; from there on they are unknown"
            )
        if mode.runs_not_blocked:
            say(
                f"  blocked {_count(mode.runs_not_blocked, 'time')} when it would not have been: what would have "
                "followed is unknown"
            )


def _why(one: Replayed) -> str:
    last = one.differences[-1]
    where = f"{last.step_id} attempt {last.attempt}: " if last.step_id and last.attempt else ""
    waits = sum(difference.kind == "other_wait" for difference in one.differences)
    before = f"{_count(waits, 'other wait')}; " if waits and last.kind != "other_wait" else ""
    return f"{before}{where}{last.instead}, not {last.recorded}; {_consequence(last)}"


def _consequence(last: Difference) -> str:
    match last.kind:
        case "other_wait":
            saved = last.seconds_saved
            return f"saves {duration(saved)}" if saved >= 0 else f"waits {duration(-saved)} longer"
        case "stops_earlier":
            lost = ", and LOSES the recovery that followed" if last.recovery_lost else ""
            return f"saves {_count(last.attempts_saved, 'attempt')} and {duration(last.seconds_saved)}{lost}"
        case "goes_on" if last.more_attempts_max is not None:
            return f"unknown from here: at most {_count(last.more_attempts_max, 'attempt')} more"
        case _:
            return "unknown from here"


def _count(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


# Storms


def _storm(seed: int, runs: int, as_json: bool) -> int:
    import time

    from recoup.simulation.storms import storms, together

    begun_s = time.monotonic()
    so_far: list[Ended] = []
    for one in storms(seed, runs):
        so_far.append(one)
        if one.runs < runs and not as_json:
            held = "every invariant holds" if not one.broken else f"{len(one.broken)} BROKEN"
            done = sum(ended.runs for ended in so_far)
            note(f"{done} of {runs} runs (seed {one.seed}: {one.events} events, {held})")
    ended, took_s = together(so_far), time.monotonic() - begun_s
    if as_json:
        import msgspec

        print_json({"held": not ended.broken, "tookS": round(took_s, 1), **msgspec.to_builtins(ended)})
    else:
        _print_storm(ended, took_s)
    return _BROKEN if ended.broken else 0


def _print_storm(ended: Ended, took_s: float) -> None:
    statuses = ", ".join(f"{count} {status}" for status, count in ended.statuses.items())
    say(
        f"{_count(ended.runs, 'run')} in {duration(took_s)} ({duration(ended.virtual_s)} of virtual time): {statuses}"
    )
    troubles = ", ".join(
        f"{count} {name.replace('_', ' ')}" for name, count in sorted(ended.troubles.items())
    )
    say(f"troubles: {troubles or 'none'}; {_count(ended.kills, 'process', 'processes')} killed")
    say(f"{_count(ended.events, 'event')}, digest {ended.digest[:16]} (seed {ended.seed})")
    if not ended.broken:
        say("every invariant holds")
    for words in ended.broken:
        say(f"BROKEN {words}")
