"""Rows of the ledger, as lists show them."""

from __future__ import annotations

import msgspec

from recoup.kernel.rows import attempt_row_document, run_row_document
from recoup.model.storage import AttemptRow, RunRow

NOON_US = 1_800_000_000_000_001
OPEN = AttemptRow(
    *("run-1", 2, "build", 3, 1, "launched"), *(None, None, None, None, None, None), NOON_US, None
)


def test_times_are_shown_as_everywhere() -> None:
    row = RunRow("run-1", "invoices", "failed", 1, NOON_US, NOON_US + 1_000_000, "exit code 1", 9)
    told = run_row_document(row)
    assert (told.submitted_at, told.updated_at) == (
        "2027-01-15T08:00:00.000001Z",
        "2027-01-15T08:00:01.000001Z",
    )
    assert told.seq == 9


def test_an_attempt_that_has_not_ended_has_no_end() -> None:
    assert attempt_row_document(OPEN).ended_at is None
    ended = msgspec.structs.replace(OPEN, ended_at_us=NOON_US)
    assert attempt_row_document(ended).ended_at == "2027-01-15T08:00:00.000001Z"
