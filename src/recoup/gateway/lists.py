"""Many runs at once: which ones are meant, how many there are, and what became of them over time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from pydantic import AwareDatetime, BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway import list_shapes
from recoup.gateway.answering import document
from recoup.gateway.described import answers
from recoup.gateway.house import house_of
from recoup.gateway.problems import Refused
from recoup.gateway.routing import new_router
from recoup.model.failure import FailureClass
from recoup.model.run import RunStatus
from recoup.model.storage import BUCKETS_MAX, Bucket, RunFilter, Span

router = new_router("runs")
TEXT_CHARS_MAX: Final = 200
BUCKET_S_MAX: Final = 31 * 86_400
_DAY_S: Final = 86_400
_WRITTEN: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].*")


def _written(said: object) -> object:
    """Numbers are no moments: nobody could tell whether they are seconds or a thousandth of one."""
    if isinstance(said, str) and not _WRITTEN.fullmatch(said):
        raise ValueError("write it as 2026-11-16T08:00:00Z")
    return said


Moment = Annotated[AwareDatetime, BeforeValidator(_written)]
Workflow = Annotated[str | None, Query(max_length=200)]


def filter_of(
    workflow: Workflow = None,
    status: Annotated[list[RunStatus] | None, Query(description="One of these; repeatable.")] = None,
    failure_class: Annotated[FailureClass | None, Query(alias="failureClass")] = None,
    worker: Annotated[
        str | None, Query(max_length=200, description="Who drives it, or did last: `workerId`.")
    ] = None,
    since: Annotated[Moment | None, Query(description="Submitted then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Submitted before.")] = None,
    text: Annotated[
        str,
        Query(
            max_length=TEXT_CHARS_MAX,
            description="Stands in the id, the workflow or the reason; A to Z in either case. With it a page may hold "
            "fewer runs than asked for, or none, and have a `nextCursor`: so many were looked through.",
        ),
    ] = "",
) -> RunFilter:
    return RunFilter(
        workflow=workflow,
        statuses=tuple(one.value for one in status or ()),
        failure_class=failure_class,
        worker=worker,
        since_us=0 if since is None else wall_us(since),
        until_us=None if until is None else wall_us(until),
        text=text,
    )


Filter = Annotated[RunFilter, Depends(filter_of)]


@router.get("/api/runs/count", responses=answers(list_shapes.RunCounted))
async def count_runs(request: Request, wanted: Filter) -> Response:
    """How many runs a list with these filters would hold, up to ten thousand."""
    found = await house_of(request).app.ledger.count_runs(wanted)
    return document(request, {"count": found.count, "capped": found.capped})


@router.get("/api/tallies", responses=answers(list_shapes.Tallies))
async def show_tallies(request: Request) -> Response:
    """How many runs there are with each status."""
    found = await house_of(request).app.ledger.tallies()
    by_status = {status.value: found.get(status.value, 0) for status in RunStatus}
    return document(request, {"total": sum(found.values()), "byStatus": by_status})


@router.get("/api/history", responses=answers(list_shapes.HistoryDocument))
async def show_history(
    request: Request,
    workflow: Workflow = None,
    since: Annotated[Moment | None, Query(description="Without it, a day ago.")] = None,
    bucket_s: Annotated[int, Query(alias="bucketS", ge=1, le=BUCKET_S_MAX)] = 3_600,
) -> Response:
    """What ended, was healed and recovered until now, in equal parts of time. Parts begin at multiples of their length,
    so that two who ask one after the other are told of the same ones."""
    app = house_of(request).app
    now_us, bucket_us = app.world.clock.now().wall_us, bucket_s * 1_000_000
    since_us = now_us - _DAY_S * 1_000_000 if since is None else max(0, wall_us(since))
    span = _span(since_us - since_us % bucket_us, now_us - now_us % bucket_us + bucket_us, bucket_us)
    found = await app.ledger.history(span, workflow)
    told = {
        **{"since": iso(span.since_us), "until": iso(span.until_us), "bucketS": bucket_s},
        **{"wholeSince": iso(found.whole_since_us), "items": [_told(one) for one in found.buckets]},
    }
    return document(request, told)


def wall_us(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)


def iso(at_us: int) -> str:
    moment = datetime.fromtimestamp(at_us / 1e6, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _span(since_us: int, until_us: int, bucket_us: int) -> Span:
    try:
        return Span(since_us, until_us, bucket_us)
    except ValueError as error:
        raise Refused(
            *(422, f"since and bucketS: {error}"),
            hint=f"At most {BUCKETS_MAX} parts, from a time that is past.",
        ) from None


def _told(bucket: Bucket) -> dict[str, Any]:
    return {
        **{"start": iso(bucket.start_us), "ended": bucket.ended, "heals": bucket.heals},
        "recoveries": bucket.recoveries,
        **{"recoveryP50S": bucket.recovery_p50_s, "recoveryP95S": bucket.recovery_p95_s},
    }
