"""`submit`: a run for workers."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

import click
import msgspec

from recoup.cli.completing import complete_plan, complete_run
from recoup.cli.output import json_option, settings_of, with_app
from recoup.cli.run import (
    dry_run_option,
    from_step_option,
    heal_option,
    input_option,
    parse_inputs,
    read_plan_of,
    read_policy_of,
)
from recoup.errors import UsageError
from recoup.terminal.writer import note, print_json, say
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.fleet.queued import Queued
    from recoup.linked import Reusing
    from recoup.model.plan import Plan
    from recoup.runs.submitting import Submitted

_LATER = re.compile(r"\+?([0-9]{1,6})([smhd])")
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_KEY_CHARS_MAX = 200


@click.command()
@click.argument("plan", type=click.Path(path_type=Path), shell_complete=complete_plan)
@input_option
@click.option("--queue", default="default", show_default=True, help="Workers name the queues they take from.")
@click.option(
    "--priority", type=click.IntRange(-1000, 1000), default=0, show_default=True, help="Higher first."
)
@click.option("--at", "at", metavar="TIME", help="Not before: 2026-11-17T03:00, or 2h from now.")
@click.option("--dedup-key", metavar="KEY", help="One run for each key: a second submission changes nothing.")
@click.option(
    "--needs", multiple=True, metavar="NAME", help="A capability a worker must have; may be repeated."
)
@click.option(
    "--reuse", "reuse_name", metavar="RUN", shell_complete=complete_run,
    help="Do not repeat what is proven in this run.",
)  # fmt: skip
@from_step_option
@dry_run_option
@heal_option
@json_option
@click.pass_context
def submit(
    ctx: click.Context,
    plan: Path,
    inputs: tuple[str, ...],
    queue: str,
    priority: int,
    at: str | None,
    dedup_key: str | None,
    needs: tuple[str, ...],
    reuse_name: str | None,
    from_step: str | None,
    dry_run: bool,
    heal: str | None,
    as_json: bool,
) -> None:
    """Submit PLAN to a queue: a worker runs it (`recoup worker`), as often as `delivery_max` allows.

    Prints the id of the run. Plans with agent or browser steps go to workers with the capability `agent` or
    `browser`.

    \b
    Examples:
      recoup submit plan.yaml
      recoup submit plan.yaml --queue nightly --priority 5 --at 2h
      recoup submit plan.yaml --dedup-key invoices-2026-11 --json
      recoup submit plan.yaml --reuse last --from-step build
    """
    if reuse_name is None and (from_step is not None or dry_run):
        raise UsageError(
            "--from-step and --dry-run say what is reused: name the run with --reuse",
            hint="Look at the plan alone with: recoup check PLAN",
        )
    given = parse_inputs(inputs)
    parsed = read_plan_of(plan, read_policy_of(settings_of(ctx)))
    queued = queued_of(parsed, queue, priority, needs, at, dedup_key)

    async def work(app: App) -> int:
        from recoup.cli.check import notes_on_names
        from recoup.cli.preview import print_preview, say_preview
        from recoup.linked import Reusing
        from recoup.model.target import HealMode

        wanted = queued
        if at is not None:
            wanted = msgspec.structs.replace(
                queued, not_before_us=_time_us(at, app.world.clock.now().wall_us)
            )
        reusing: Reusing | None = None
        source = str(plan.absolute())
        if reuse_name is not None:
            earlier = await app.runs.state(await app.runs.find(reuse_name))
            await app.driving.must_not_be_driven(earlier)
            reusing = Reusing(earlier.run_id, from_step)
            reuse = await app.submitting.preview(parsed, given, source, reusing)
            if dry_run:
                print_preview(reuse, as_json=as_json)
                return 0
            say_preview(reuse, quiet=as_json)
        for words in notes_on_names(parsed):
            note(f"note: {words}")
        told = None if heal is None else HealMode(heal)
        _print(
            await app.submitting.submit_queued(parsed, given, source, wanted, reusing, told), queue, as_json
        )
        return 0

    ctx.exit(with_app(ctx, work))


def queued_of(
    plan: Plan, queue: str, priority: int, needs: tuple[str, ...], at: str | None, dedup_key: str | None
) -> Queued:
    from recoup.fleet.queued import Queued
    from recoup.steps.registry import needs_of

    if dedup_key is not None and not 0 < len(dedup_key) <= _KEY_CHARS_MAX:
        raise UsageError(f"--dedup-key must have 1 to {_KEY_CHARS_MAX} characters")
    queued = Queued(
        queue=queue,
        priority=priority,
        needs=tuple(sorted(needs_of(plan) | set(needs))),
        not_before_us=0 if at is None else _time_us(at, time_ns() // 1000),
        dedup_key=dedup_key,
        submitted_by=local_user(),
    )
    queued.hint("x")
    return queued


def _time_us(at: str, now_us: int) -> int:
    """`now_us` by the clock that workers count by."""
    if later := _LATER.fullmatch(at):
        return now_us + round(int(later[1]) * _UNIT_S[later[2]] * 1e6)
    try:
        time = datetime.fromisoformat(at)
    except ValueError:
        raise UsageError(
            f"--at {at!r} is no time", hint="Examples: --at 2h, --at 2026-11-17T03:00, --at 2026-11-17T03:00Z"
        ) from None
    return round(time.astimezone(UTC).timestamp() * 1e6)


def _print(submitted: Submitted, queue: str, as_json: bool) -> None:
    if as_json:
        told = {"runId": submitted.run_id, "queue": queue, "duplicate": submitted.duplicate}
        print_json(told | ({"differs": submitted.differs} if submitted.differs else {}))
    else:
        say(submitted.run_id)
    if submitted.duplicate:
        note(f"note: submitted before under this key: recoup show {submitted.run_id}")
    if submitted.note:
        note(f"{'WARNING' if submitted.differs else 'note'}: {submitted.note}")
