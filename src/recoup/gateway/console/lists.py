"""What pages ask the ledger about many runs at once: lists, counts, a history. Everything here is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from recoup.app import App
from recoup.gateway.console.wanting import STATUSES, Wanted, moment_us
from recoup.model.events import RunSubmitted
from recoup.model.ids import run_stream
from recoup.model.storage import AttemptRow, RunRow

Place = tuple[int, str]
_LOOKED_THROUGH_MAX: Final = 2_000
_COUNTED_MAX: Final = 1_000
_HISTORY_RUNS_MAX: Final = 300
_EVENTS_CHEAP_MAX: Final = 2_000
"""Of a run whose attempts are counted for a list."""


class Listed(msgspec.Struct, frozen=True):
    """One page of runs, newest first."""

    rows: tuple[RunRow, ...]
    behind: Place | None
    """Where to go on; None: there are no more."""


class Tally(msgspec.Struct, frozen=True):
    count: int
    capped: bool = False
    """There are more."""


class Bucket(msgspec.Struct, frozen=True):
    """What happened in one part of a time."""

    start_us: int
    ended: dict[str, int]
    recovery_p50_s: float | None = None


class Progress(msgspec.Struct, frozen=True):
    """How far a run is, as its attempts tell."""

    done: int
    total: int
    step_id: str = ""
    """The step under way, or the one that ended last."""
    since_us: int = 0
    attempt: int = 0


async def listed(app: App, wanted: Wanted, limit: int, before: Place | None) -> Listed:
    """As far as the newest runs are looked through for what the ledger has no index for."""
    status = wanted.statuses[0] if len(wanted.statuses) == 1 else None
    found, looked, place, now_us = list[RunRow](), 0, before, app.world.clock.now().wall_us
    while looked < _LOOKED_THROUGH_MAX:
        rows = await app.ledger.runs(
            workflow=wanted.workflow or None, status=status, limit=limit + 1, before=place
        )
        found += [row for row in rows if _meets(wanted, row, now_us)]
        if len(found) > limit:
            return Listed(tuple(found[:limit]), _place(found[limit - 1]))
        if len(rows) <= limit:
            return Listed(tuple(found), None)
        looked, place = looked + len(rows), _place(rows[-1])
    return Listed(tuple(found), place)


async def tallies(app: App) -> dict[str, Tally]:
    """How many runs there are with each status."""
    counted = {}
    for status in STATUSES:
        rows = await app.ledger.runs(status=status, limit=_COUNTED_MAX + 1)
        counted[status] = Tally(min(len(rows), _COUNTED_MAX), len(rows) > _COUNTED_MAX)
    return counted


async def history(app: App, since_us: int, bucket_us: int, buckets: int) -> list[Bucket]:
    """What ended, and how long steps took to recover, by equal parts of a time: of the newest runs alone."""
    ended = [dict[str, int]() for _ in range(buckets)]
    took = [list[float]() for _ in range(buckets)]
    for row in await app.ledger.runs(limit=_HISTORY_RUNS_MAX):
        number = (row.updated_at_us - since_us) // bucket_us
        if not 0 <= number < buckets or row.status not in ("succeeded", "failed", "dead_letter", "cancelled"):
            continue
        ended[number][row.status] = ended[number].get(row.status, 0) + 1
        if row.seq <= _EVENTS_CHEAP_MAX:
            took[number] += recoveries_s(await app.ledger.attempts(row.run_id))
    return [
        Bucket(
            since_us + at * bucket_us, ended[at], sorted(took[at])[len(took[at]) // 2] if took[at] else None
        )
        for at in range(buckets)
    ]


async def driven_by(app: App) -> dict[str, str]:
    """The worker of each run that is driven by one."""
    seen = await app.ledger.workers(app.world.clock.now())
    return {run_id: one.worker.worker_id for one in seen for run_id in one.worker.runs}


async def progress_of(app: App, row: RunRow) -> Progress | None:
    """None: it would take long to find out."""
    if row.seq > _EVENTS_CHEAP_MAX:
        return None
    first = await app.ledger.read(run_stream(row.run_id), limit=1)
    total = len(first[0].payload.plan.steps) if first and isinstance(first[0].payload, RunSubmitted) else 0
    if row.status == "succeeded":
        return Progress(total, total)
    return progress(await app.ledger.attempts(row.run_id), total)


def progress(attempts: Sequence[AttemptRow], total: int) -> Progress:
    """By the last attempt of each step."""
    last = {row.step_index: row for row in attempts}
    done = sum(row.state == "finished" for row in last.values())
    if not last:
        return Progress(0, total)
    now = max(last.values(), key=lambda row: row.started_at_us)
    return Progress(min(done, total), total, now.step_id, now.started_at_us, now.attempt)


def recoveries_s(attempts: Sequence[AttemptRow]) -> list[float]:
    """For each step that passed after it had failed: how long that took, from its first failure on."""
    failed, found = dict[int, int](), list[float]()
    for row in sorted(attempts, key=lambda row: (row.step_index, row.attempt)):
        if row.ended_at_us is None:
            continue
        if row.state == "failed":
            failed.setdefault(row.step_index, row.ended_at_us)
        elif row.step_index in failed:
            found.append((row.ended_at_us - failed.pop(row.step_index)) / 1e6)
    return found


def _meets(wanted: Wanted, row: RunRow, now_us: int) -> bool:
    since, until = moment_us(wanted.since, now_us), moment_us(wanted.until, now_us)
    text = wanted.text.lower()
    return (
        (not wanted.statuses or row.status in wanted.statuses)
        and wanted.failure_class in ("", failure_class_of(row))
        and wanted.worker in ("", worker_of(row))
        and (since is None or row.submitted_at_us >= since)
        and (until is None or row.submitted_at_us < until)
        and any(text in words.lower() for words in (row.run_id, row.workflow, row.reason))
    )


def failure_class_of(row: RunRow) -> str:
    """Where the ledger keeps it in its rows."""
    return getattr(row, "failure_class", None) or ""


def worker_of(row: RunRow) -> str:
    return getattr(row, "worker", None) or ""


def _place(row: RunRow) -> Place:
    return row.submitted_at_us, row.run_id
