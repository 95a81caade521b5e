"""`runs`, `show`, `events`, `ledger`, `logs`: what happened, from the ledger."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.completing import complete_run, complete_step
from recoup.cli.output import json_option, print_json, seconds, with_app, write_line
from recoup.errors import EventUnreadable, NotFound, RowUnreadable, UsageError
from recoup.files.named import read_named
from recoup.kernel.wording import one_line
from recoup.model.failure import FailureClass
from recoup.model.ids import run_stream
from recoup.model.run import RunStatus

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.events import Event
    from recoup.model.run import RunState, StepRecord
    from recoup.model.storage import LeaseRow, RunFilter, RunRow

_FOLLOW_S = 0.25
_REASON_MAX = 80
_SINCE_MAX_S = 3_650 * 86_400.0
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m|\r")
_ENDED = ("succeeded", "failed", "cancelled", "dead_letter")
_MARKS = {
    "passed": "✓",
    "unverified": "✓",
    "recovered": "✓",
    "failed": "✗",
    "invalidated": "↺",
    "not_run": "·",
}

run_argument = click.argument("run_name", metavar="RUN", shell_complete=complete_run)


@click.command()
@click.option("--workflow", help="Only runs of this workflow.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([status.value for status in RunStatus]),
    help="Only runs with this status; repeatable.",
)
@click.option(
    "--class",
    "failure_class",
    type=click.Choice([cls.value for cls in FailureClass]),
    help="Only runs that failed like this.",
)
@click.option(
    "--worker", metavar="WORKER", help="Only runs that this one drives, or drove last: recoup workers."
)
@click.option("--since", metavar="DURATION", help="Only runs submitted within this time: 90s, 15m, 2h, 7d.")
@click.option("--text", default="", help="Only runs in whose id, workflow or reason this stands.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@json_option
@click.pass_context
def runs(
    ctx: click.Context,
    workflow: str | None,
    statuses: tuple[str, ...],
    failure_class: str | None,
    worker: str | None,
    since: str | None,
    text: str,
    limit: int,
    as_json: bool,
) -> None:
    """List runs, newest first.

    \b
    Examples:
      recoup runs
      recoup runs --workflow invoice-sync --status failed --status dead_letter --json
      recoup runs --since 2h --text timeout
    """
    from recoup.kernel.documents import run_document
    from recoup.model.storage import EVERY_RUN, RunFilter

    since_s = _duration_s(since)

    async def work(app: App) -> None:
        wanted = RunFilter(
            workflow=workflow,
            statuses=statuses,
            failure_class=failure_class,
            worker=worker,
            since_us=0 if since_s is None else app.world.clock.now().wall_us - round(since_s * 1e6),
            text=text,
        )
        rows = await _listed(app, wanted, limit)
        if as_json:
            print_json([run_document(await app.runs.shown(row.run_id, row)) for row in rows])
            return
        if not rows:
            click.echo(
                "no runs" + (" match" if wanted != EVERY_RUN else " yet: start one with `recoup run PLAN`")
            )
        for row in rows:
            when = datetime.fromtimestamp(row.submitted_at_us / 1e6, UTC)
            stands = await _status_words(app, row)
            reason = await _reason_words(app, row)
            click.echo(f"{row.run_id}  {stands:<11} {when:%Y-%m-%d %H:%M}  {row.workflow:<20} {reason}")

    with_app(ctx, work)


async def _reason_words(app: App, row: RunRow) -> str:
    from recoup.kernel.documents import unreadable_words

    unreadable = await app.runs.unreadable(row)
    if unreadable is not None:
        return f"{unreadable_words(unreadable)}: recoup show {row.run_id}"
    reason = one_line(row.reason)
    return reason if len(reason) <= _REASON_MAX else reason[: _REASON_MAX - 1] + "…"


async def _listed(app: App, wanted: RunFilter, limit: int) -> list[RunRow]:
    """However many must be looked through for them."""
    found: list[RunRow] = []
    page = await app.ledger.runs(wanted, limit=limit)
    found += page.rows
    while page.behind is not None and len(found) < limit:
        page = await app.ledger.runs(wanted, limit=limit - len(found), before=page.behind)
        found += page.rows
    return found


def _duration_s(since: str | None) -> float | None:
    from recoup.documents.durations import duration_s

    try:
        return None if since is None else duration_s(since, _SINCE_MAX_S)
    except ValueError as error:
        raise UsageError(f"--since {since} {error}", hint="For example: --since 2h") from None


@click.command()
@run_argument
@click.option("--evidence", "handle", metavar="HANDLE", help="Print this piece of evidence instead.")
@json_option
@click.pass_context
def show(ctx: click.Context, run_name: str, handle: str | None, as_json: bool) -> None:
    """Show one run: where it stands, why, and what to do next. RUN is an id, its beginning, or `last`.

    \b
    Examples:
      recoup show last
      recoup show 20261115-0312 --json
      recoup show last --evidence sha256:...
    """
    from recoup.kernel.documents import run_document

    async def work(app: App) -> None:
        run_id = await app.runs.find(run_name)
        state = await app.runs.shown(run_id)
        if handle is not None:
            click.echo(await _evidence(app, state, handle), nl=sys.stdout.isatty())
        elif as_json:
            print_json(run_document(state))
        else:
            lease, trouble = await _lease(app, run_id)
            _print_run(app, state, lease, await app.driving.is_driven(run_id), trouble)

    with_app(ctx, work)


@click.command()
@run_argument
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
@click.option("--after", default=0, metavar="SEQ", help="Begin after this sequence number.")
@json_option
@click.pass_context
def events(ctx: click.Context, run_name: str, follow: bool, after: int, as_json: bool) -> None:
    """Print the facts of a run in order.

    \b
    Examples:
      recoup events last --follow
      recoup events last --json | jq -c 'select(.type | startswith("task.self_heal"))'
    """
    from recoup.cli.words import line_of

    def say(event: Event) -> None:
        if as_json:
            print_json(event.line())
            return
        line = line_of(event)
        words = line.text if line else ""
        words = words if event.unreadable is None else f"cannot be read: {event.unreadable}"
        row = f"{event.seq:>5}  {event.at.iso()[:19]}Z  {event.type:<28} {words}"
        write_line(sys.stdout, one_line(row))

    async def work(app: App) -> None:
        run_id = await app.runs.find(run_name)
        if not follow:
            for event in await app.runs.shown_events(run_id, after):
                say(event)
        elif not await follow_run(app, run_id, after, say):
            click.echo(f"nobody drives this run; {_advice(await app.runs.shown(run_id), False)}", err=True)

    with_app(ctx, work)


async def follow_run(app: App, run_id: str, after: int, say: Callable[[Event], None]) -> bool:
    """Say every fact until the run has ended; False: nobody drives it. Both are asked before the facts are read: what
    came with its end is said, too."""
    head, ended = 0, False
    while True:
        driven, now = await app.driving.is_driven(run_id), await app.ledger.head(run_stream(run_id))
        if now != head:
            head, ended = now, (await app.runs.shown(run_id)).status in _ENDED
        for event in await app.runs.shown_events(run_id, after):
            after = event.seq
            say(event)
        if ended or not driven:
            return ended
        await asyncio.sleep(_FOLLOW_S)


@click.command()
@run_argument
@json_option
@click.pass_context
def ledger(ctx: click.Context, run_name: str, as_json: bool) -> None:
    """Show the known-good prefix and the frontier: what need not be done again, and what must, and why.

    \b
    Example:
      recoup ledger last --json
    """
    from recoup.kernel.prefix import ledger_document

    async def work(app: App) -> None:
        document = ledger_document(await app.runs.shown(await app.runs.find(run_name)))
        if as_json:
            print_json(document)
        else:
            print_ledger(document)

    with_app(ctx, work)


@click.command()
@run_argument
@click.argument("step", required=False, shell_complete=complete_step)
@json_option
@click.pass_context
def logs(ctx: click.Context, run_name: str, step: str | None, as_json: bool) -> None:
    """Print what the steps of a run printed, redacted. STEP is an id or an index.

    \b
    Examples:
      recoup logs last
      recoup logs last fetch
    """

    async def work(app: App) -> None:
        state = await app.runs.shown(await app.runs.find(run_name))
        for index in _steps(state, step):
            path = app.runs.files(state.run_id).log_path(index)
            text = read_named(path).decode("utf-8", "replace") if path.exists() else ""
            if as_json:
                print_json({"stepId": state.steps[index].step_id, "stepIndex": index, "log": text})
            elif text or step is not None:
                write_line(sys.stdout, f"=== {state.steps[index].step_id}")
                write_line(sys.stdout, shown(text).rstrip("\n") if text else _no_log(state.steps[index]))

    with_app(ctx, work)


def print_ledger(document: dict[str, Any]) -> None:
    """The ledger for people."""
    good, steps, edge = document["knownGoodPrefixLength"], document["steps"], document["frontier"]
    click.echo(
        f"run {document['runId']} {document['status']}: {good} of {len(steps)} steps are known to be good"
    )
    for step in steps:
        verdict = _verdict_words(step, good)
        tries = _tries_words(step)
        tree = f"checkpoint {step['checkpoint'][:12]}" if step["checkpoint"] else ""
        name = f"{_MARKS[step['verdict']]} {step['stepIndex']:>3}  {step['stepId']:<24}"
        click.echo(f"  {name} {verdict:<11} {tries:<11} {tree}".rstrip())
        if step["invalidationReason"]:
            click.echo(f"         {one_line(step['invalidationReason'])}")
    if edge:
        click.echo(f"frontier: {edge['stepId']} ({one_line(edge['reason'])})")


def shown(text: str) -> str:
    """On a terminal only colours pass: a log must not clear the screen or retitle the window."""
    if not sys.stdout.isatty():
        return text
    return _CONTROLS.sub(
        lambda found: found[0] if _COLOUR.fullmatch(found[0]) else repr(found[0])[1:-1], text
    )


def _no_log(record: StepRecord) -> str:
    if record.reused_from is None:
        return "(printed nothing)"
    return f"(reused: recoup logs {record.reused_from} {record.step_id})"


def _tries_words(step: dict[str, Any]) -> str:
    if "reusedFrom" in step:
        return f"reused from {step['reusedFrom']}"
    return f"{step['attempts']} attempt{'' if step['attempts'] == 1 else 's'}" if step["attempts"] else ""


def _verdict_words(step: dict[str, Any], good: int) -> str:
    if step["verdict"] != "not_run":
        return str(step["verdict"])
    if step["stepIndex"] < good:
        return "skipped"
    return "running" if "has not ended" in (step["invalidationReason"] or "") else "not_run"


async def _status_words(app: App, row: RunRow) -> str:
    """`running` in the ledger may mean that nobody does."""
    if row.status == "running" and not await app.driving.is_driven(row.run_id):
        return "stopped"
    return row.status


async def _lease(app: App, run_id: str) -> tuple[LeaseRow | None, RowUnreadable | None]:
    try:
        return await app.ledger.lease(run_id), None
    except RowUnreadable as error:
        return None, error


def _print_run(
    app: App, state: RunState, lease: LeaseRow | None, driven: bool, trouble: RowUnreadable | None
) -> None:
    from recoup.kernel.documents import unreadable_words
    from recoup.kernel.prefix import ledger_document

    click.echo(f"run       {state.run_id}")
    click.echo(f"workflow  {state.workflow}")
    click.echo(f"status    {state.status}{' (interrupted)' if state.interrupted else ''}")
    if state.parent_run_id:
        click.echo(f"parent    {state.parent_run_id}")
    if state.reason:
        click.echo(f"reason    {_indented(state.reason)}")
    if state.unreadable is not None:
        click.echo(f"trouble   {unreadable_words(state.unreadable)}; what follows ends before it")
    if state.failure_class:
        click.echo(f"failure   {state.failure_kind} ({state.failure_class})")
    retries = "1 retry" if state.retries == 1 else f"{state.retries} retries"
    resets = "1 hard reset" if state.resets == 1 else f"{state.resets} hard resets"
    click.echo(f"delivery  {state.delivery}, {retries}, {resets}")
    if state.started_at and state.updated_at:
        until = state.updated_at if state.status in _ENDED else app.world.clock.now()
        click.echo(f"time      {seconds((until.wall_us - state.started_at.wall_us) / 1e6)} since it started")
    if lease is not None and lease.owner is not None:
        alive = app.world.census.is_alive(lease.owner)
        words = {True: "alive", False: f"dead: recoup resume {state.run_id}", None: "on another host"}[alive]
        words += ", and its lease has run out" if alive is not False and not driven else ""
        click.echo(f"driver    process {lease.owner.pid}, {words}")
    if trouble is not None:
        click.echo(f"driver    unknown: {trouble.message}")
    click.echo(f"files     {app.runs.files(state.run_id).root}")
    click.echo("")
    print_ledger(ledger_document(state))
    for step in state.steps:
        for handle in step.evidence:
            click.echo(f"evidence  {step.step_id}: recoup show {state.run_id} --evidence {handle[:19]}")
    click.echo(f"next      {trouble.hint if trouble is not None else _advice(state, driven)}")


def _indented(text: str) -> str:
    """Of more than one line, below its beginning: the others would look like fields of their own."""
    return text.replace("\n", "\n" + " " * len("reason    "))


def _advice(state: RunState, driven: bool) -> str:
    run_id = state.run_id
    if state.unreadable is not None:
        return f"{EventUnreadable.advice} The other events: recoup events {run_id}"
    if state.status == "escalated" and state.escalated_step is not None:
        step = state.steps[state.escalated_step].step_id
        if state.page_question:
            names, settle = ", ".join(state.page_question), f"recoup control {run_id} settle --step {step}"
            again = f"{settle} --as not-done --reason '...' (performs {names} again to restore the page)"
            return f"{again}, or {settle} --as done --reason '...' (continues on the page as it is)"
        settle = f"recoup control {run_id} settle --step {step} --as done|not-done --reason '...'"
        return f"look whether {step} was done, then: {settle}"
    if driven:
        return f"watch it: recoup events {run_id} --follow"
    if state.status == "waiting" and state.waiting_for == "approval":
        return f"recoup control {run_id} approve|reject --reason '...'"
    waits = state.status == "queued" or (state.status == "waiting" and state.waiting_for == "driver")
    if waits and state.queue is not None:
        return _why_nobody_takes_it(state, state.queue)
    if state.retryable or state.status not in _ENDED:
        return f"recoup resume {run_id}"
    again = "" if state.status == "succeeded" else f"; then, without what is proven: recoup resume {run_id}"
    return f"recoup logs {run_id}, recoup events {run_id}{again}"


def _why_nobody_takes_it(state: RunState, queue: str) -> str:
    able = f" that has {', '.join(state.needs)}" if state.needs else ""
    look = f"see recoup workers, recoup queue, recoup mode {state.workflow}"
    here = f"or drive it here: recoup resume {state.run_id}"
    return f"a worker of the queue {queue}{able} takes it; if none does, {look}; {here}"


async def _evidence(app: App, state: RunState, handle: str) -> bytes:
    """Whatever any of its events cites."""
    events = await app.runs.shown_events(state.run_id)
    cited = list(dict.fromkeys(h for event in events for h in getattr(event.payload, "evidence", ())))
    matching = [known for known in cited if known == handle] or [
        known for known in cited if known.startswith(handle)
    ]
    if not matching:
        hint = f"It cites: {', '.join(cited)}." if cited else "It cites none."
        raise NotFound(f"run {state.run_id} cites no evidence {handle!r}", hint=hint)
    if len(matching) > 1:
        raise NotFound(f"several pieces of evidence begin with {handle!r}", hint="Give more of the handle.")
    return await app.evidence.get(matching[0])


def _steps(state: RunState, step: str | None) -> list[int]:
    if step is None:
        return list(range(len(state.steps)))
    found = [record.index for record in state.steps if record.step_id == step or str(record.index) == step]
    if not found:
        known = ", ".join(record.step_id for record in state.steps[:20])
        raise NotFound(f"run {state.run_id} has no step {step!r}", hint=f"Its steps: {known}.")
    return found[:1]
