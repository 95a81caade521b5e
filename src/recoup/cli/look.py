"""`runs`, `show`, `events`, `ledger`, `logs`: what happened, from the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.completing import complete_run, complete_step
from recoup.cli.output import json_option, with_app
from recoup.cli.run_filters import run_filter, run_filter_options
from recoup.errors import RowUnreadable
from recoup.kernel.advice import Advice, advice
from recoup.kernel.elapsed import spent_words, time_spent
from recoup.kernel.wording import duration, one_line
from recoup.terminal.moments import minute, second
from recoup.terminal.writer import hand_over, is_terminal, note, print_json, say

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.answers.runs import LedgerDocument, StepDocument
    from recoup.model.events import Event
    from recoup.model.run import RunState, StepRecord
    from recoup.model.storage import LeaseRow, RunRow

_FOLLOW_S = 0.25
_REASON_MAX = 80
_ALIKE_MIN = 3
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
@run_filter_options
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@json_option
@click.pass_context
def runs(ctx: click.Context, /, limit: int, as_json: bool, **filters: Any) -> None:
    """List runs, newest first.

    \b
    Examples:
      recoup runs
      recoup runs --workflow invoice-sync --status failed --status dead_letter --json
      recoup runs --since 2h --text timeout
    """
    from recoup.model.storage import EVERY_RUN
    from recoup.operations.runs import newest_runs, show_run

    async def work(app: App) -> None:
        wanted = run_filter(filters, app.world.clock.now().wall_us)
        rows = await newest_runs(app, wanted, limit)
        if as_json:
            print_json([await show_run(app, row.run_id, row) for row in rows])
            return
        if not rows:
            yet = f" yet in {app.runs.named_home}: start one with `recoup run PLAN`"
            say("no runs" + (f" match in {app.runs.named_home}" if wanted != EVERY_RUN else yet))
        for row in rows:
            say(await _row_line(app, row))

    with_app(ctx, work, makes_home=False)


async def _row_line(app: App, row: RunRow) -> str:
    state, stands = await app.runs.shown(row.run_id, row), await _status_words(app, row)
    lost = stands == "stopped"
    stands = "interrupted" if lost and state.driver.interrupted else stands
    resume = f"go on: recoup resume {row.run_id}" if lost and state.unreadable is None else ""
    told = (_spent_words(app, state, driven=not lost), await _reason_words(app, row), resume)
    begins = f"{row.run_id}  {stands:<11} {minute(row.submitted_at_us)}  {row.workflow:<20}"
    return "  ".join(filter(None, (begins, *told)))


def _spent_words(app: App, state: RunState, *, driven: bool) -> str:
    """Nothing for a run that has not begun or cannot be read."""
    if not state.begun or state.unreadable is not None:
        return ""
    return spent_words(time_spent(state.clocks, app.world.clock.now(), driven=driven), duration)


async def _reason_words(app: App, row: RunRow) -> str:
    from recoup.kernel.unreadable import unreadable_words

    unreadable = await app.runs.unreadable(row)
    if unreadable is not None:
        return f"{unreadable_words(unreadable)}: recoup show {row.run_id}"
    reason = one_line(row.reason)
    return reason if len(reason) <= _REASON_MAX else reason[: _REASON_MAX - 1] + "…"


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

    from recoup.operations.evidence import evidence_of_run
    from recoup.operations.runs import lease_of, show_run

    async def work(app: App) -> None:
        run_id = await app.runs.find(run_name)
        state = await app.runs.shown(run_id)
        if handle is not None:
            _hand_over_evidence(run_id, *await evidence_of_run(app, run_id, handle))
        elif as_json:
            print_json(await show_run(app, run_id))
        else:
            lease, trouble = await lease_of(app, run_id)
            _print_run(app, state, lease, await app.driving.is_driven(run_id), trouble)

    with_app(ctx, work, makes_home=False)


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
    from recoup.kernel.description import describe
    from recoup.operations.events import run_event_pages

    def tell(event: Event) -> None:
        if as_json:
            print_json(event.line())
            return
        description = describe(event.payload)
        words = description.text if description else ""
        words = words if event.unreadable is None else f"cannot be read: {event.unreadable}"
        row = f"{event.seq:>5}  {second(event.at.iso())}  {event.type:<28} {words}"
        say(one_line(row))

    async def work(app: App) -> None:
        run_id = await app.runs.find(run_name)
        if not follow:
            async for page in run_event_pages(app, run_id, after=after):
                for event in page:
                    tell(event)
        elif not await follow_run(app, run_id, after, tell):
            note("nobody drives this run; next:")
            for line in advice_lines(advice(await app.runs.shown(run_id), driven=False)):
                note(f"  {line}")

    with_app(ctx, work, makes_home=False)


async def follow_run(app: App, run_id: str, after: int, say: Callable[[Event], None]) -> bool:
    """Say every fact until the run has ended; False: nobody drives it. Both are asked before the facts are read: what
    came with its end is said, too."""
    from recoup.operations.events import end_of_run, run_event_pages

    head, ended = 0, False
    while True:
        driven, now = await app.driving.is_driven(run_id), await end_of_run(app, run_id)
        if now != head:
            head, ended = now, (await app.runs.shown(run_id)).status in _ENDED
        async for page in run_event_pages(app, run_id, after=after):
            for event in page:
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

    with_app(ctx, work, makes_home=False)


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

    from recoup.operations.logs import whole_log

    async def work(app: App) -> None:
        state = await app.runs.shown(await app.runs.find(run_name))
        for index in _steps(state, step):
            printed = whole_log(app, state, index)
            if as_json:
                print_json(
                    {
                        "stepId": state.steps[index].step_id,
                        "stepIndex": index,
                        "log": printed.decode("utf-8", "replace"),
                    }
                )
            elif printed or step is not None:
                say(f"=== {state.steps[index].step_id}")
                hand_over(printed.rstrip(b"\n") + b"\n") if printed else say(_no_log(state.steps[index]))

    with_app(ctx, work, makes_home=False)


def print_ledger(document: LedgerDocument) -> None:
    """The ledger for people."""
    good, steps, edge = document.known_good_prefix_length, document.steps, document.frontier
    say(f"run {document.run_id} {document.status}: {good} of {len(steps)} steps are known to be good")
    for alike in _alike(steps):
        if len(alike) > 1:
            first, last = alike[0], alike[-1]
            place = f"{first.step_index}-{last.step_index}"
            say(f"  · {place:>5}  {len(alike)} steps, {first.step_id} to {last.step_id}: not_run")
        else:
            _print_step(alike[0], good)
        if alike[0].invalidation_reason:
            say(f"         {alike[0].invalidation_reason}")
    if edge:
        say(f"frontier: {edge['stepId']} ({one_line(edge['reason'])})")


def _alike(steps: list[StepDocument]) -> Iterator[list[StepDocument]]:
    """One by one, but for steps in a row that were not run for one and the same reason."""

    def sign(step: StepDocument) -> tuple[Any, ...]:
        waits = step.verdict == "not_run" and step.invalidation_reason and not step.attempts
        return ("not_run", step.invalidation_reason) if waits else (step.step_index,)

    for _, group in groupby(steps, key=sign):
        alike = list(group)
        yield from [alike] if len(alike) >= _ALIKE_MIN else ([step] for step in alike)


def _print_step(step: StepDocument, good: int) -> None:
    verdict, tries = _verdict_words(step, good), _tries_words(step)
    tree = f"checkpoint {step.checkpoint[:12]}" if step.checkpoint else ""
    sign = _MARKS[step.verdict] if step.outcome_known else "?"
    say(f"  {sign} {step.step_index:>3}  {step.step_id:<24} {verdict:<11} {tries:<11} {tree}".rstrip())


def _hand_over_evidence(run_id: str, handle: str, content: bytes) -> None:
    """Bytes in a pipe; on a terminal its text, or what it is and how to save it."""
    from recoup.evidence.media import ENDINGS, binary_type

    kind = binary_type(content)
    if kind is None or not is_terminal():
        hand_over(content + b"\n" if is_terminal() and not content.endswith(b"\n") else content)
        return
    say(f"{kind}, {len(content):,} bytes: not printed on a terminal")
    say(f"save it: recoup show {run_id} --evidence {handle} > evidence.{ENDINGS.get(kind, 'bin')}")


def _no_log(record: StepRecord) -> str:
    if record.reused_from is None:
        return "(printed nothing)"
    return f"(reused: recoup logs {record.reused_from} {record.step_id})"


def _tries_words(step: StepDocument) -> str:
    if step.reused_from is not None:
        return f"reused from {step.reused_from}"
    return f"{step.attempts} attempt{'' if step.attempts == 1 else 's'}" if step.attempts else ""


def _verdict_words(step: StepDocument, good: int) -> str:
    if not step.outcome_known:
        return "unknown"
    if step.verdict != "not_run":
        return step.verdict
    if step.step_index < good:
        return "skipped"
    return "running" if "has not ended" in (step.invalidation_reason or "") else "not_run"


async def _status_words(app: App, row: RunRow) -> str:
    """`running` in the ledger may mean that nobody does."""
    if row.status == "running" and not await app.driving.is_driven(row.run_id):
        return "stopped"
    return row.status


def _print_run(
    app: App, state: RunState, lease: LeaseRow | None, driven: bool, trouble: RowUnreadable | None
) -> None:
    from recoup.kernel.prefix import ledger_document
    from recoup.kernel.unreadable import unreadable_words

    say(f"run       {state.run_id}")
    say(f"workflow  {state.workflow}")
    interrupted = state.driver.interrupted and not driven and not state.status.is_terminal
    say(
        f"status    {f'interrupted: continue with recoup resume {state.run_id}' if interrupted else state.status}"
    )
    if state.lineage.parent_run_id:
        say(f"parent    {state.lineage.parent_run_id}")
    if state.reason:
        say_below("reason    ", state.reason.splitlines())
    if state.unreadable is not None:
        say(f"trouble   {unreadable_words(state.unreadable)}; what follows ends before it")
    if state.failure.cls:
        say(f"failure   {state.failure.kind} ({state.failure.cls})")
    retries = "1 retry" if state.counts.retries == 1 else f"{state.counts.retries} retries"
    resets = "1 hard reset" if state.counts.resets == 1 else f"{state.counts.resets} hard resets"
    say(f"delivery  {state.driver.delivery}, {retries}, {resets}")
    if state.begun:
        spent = time_spent(state.clocks, app.world.clock.now(), driven=driven)
        say(f"time      {spent_words(spent, duration)}")
    if lease is not None and lease.owner is not None:
        alive = app.world.census.is_alive(lease.owner)
        words = {True: "alive", False: f"dead: recoup resume {state.run_id}", None: "on another host"}[alive]
        words += ", and its lease has run out" if alive is not False and not driven else ""
        say(f"driver    process {lease.owner.pid}, {words}")
    if trouble is not None:
        say(f"driver    unknown: {trouble.message}")
    say(f"files     {app.runs.files(state.run_id).root}")
    say("")
    print_ledger(ledger_document(state))
    for step in state.steps:
        for handle in step.results.evidence:
            say(f"evidence  {step.step_id}: recoup show {state.run_id} --evidence {handle[:19]}")
    lines = advice_lines(advice(state, driven)) if trouble is None else [trouble.hint]
    say_below("next      ", lines)


def say_below(label: str, lines: Sequence[str]) -> None:
    """Lines under one label, so that each can be copied whole."""
    for number, line in enumerate(lines):
        say(f"{' ' * len(label) if number else label}{line}")


def advice_lines(advised: Sequence[Advice]) -> list[str]:
    """Each command on a line of its own, so that it can be copied whole."""
    lines: list[str] = []
    for one in advised:
        lines += [f"{one.text}."] if one.command is None else [f"{one.text}:", f"  {one.command}"]
    return lines


def _steps(state: RunState, step: str | None) -> list[int]:
    from recoup.operations.lookup import step_index

    return list(range(len(state.steps))) if step is None else [step_index(state, step)]
