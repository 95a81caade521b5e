"""Jobs of pgqueuer or procrastinate, given and taken in this process: `BENCH_DATABASE=URL queue_runs FOLDER SYSTEM`.

A job ends here when its function has run; that the queue records it as done comes later and is not waited for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable
from uuid import uuid4

import psycopg

from benchmarks.peers.queues import Give
from benchmarks.peers.workload import AT_ONCE, measure


class Waiting:
    """Jobs that were given, until their function has run."""

    def __init__(self) -> None:
        self._given: dict[str, asyncio.Future[None]] = {}

    async def once(self, give: Give) -> None:
        name = uuid4().hex
        self._given[name] = asyncio.get_running_loop().create_future()
        await give(name)
        await self._given[name]
        del self._given[name]

    def ran(self, name: str) -> None:
        self._given[name].set_result(None)


async def pgqueuer(where: str, waiting: Waiting) -> None:
    from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
    from pgqueuer.core.qm import QueueManager
    from pgqueuer.domain.models import Job
    from pgqueuer.queries import Queries

    given, taken, listened = [
        PsycopgDriver(await psycopg.AsyncConnection.connect(where, autocommit=True)) for _ in range(3)
    ]
    # As with its workers in processes of their own: a connection for notifications alone.
    taken.add_listener = listened.add_listener  # type: ignore[method-assign]
    queries, queue = Queries(given), QueueManager(Queries(taken))
    await queries.install()

    @queue.entrypoint("work")
    async def work(job: Job) -> None:
        assert job.payload is not None
        waiting.ran(job.payload.decode())

    asked = measure(lambda: waiting.once(lambda name: queries.enqueue("work", name.encode())), None)
    await working(queue.run(batch_size=10), asked)


async def procrastinate(where: str, waiting: Waiting) -> None:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=where))

    @app.task(name="work")
    async def work(name: str) -> None:
        waiting.ran(name)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        asked = measure(lambda: waiting.once(lambda name: work.defer_async(name=name)), None)
        await working(app.run_worker_async(concurrency=AT_ONCE, install_signal_handlers=False), asked)


async def working(worker: Awaitable[None], asked: Awaitable[None]) -> None:
    """Until all was asked. A worker that ends before that has failed."""
    tasks = asyncio.ensure_future(worker), asyncio.ensure_future(asked)
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if not tasks[1].done():
        tasks[1].cancel()
        await tasks[0]
        raise RuntimeError("the worker ended by itself")
    tasks[0].cancel()
    await tasks[1]


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    system = {"pgqueuer": pgqueuer, "procrastinate": procrastinate}[sys.argv[2]]
    asyncio.run(system(os.environ["BENCH_DATABASE"], Waiting()))
