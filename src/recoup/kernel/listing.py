"""Which runs a filter means: what every backend's lists and counts must agree with."""

from __future__ import annotations

from typing import Final, get_type_hints

from recoup.model.run_filter import FilterKind, RunFilterField
from recoup.model.storage import NEWEST, Place, RunFilter, RunRow

_FOLDING: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _filters() -> dict[str, RunFilterField]:
    hints = get_type_hints(RunFilter, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


FILTERS: Final = _filters()
"""By the field of `RunFilter`."""
COLUMNS: Final = {
    name: field.column or name for name, field in FILTERS.items() if field.kind is FilterKind.EXACT
}
"""The columns of the filters that are compared to the letter."""


def values_of(wanted: RunFilter, name: str) -> tuple[str, ...]:
    """Of a filter that is compared to the letter: any of these. None: nothing is said."""
    value = getattr(wanted, name)
    return value if isinstance(value, tuple) else () if value is None else (value,)


def meets(wanted: RunFilter, row: RunRow) -> bool:
    return (
        all(
            not (values := values_of(wanted, name)) or getattr(row, column) in values
            for name, column in COLUMNS.items()
        )
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
