"""What would be reused and what would run, said before it happens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from recoup.cli.output import print_json, write_line
from recoup.errors import UsageError
from recoup.kernel.wording import one_line

if TYPE_CHECKING:
    from recoup.kernel.reuse import Reuse, StepReuse

_NAMES_MAX = 10


def check_allowed(reuse: Reuse) -> None:
    """Before anything is recorded."""
    if reuse.refusal is not None:
        raise UsageError(reuse.refusal, hint=reuse.hint)


def print_preview(reuse: Reuse, *, as_json: bool) -> None:
    """The whole answer, for `--dry-run`."""
    check_allowed(reuse)
    if as_json:
        print_json(reuse.document())
        return
    click.echo(f"run {reuse.run_id}: {reuse.count} of {len(reuse.steps)} steps would be reused")
    for step in reuse.steps:
        sign, verb = ("✓", "reused") if step.reused else ("▶", "runs")
        click.echo(one_line(f"  {sign} {step.step_index:>3}  {step.step_id:<24} {verb:<7} {step.reason}"))


def say_preview(reuse: Reuse, *, quiet: bool) -> None:
    """One line, before a run begins."""
    check_allowed(reuse)
    if quiet:
        return
    kept = [step for step in reuse.steps if step.reused]
    rest = reuse.steps[reuse.count :]
    line = f"reuses {len(kept)} of {len(reuse.steps)} steps of run {reuse.run_id}"
    line += f": {_names(kept)}" if kept else ""
    line += f"; begins at {rest[0].step_id}: {rest[0].reason}" if rest else "; nothing is left to run"
    line += f"; then {_names(rest[1:])}" if rest[1:] else ""
    write_line(sys.stderr, one_line(line))


def _names(steps: tuple[StepReuse, ...] | list[StepReuse]) -> str:
    more = len(steps) - _NAMES_MAX
    shown = ", ".join(step.step_id for step in steps[:_NAMES_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
