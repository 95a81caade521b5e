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
    from recoup.operations.submission import RunPlan, SubmitRequest, SubmitResult

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
@click.option("--reason", help="Why; it is recorded.")
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
    reason: str | None,
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
    if dedup_key is not None and not 0 < len(dedup_key) <= _KEY_CHARS_MAX:
        raise UsageError(f"--dedup-key must have 1 to {_KEY_CHARS_MAX} characters")
    if at is not None:
        _time_us(at, time_ns() // 1000)
    from recoup.operations.submission import RunPlan, SubmitRequest, queued_of

    request = SubmitRequest(
        plan_path=str(plan.absolute()),
        inputs=given,
        queue=queue,
        priority=priority,
        needs=needs,
        dedup_key=dedup_key,
        reuse=reuse_name,
        from_step=from_step,
        heal=heal,
        reason=reason,
    )
    queued_of(request, parsed)
    run_plan = RunPlan(parsed, given, request.plan_path)
    ctx.exit(with_app(ctx, lambda app: _submitted(app, request, run_plan, at, dry_run, as_json)))


async def _submitted(
    app: App, request: SubmitRequest, run_plan: RunPlan, at: str | None, dry_run: bool, as_json: bool
) -> int:
    from recoup.cli.check import notes_on_names
    from recoup.cli.preview import print_preview, say_preview
    from recoup.operations.recording import preview
    from recoup.operations.submission import reusing_of, submit

    if request.reuse is not None:
        request = msgspec.structs.replace(request, reuse=await app.runs.find(request.reuse))
    not_before_us = None if at is None else _time_us(at, app.world.clock.now().wall_us)
    if (reusing := await reusing_of(app, request)) is not None:
        reuse = await preview(app, run_plan.plan, run_plan.inputs, run_plan.source, reusing)
        if dry_run:
            print_preview(reuse, as_json=as_json)
            return 0
        say_preview(reuse, quiet=as_json)
    for words in notes_on_names(run_plan.plan):
        note(f"note: {words}")
    _print(await submit(app, request, run_plan, local_user(), not_before_us=not_before_us), as_json)
    return 0


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


def _print(submitted: SubmitResult, as_json: bool) -> None:
    if as_json:
        told = {"runId": submitted.run_id, "queue": submitted.queue, "duplicate": submitted.duplicate}
        print_json(told | ({"differs": submitted.differs} if submitted.differs else {}))
    else:
        say(submitted.run_id)
    if submitted.duplicate:
        note(f"note: submitted before under this key: recoup show {submitted.run_id}")
    if submitted.note:
        note(f"{'WARNING' if submitted.differs else 'note'}: {submitted.note}")
