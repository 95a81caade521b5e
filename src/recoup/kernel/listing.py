"""Which runs a filter means: what every backend's lists and counts must agree with."""

from __future__ import annotations

from typing import Final

from recoup.model.storage import NEWEST, Place, RunFilter, RunRow

_FOLDING: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def meets(wanted: RunFilter, row: RunRow) -> bool:
    return (
        wanted.workflow in (None, row.workflow)
        and (not wanted.statuses or row.status in wanted.statuses)
        and wanted.failure_class in (None, row.failure_class)
        and wanted.worker in (None, row.worker)
        and wanted.since_us <= row.submitted_at_us
        and (wanted.until_us is None or row.submitted_at_us < wanted.until_us)
        and _holds(row, folded(wanted.text))
    )


def first_place(wanted: RunFilter, before: Place | None) -> Place:
    """Behind which the runs that are meant lie."""
    until = NEWEST if wanted.until_us is None else (wanted.until_us, "")
    return min(until, before or NEWEST)


def folded(text: str) -> str:
    """Upper and lower case alike, as every database can do it in the same way: of the letters A to Z alone."""
    return text.translate(_FOLDING)


def _holds(row: RunRow, text: str) -> bool:
    return any(text in folded(words) for words in (row.run_id, row.workflow, row.reason))
