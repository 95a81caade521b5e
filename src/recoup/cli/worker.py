"""`worker` and `workers`: who drives what was submitted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import click
from click.core import ParameterSource

from recoup.cli.output import json_option, with_app
from recoup.kernel.wording import duration, one_line
from recoup.terminal.moments import clock
from recoup.terminal.writer import note, print_json, say

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.fleet.worker import Notice, Worker
    from recoup.model.storage import SeenWorker

_NOTICES_MAX = 1_000
_OVERTIME = 1
_LAST_WORDS_S = 2.0


Told = TypeVar("Told")


class Announcer(Generic[Told]):
    """Says things from a thread of its own: a reader that stops reading, or a full disk, must not stop the work. What
    nobody takes in time is left out."""

    def __init__(self, tell: Callable[[Told], None]) -> None:
        self._tell = tell
        self._waiting: queue.Queue[Told | None] = queue.Queue(_NOTICES_MAX)
        self._thread = threading.Thread(target=self._say_all, name="recoup-notices", daemon=True)

    @property
    def is_stuck(self) -> bool:
        return self._thread.is_alive()

    def __call__(self, notice: Told) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(notice)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(_LAST_WORDS_S)

    def _say_all(self) -> None:
        while (notice := self._waiting.get()) is not None:
            with contextlib.suppress(OSError, ValueError):
                self._tell(notice)


def _names(_ctx: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))


def _is_usual(ctx: click.Context) -> bool:
    """Nobody says what this worker is capable of: then it also offers the kinds of step that plugins bring."""
    return ctx.get_parameter_source("capabilities") is ParameterSource.DEFAULT


@click.command()
@click.option("--queues", default="default", show_default=True, callback=_names, help="With commas between.")
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), default=4, show_default=True, help="Runs at once."
)
@click.option(
    "--capabilities", default="agent,browser", show_default=True, callback=_names, help="With commas between."
)
@click.option(
    "--grace", "grace_s", type=click.FloatRange(0, 86_400), default=30, show_default=True,
    help="Seconds that runs may go on after SIGTERM.",
)  # fmt: skip
@click.option("--metrics-port", type=click.IntRange(0, 65_535), help="Serve /metrics for Prometheus here.")
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, help="The address that /metrics is served on."
)
@click.option(
    "--until-idle",
    is_flag=True,
    help="Stop when this worker may take nothing more; say what it left and why.",
)
@json_option
@click.pass_context
def worker(
    ctx: click.Context,
    queues: tuple[str, ...],
    concurrency: int,
    capabilities: tuple[str, ...],
    grace_s: float,
    metrics_port: int | None,
    metrics_host: str,
    until_idle: bool,
    as_json: bool,
) -> None:
    """Drive runs that were submitted to queues, until told to stop.

    SIGTERM or Ctrl-C: takes nothing more, lets runs end within the grace time, hands the others back; a second one does
    so at once. Any number of workers share one database; what a lost one drove is taken up by another, and nothing that
    was finished is repeated.

    \b
    Examples:
      recoup worker
      recoup worker --queues default,nightly --concurrency 8
      RECOUP_DATABASE=postgresql://... recoup worker --metrics-port 9464
    """
    from recoup import __version__
    from recoup.fleet.worker import STOP_S, Notice, Shift, Worker
    from recoup.operations.policies import policy_problem
    from recoup.processes.orphans import adopt
    from recoup.standing import asked_to_end
    from recoup.steps.registry import offered_kinds

    adopt()
    offered = offered_kinds() if _is_usual(ctx) else frozenset[str]()
    announcer = Announcer[Notice](lambda notice: _tell(notice, as_json))

    async def work(app: App) -> None:
        shift = Shift(
            worker_id=app.worker_id,
            queues=queues,
            capabilities=frozenset(capabilities) | offered,
            concurrency=concurrency,
            grace_s=grace_s,
            version=__version__,
            until_idle=until_idle,
        )
        if metrics_port is not None:
            app.metrics.measure_always()
        with announcer as say:
            if problem := policy_problem(app):
                say(Notice("trouble", problem))
            one = Worker(app.driving.deliveries(), await app.hints.queue(), shift, say, app.chores.run)
            async with _metrics_served(app, metrics_host, metrics_port):
                with asked_to_end(_drain(one, grace_s + STOP_S)):
                    await one.work()

    with_app(ctx, work, lambda words: _tell(Notice("trouble", words), as_json), disk_too=not until_idle)
    if announcer.is_stuck:
        os._exit(0)  # Python would wait for what it still has to say


@click.command()
@json_option
@click.pass_context
def workers(ctx: click.Context, as_json: bool) -> None:
    """List the workers, what they take, and the runs that they drive.

    \b
    Examples:
      recoup workers
      recoup workers --json
    """

    async def work(app: App) -> None:
        from recoup.operations import queues

        if as_json:
            print_json(await queues.list_workers(app))
            return
        seen, late_s = await queues.seen_workers(app), queues.late_s(app)
        if not seen:
            say("no workers: start one with `recoup worker`")
        for one in seen:
            say(_line(one, late_s))

    with_app(ctx, work, makes_home=False)


def _line(one: SeenWorker, late_s: float) -> str:
    from recoup.fleet.overview import clock_words, worker_state

    row = one.worker
    what = f"{','.join(row.queues)} ({','.join(row.capabilities) or 'no capabilities'})"
    load = f"{len(row.runs)}/{row.concurrency}"
    line = f"{row.worker_id:<32} {worker_state(one, late_s):<9} {load:>7}  {what}  seen {duration(one.silent_s)} ago"
    if wrong := clock_words(row.clock_ahead_s):
        line = f"{line}  {wrong} of the database's: set it right"
    if one.unreadable:
        return one_line(f"{row.worker_id:<32} {row.trouble}  seen {duration(one.silent_s)} ago")
    if row.trouble:
        return f"{one_line(line)}\n    takes no runs until a probe write works: {one_line(row.trouble)}"
    return one_line(line)


def _tell(notice: Notice, as_json: bool) -> None:
    if as_json:
        print_json(notice)
        return
    when = clock(time.time_ns() // 1000)
    run = f" {notice.run_id}" if notice.run_id else ""
    workflow = f" ({notice.workflow})" if notice.workflow else ""
    took = f" after {duration(notice.seconds)}" if notice.seconds is not None else ""
    line = f"{when}  {notice.event:<8}{run}{workflow}{took}  {notice.words}"
    note(one_line(line))


def _drain(one: Worker, within_s: float) -> Callable[[int], None]:
    loop = asyncio.get_running_loop()

    def drain(times: int) -> None:
        if (
            times == 1
        ):  # whatever still waits by then, for a frozen database, say: keepers end what it has started
            loop.call_later(within_s, os._exit, _OVERTIME)
        one.drain()

    return drain


@contextlib.asynccontextmanager
async def _metrics_served(app: App, host: str, port: int | None) -> AsyncIterator[None]:
    if port is None:
        yield
        return
    from recoup.metrics.serving import serve_metrics

    server = await serve_metrics(app.metrics.measure_always().render, host, port)
    shown = server.sockets[0].getsockname()
    note(f"metrics on http://{shown[0]}:{shown[1]}/metrics")
    try:
        yield
    finally:
        server.close()
