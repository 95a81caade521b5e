"""What is answered about many runs at once."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from recoup.model.answers.answer import Answer


class RunCounted(Answer, frozen=True, kw_only=True):
    count: int
    capped: Annotated[bool, Meta(description="There are more, or there may be.")]


class Tallies(Answer, frozen=True, kw_only=True):
    total: int
    by_status: dict[str, int]


class HistoryBucket(Answer, frozen=True, kw_only=True):
    start: str
    ended: Annotated[dict[str, int], Meta(description="Runs that ended, by status.")]
    heals: int
    recoveries: Annotated[int, Meta(description="Steps that passed after an attempt had failed.")]
    recovery_p50_s: float | None = msgspec.field(name="recoveryP50S")
    recovery_p95_s: float | None = msgspec.field(name="recoveryP95S")


class HistoryDocument(Answer, frozen=True, kw_only=True):
    since: str
    until: str
    bucket_s: int
    whole_since: Annotated[str, Meta(description="Before that not all was counted: there was too much.")]
    items: list[HistoryBucket]


class BulkOutcome(Answer, frozen=True, kw_only=True):
    run_id: str
    outcome: Annotated[
        Literal["done", "sent", "refused", "failed"],
        Meta(description="sent: its driver has not answered yet, and will."),
    ]
    detail: str
    new_run_id: Annotated[str | None, Meta(description="Of retry: the run that goes on from it.")]


class BulkAnswer(Answer, frozen=True, kw_only=True):
    items: list[BulkOutcome]
