"""One process of a queue that is measured: `BENCH_QUEUE=WHERE queues.py SYSTEM ROLE COUNT`.

Roles: prepare, take, give, flood. A taker says `ready`, then for each id that it was given the id and the time, until
its input ends. Ids begin with the time at which they were handed over. Run by an environment that has the system, for
benchmarks/dispatch.py.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Give = Callable[[str], Awaitable[object]]
AT_ONCE = 8
RUNS_AT_ONCE = 16
BATCH = 10
PAUSE_S = 0.015
POLL_S = 0.05


def new_id(number: int) -> str:
    return f"{time.monotonic_ns()}-{number}"


def taken(id: str) -> None:
    sys.stdout.write(f"{id} {time.monotonic_ns()}\n")
    sys.stdout.flush()


async def over() -> None:
    """The one who started us closes our input."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


async def hand_over(give: Give, role: str, count: int) -> None:
    """One after the other with pauses, or as many as possible."""
    if role == "give":
        for number in range(count):
            await give(new_id(number))
            await asyncio.sleep(PAUSE_S)
        return
    numbers = itertools.count()

    async def giver() -> None:
        while (number := next(numbers)) < count:
            await give(new_id(number))

    await asyncio.gather(*[giver() for _ in range(AT_ONCE)])


async def recoup(role: str, where: str, count: int) -> None:
    from recoup.clock import SystemClock
    from recoup.dispatch.opening import open_dispatch
    from recoup.model.dispatch import Hint
    from recoup.ports import Dispatch

    dispatch: Dispatch = await open_dispatch(where if "://" in where else Path(where), SystemClock())

    async def work() -> None:
        while True:
            found = await dispatch.take(["default"], frozenset(), BATCH)
            for each in found:
                taken(each.hint.run_id)
            await asyncio.gather(*[dispatch.done(each) for each in found])
            if not found:
                await dispatch.wait(5)

    if role == "take":
        await beside(work(), over())
    elif role != "prepare":
        await hand_over(lambda id: dispatch.hint([Hint(id)]), role, count)
    else:
        await dispatch.depths()
    await dispatch.close()


async def recoup_runs(role: str, where: str, count: int) -> None:
    """Whole runs of one step: the command line's own worker, but for a runtime that does nothing in the process."""
    import tempfile

    from recoup.app import open_app
    from recoup.fleet.queued import Queued
    from recoup.fleet.worker import Shift, Worker
    from recoup.model.outcome import Order, Outcome
    from recoup.model.plan import Input, Plan, RunAction, Step
    from recoup.operations.submission import enqueue
    from recoup.ports import Hooks
    from recoup.settings import read_settings

    class Telling:
        inline = True

        async def perform(self, order: Order, _hooks: Hooks) -> Outcome:
            taken(order.env["BENCH_ID"])
            return Outcome(exit_code=0)

    step = Step(id="work", action=RunAction("true"), env={"BENCH_ID": "${{ inputs.id }}"})
    plan = Plan(name="bench", steps=(step,), inputs={"id": Input()}, folder=".")
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "RECOUP_HOME": home, "RECOUP_DATABASE": where}
        async with open_app(read_settings(environ, Path(home)), environ) as app:
            app.world.runtimes["run"] = Telling()  # type: ignore[index]
            if role == "take":
                shift = Shift(worker_id=f"bench-{os.getpid()}", concurrency=RUNS_AT_ONCE)
                worker = Worker(
                    app.driving.deliveries(),
                    await app.hints.queue(),
                    shift,
                    lambda _notice: None,
                    app.chores.run,
                )
                await beside(worker.work(), over())
            elif role == "prepare":
                await (await app.hints.queue()).depths()
            else:
                await hand_over(lambda id: enqueue(app, plan, {"id": id}, None, Queued()), role, count)


async def pgqueuer(role: str, where: str, count: int) -> None:
    import psycopg
    from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
    from pgqueuer.core.qm import QueueManager
    from pgqueuer.domain.models import Job
    from pgqueuer.ports.driver import NotifyCallback
    from pgqueuer.queries import Queries

    class Listening(PsycopgDriver):
        """With a connection of its own for notifications."""

        listening: PsycopgDriver

        async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
            await self.listening.add_listener(channel, callback)

    driver = Listening(await psycopg.AsyncConnection.connect(where, autocommit=True))
    driver.listening = PsycopgDriver(await psycopg.AsyncConnection.connect(where, autocommit=True))
    queries = Queries(driver)
    if role == "prepare":
        await queries.install()
    elif role == "take":
        queue = QueueManager(queries)

        @queue.entrypoint("work")
        async def work(job: Job) -> None:
            assert job.payload is not None
            taken(job.payload.decode())

        await beside(queue.run(batch_size=BATCH), over())
    else:
        await hand_over(lambda id: queries.enqueue("work", id.encode()), role, count)


async def procrastinate(role: str, where: str, count: int) -> None:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=where))

    @app.task(name="work")
    async def work(id: str) -> None:
        taken(id)

    async with app.open_async():
        if role == "prepare":
            await app.schema_manager.apply_schema_async()
        elif role == "take":
            await beside(app.run_worker_async(concurrency=BATCH, install_signal_handlers=False), over())
        else:
            await hand_over(lambda id: work.defer_async(id=id), role, count)


async def dbos(role: str, where: str, count: int) -> None:
    from dbos import DBOS, DBOSClient  # type: ignore[import-not-found]

    if role in ("give", "flood"):
        client = DBOSClient(system_database_url=where)
        order = {"queue_name": "work", "workflow_name": "work"}
        await hand_over(lambda id: client.enqueue_async(order, id), role, count)
        return
    config: dict[str, Any] = {"name": "bench", "system_database_url": where, "run_admin_server": False}
    DBOS(config={**config, "log_level": "ERROR", "application_version": "1"})

    @DBOS.workflow(name="work")  # type: ignore[untyped-decorator]
    async def work(id: str) -> None:
        taken(id)

    DBOS.launch()
    await DBOS.register_queue_async("work", polling_interval_sec=POLL_S)
    if role == "take":
        await over()
    DBOS.destroy()


async def beside(work: Awaitable[None], end: Awaitable[None]) -> None:
    working = asyncio.ensure_future(work)
    await end
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


SYSTEMS = {
    "recoup": recoup,
    "recoup-runs": recoup_runs,
    "pgqueuer": pgqueuer,
    "procrastinate": procrastinate,
    "dbos": dbos,
}

if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(SYSTEMS[sys.argv[1]](sys.argv[2], os.environ["BENCH_QUEUE"], int(sys.argv[3])))
