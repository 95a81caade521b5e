"""The charts of a workflow's page."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from recoup.gateway.console.plots import Series, line, stacked_bars
from recoup.gateway.console.workflow_views import (
    heals_by_proof,
    middle_by_bucket,
    recovery_times,
    runs_by_end,
)
from recoup.model.events import Event
from recoup.model.storage import RunRow
from recoup.reports.spoken import lasting


def success_chart(rows: Sequence[RunRow]) -> Markup:
    labels, counts = runs_by_end(rows)
    series = [
        Series("succeeded", counts["succeeded"], "passed"),
        Series("failed or handed over", counts["failed"], "failed"),
        Series("under way, cancelled", counts["other"], "wait"),
    ]
    return stacked_bars("How runs ended", labels, series, unit="runs") if labels else Markup("")


def heals_chart(events: Sequence[Event]) -> Markup:
    labels, counts = heals_by_proof(events)
    series = [
        Series("proved right", counts["verified"], "passed"),
        Series("not proved", counts["unverified"], "backoff"),
    ]
    return stacked_bars("Heals", labels, series, unit="heals") if labels else Markup("")


def recovery_chart(events: Sequence[Event]) -> Markup:
    labels, values = middle_by_bucket(recovery_times(events))
    series = [Series("median", values, "work")]
    if not labels:
        return Markup("")
    return line("Time to recover a step", labels, series, unit="seconds", spoken=lasting)
