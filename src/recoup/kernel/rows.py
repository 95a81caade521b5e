"""Rows of the ledger as documents, for lists."""

from __future__ import annotations

from recoup.kernel.unreadable import unreadable_document
from recoup.model.answers.runs import Attempt, RunSummary
from recoup.model.instant import Instant
from recoup.model.run import Unreadable
from recoup.model.storage import AttemptRow, RunRow


def run_row_document(row: RunRow, unreadable: Unreadable | None = None) -> RunSummary:
    return RunSummary(
        run_id=row.run_id,
        workflow=row.workflow,
        status=row.status,
        delivery=row.delivery,
        submitted_at=_iso(row.submitted_at_us),
        updated_at=_iso(row.updated_at_us),
        ended_at=None if row.ended_at_us is None else _iso(row.ended_at_us),
        reason=row.reason,
        seq=row.seq,
        failure_class=row.failure_class,
        worker=row.worker,
        step_count=row.step_count,
        unreadable=unreadable_document(unreadable),
    )


def attempt_row_document(row: AttemptRow) -> Attempt:
    return Attempt(
        run_id=row.run_id,
        step_index=row.step_index,
        step_id=row.step_id,
        attempt=row.attempt,
        delivery=row.delivery,
        state=row.state,
        verdict=row.verdict,
        failure_kind=row.failure_kind,
        failure_class=row.failure_class,
        failure_signature=row.failure_signature,
        diff_hash=row.diff_hash,
        strategy=row.strategy,
        started_at=_iso(row.started_at_us),
        ended_at=None if row.ended_at_us is None else _iso(row.ended_at_us),
        phase=row.phase,
    )


def _iso(wall_us: int) -> str:
    return Instant(wall_us, 0, "").iso()
