"""Many runs at once: which ones are meant, how many there are, and what became of them over time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import Enum
from inspect import Parameter, Signature
from types import GenericAlias
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from pydantic import AwareDatetime, BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from recoup.gateway.answering import document
from recoup.gateway.described import answers
from recoup.gateway.house import house_of
from recoup.gateway.problems import Refused
from recoup.gateway.routing import new_router
from recoup.kernel.listing import FILTERS
from recoup.model.answers.lists import HistoryBucket, HistoryDocument, RunCounted, Tallies
from recoup.model.run_filter import NAME_CHARS_MAX, FilterKind, RunFilterField
from recoup.model.storage import BUCKETS_MAX, Bucket, RunFilter, Span
from recoup.operations import runs

router = new_router("runs")
BUCKET_S_MAX: Final = 31 * 86_400
_DAY_S: Final = 86_400
_WRITTEN: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].*")


def _written(said: object) -> object:
    """Numbers are no moments: nobody could tell whether they are seconds or a thousandth of one."""
    if isinstance(said, str) and not _WRITTEN.fullmatch(said):
        raise ValueError("write it as 2026-11-16T08:00:00Z")
    return said


Moment = Annotated[AwareDatetime, BeforeValidator(_written)]
Workflow = Annotated[str | None, Query(max_length=NAME_CHARS_MAX)]


def _parameter(name: str, field: RunFilterField) -> Parameter:
    """What FastAPI reads of an argument: its type, its limits and its words."""
    default = getattr(RunFilter(), name)
    kind: Any = field.choices or _TYPES[field.kind]
    if isinstance(default, tuple):
        kind = GenericAlias(list, kind)
    chars_max = None if field.choices is not None or kind is Moment else NAME_CHARS_MAX
    query = Query(max_length=chars_max, description=field.about or None)
    taken = kind if isinstance(default, str) else kind | None
    return Parameter(
        field.parameter or field.name,
        Parameter.KEYWORD_ONLY,
        default=default if isinstance(default, str) else None,
        annotation=Annotated[taken, query],
    )


_TYPES: Final[dict[FilterKind, Any]] = {
    FilterKind.EXACT: str,
    FilterKind.MOMENT: Moment,
    FilterKind.WORDS: str,
}


def filter_of(**given: Any) -> RunFilter:
    values = {name: _value(given[field.parameter or field.name]) for name, field in FILTERS.items()}
    return RunFilter(**{name: value for name, value in values.items() if value is not None})


def _value(given: Any) -> Any:
    match given:
        case datetime():
            return wall_us(given)
        case Enum():
            return given.value
        case list():
            return tuple(map(_value, given))
        case _:
            return given


filter_of.__signature__ = Signature(  # type: ignore[attr-defined]
    [_parameter(name, field) for name, field in FILTERS.items()], return_annotation=RunFilter
)
Filter = Annotated[RunFilter, Depends(filter_of)]


@router.get("/api/runs/count", responses=answers(RunCounted))
async def count_runs(request: Request, wanted: Filter) -> Response:
    """How many runs a list with these filters would hold, up to ten thousand."""
    return document(request, await runs.count_runs(house_of(request).app, wanted))


@router.get("/api/tallies", responses=answers(Tallies))
async def show_tallies(request: Request) -> Response:
    """How many runs there are with each status."""
    by_status = await runs.tallies(house_of(request).app)
    return document(request, {"total": sum(by_status.values()), "byStatus": by_status})


@router.get("/api/history", responses=answers(HistoryDocument))
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
    found = await runs.history(app, span, workflow)
    answer = HistoryDocument(
        since=iso(span.since_us),
        until=iso(span.until_us),
        bucket_s=bucket_s,
        whole_since=iso(found.whole_since_us),
        items=[_bucket(one) for one in found.buckets],
    )
    return document(request, answer)


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


def _bucket(bucket: Bucket) -> HistoryBucket:
    return HistoryBucket(
        start=iso(bucket.start_us),
        ended=bucket.ended,
        heals=bucket.heals,
        recoveries=bucket.recoveries,
        recovery_p50_s=bucket.recovery_p50_s,
        recovery_p95_s=bucket.recovery_p95_s,
    )
