"""The queues and the workers as documents, for those who look."""

from __future__ import annotations

from typing import Any, Final

from recoup.model.instant import Instant
from recoup.model.storage import RunFilter, SeenWorker
from recoup.ports import Dispatch, Ledger

LISTED_MAX: Final = 20
ABSENT_HEARTBEATS: Final = 3
CLOCK_OFF_MAX_S: Final = 5.0
"""A wall clock that differs more from the database's is worth a warning."""


async def queue_document(ledger: Ledger, dispatch: Dispatch, now: Instant) -> dict[str, Any]:
    """What waits in each queue, what is driven, and what was given up."""
    depths = {depth.queue: depth for depth in await dispatch.depths()}
    dead = await ledger.runs(RunFilter(statuses=("dead_letter",)), limit=LISTED_MAX)
    driven: dict[str, int] = {}
    for one in await ledger.held(now):
        driven[one.run.queue] = driven.get(one.run.queue, 0) + (one.left_s > 0)
    return {
        "queues": [
            {
                "queue": name,
                "waiting": depths[name].waiting if name in depths else 0,
                "delayed": depths[name].delayed if name in depths else 0,
                "driven": driven.get(name, 0),
                "oldestS": depths[name].oldest_s if name in depths else None,
            }
            for name in sorted(depths.keys() | driven.keys())
        ],
        "deadLetters": [
            {"runId": row.run_id, "workflow": row.workflow, "reason": row.reason} for row in dead.rows
        ],
        "moreDeadLetters": dead.behind is not None,
    }


def worker_document(one: SeenWorker, late_s: float) -> dict[str, Any]:
    row = one.worker
    return {
        "workerId": row.worker_id,
        "host": row.identity.host,
        "pid": row.identity.pid,
        "state": worker_state(one, late_s),
        "trouble": row.trouble or None,
        "silentS": round(one.silent_s, 1),
        "queues": list(row.queues),
        "capabilities": list(row.capabilities),
        "concurrency": row.concurrency,
        "runs": list(row.runs),
        "version": row.version,
        "startedAt": row.started_at.iso(),
        "clockAheadS": row.clock_ahead_s,
        "clockWrong": is_clock_wrong(row.clock_ahead_s),
        "waitingPages": list(row.waiting_pages),
    }


def is_clock_wrong(ahead_s: float) -> bool:
    return abs(ahead_s) > CLOCK_OFF_MAX_S


def clock_words(ahead_s: float) -> str:
    """How far it is off, or "" where that is not worth a word."""
    if not is_clock_wrong(ahead_s):
        return ""
    return f"clock {abs(ahead_s):.0f} s {'ahead' if ahead_s > 0 else 'behind'}"


def worker_state(one: SeenWorker, late_s: float) -> str:
    if one.silent_s > late_s:
        return "silent"
    if one.worker.draining:
        return "draining"
    return "troubled" if one.worker.trouble else "working"
