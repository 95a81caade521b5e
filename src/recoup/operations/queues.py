"""Who drives what: queues, workers, and what was given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recoup.fleet.overview import ABSENT_HEARTBEATS, queue_document, worker_document
from recoup.model.storage import HeldRun, SeenWorker

if TYPE_CHECKING:
    from recoup.app import App


async def show_queue(app: App) -> dict[str, Any]:
    """What waits in each queue, what is driven, and what was given up. Raises DispatchError."""
    return await queue_document(app.ledger, await app.hints.queue(), app.world.clock.now())


async def seen_workers(app: App) -> Sequence[SeenWorker]:
    return await app.ledger.workers(app.world.clock.now())


def late_s(app: App) -> float:
    """A worker that was silent for longer is absent."""
    return ABSENT_HEARTBEATS * app.settings.heartbeat_s


async def list_workers(app: App) -> list[dict[str, Any]]:
    """What they take, and the runs that they drive."""
    return worker_documents(app, await seen_workers(app))


def worker_documents(app: App, seen: Sequence[SeenWorker]) -> list[dict[str, Any]]:
    return [worker_document(one, late_s(app)) for one in seen]


async def driven_by(app: App) -> dict[str, str]:
    """The worker of each run that is driven by one. What a silent one said last may be another's by now."""
    heard = [one.worker for one in await seen_workers(app) if one.silent_s <= late_s(app)]
    return {run_id: worker.worker_id for worker in heard for run_id in worker.runs}


async def queues_taken(app: App) -> list[str]:
    """From which workers take."""
    return sorted({"default", *(queue for one in await seen_workers(app) for queue in one.worker.queues)})


async def held_runs(app: App, limit: int) -> Sequence[HeldRun]:
    """Runs whose lease is held."""
    return await app.ledger.held(app.world.clock.now(), limit)
