"""From what was counted to a history for charts; and the same from cached rows, for those who check it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from recoup.kernel.deeds import BESIDE
from recoup.kernel.projection import Cached
from recoup.model.storage import AttemptRow, Bucket, History, Span


class Counted(msgspec.Struct, frozen=True):
    """What a ledger has found in a span."""

    ended: Iterable[tuple[int, str, int]]
    """The number of a bucket, a status, how many runs ended so."""
    healed: Iterable[tuple[int, int]]
    """The number of a bucket, how many targets were healed."""
    recovered: Iterable[tuple[int, int]]
    """When a step passed that had failed, and for how many microseconds it had."""
    whole_since_us: int


def history(span: Span, counted: Counted) -> History:
    ended: dict[int, dict[str, int]] = {}
    for number, status, count in counted.ended:
        ended.setdefault(number, {})[status] = count
    healed = dict(counted.healed)
    took: dict[int, list[int]] = {}
    for at_us, took_us in counted.recovered:
        took.setdefault((at_us - span.since_us) // span.bucket_us, []).append(took_us)
    buckets = (
        _bucket(span, number, ended.get(number, {}), healed.get(number, 0), sorted(took.get(number, ())))
        for number in range(span.buckets)
    )
    return History(tuple(buckets), counted.whole_since_us)


def history_of(span: Span, cached: Cached, workflow: str | None = None) -> History:
    """What every backend must answer, where there is not too much."""
    runs = [row for row in cached.runs if workflow in (None, row.workflow)]
    meant = {row.run_id for row in runs}
    ends = Counter(
        (_number(span, row.ended_at_us), row.status) for row in runs if row.ended_at_us is not None
    )
    heals = Counter(_number(span, row.healed_at_us) for row in cached.heals if row.run_id in meant)
    recovered = [one for one in recoveries(cached.attempts) if one[0] in meant]
    counted = Counted(
        ended=[(number, status, count) for (number, status), count in ends.items()],
        healed=heals.items(),
        recovered=[
            (at_us, took_us) for _, at_us, took_us in recovered if span.since_us <= at_us < span.until_us
        ],
        whole_since_us=span.since_us,
    )
    return history(span, counted)


def recoveries(attempts: Iterable[AttemptRow]) -> list[tuple[str, int, int]]:
    """The run, when a step of it passed that had failed, and for how many microseconds it had: since it failed for the
    first time after it had passed last."""
    found: list[tuple[str, int, int]] = []
    failed: dict[tuple[str, int], int] = {}
    for row in sorted(attempts, key=lambda row: (row.run_id, row.step_index, row.attempt)):
        step, at_us = (row.run_id, row.step_index), row.ended_at_us
        if row.phase in BESIDE or at_us is None:
            continue
        if row.state == "failed":
            failed[step] = min(failed.get(step, at_us), at_us)
        elif row.state == "finished" and step in failed:
            found.append((row.run_id, at_us, at_us - failed.pop(step)))
    return found


def _bucket(span: Span, number: int, ended: dict[str, int], heals: int, took: Sequence[int]) -> Bucket:
    start_us = span.since_us + number * span.bucket_us
    return Bucket(start_us, ended, heals, len(took), _percentile_s(took, 50), _percentile_s(took, 95))


def _percentile_s(ordered: Sequence[int], percent: int) -> float | None:
    """The smallest that so many in a hundred do not exceed."""
    if not ordered:
        return None
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] / 1e6


def _number(span: Span, at_us: int) -> int:
    """Of its bucket; -1 for what lies outside."""
    return (at_us - span.since_us) // span.bucket_us if span.since_us <= at_us < span.until_us else -1
