"""What stands in requests and answers about many runs at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from recoup.gateway.shapes import Name, Reason, Shape

BULK_MAX = 500


class RunCounted(Shape):
    count: int
    capped: Annotated[bool, Field(description="There are more, or there may be.")]


class Tallies(Shape):
    total: int
    by_status: dict[str, int]


class HistoryBucket(Shape):
    start: str
    ended: Annotated[dict[str, int], Field(description="Runs that ended, by status.")]
    heals: int
    recoveries: Annotated[int, Field(description="Steps that passed after an attempt had failed.")]
    recovery_p50_s: Annotated[float | None, Field(alias="recoveryP50S")]
    recovery_p95_s: Annotated[float | None, Field(alias="recoveryP95S")]


class HistoryDocument(Shape):
    since: str
    until: str
    bucket_s: int
    whole_since: Annotated[str, Field(description="Before that not all was counted: there was too much.")]
    items: list[HistoryBucket]


class BulkRequest(Shape):
    """The same for each of these runs, and for no other."""

    action: Literal["cancel", "retry"]
    run_ids: Annotated[list[Name], Field(min_length=1, max_length=BULK_MAX)]
    reason: Reason


class BulkOutcome(Shape):
    run_id: str
    outcome: Annotated[
        Literal["done", "sent", "refused", "failed"],
        Field(description="sent: its driver has not answered yet, and will."),
    ]
    detail: str
    new_run_id: Annotated[str | None, Field(description="Of retry: the run that goes on from it.")]


class BulkAnswer(Shape):
    items: list[BulkOutcome]
