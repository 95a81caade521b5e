"""Rows of the ledger as documents, for lists."""

from __future__ import annotations

from typing import Any

from recoup.kernel.unreadable import unreadable_document
from recoup.model.instant import Instant
from recoup.model.run import Unreadable
from recoup.model.storage import AttemptRow, RunRow


def run_row_document(row: RunRow, unreadable: Unreadable | None = None) -> dict[str, Any]:
    return {
        "runId": row.run_id,
        "workflow": row.workflow,
        "status": row.status,
        "delivery": row.delivery,
        "submittedAt": _iso(row.submitted_at_us),
        "updatedAt": _iso(row.updated_at_us),
        "endedAt": None if row.ended_at_us is None else _iso(row.ended_at_us),
        "reason": row.reason,
        "seq": row.seq,
        "failureClass": row.failure_class,
        "worker": row.worker,
        "stepCount": row.step_count,
        "unreadable": unreadable_document(unreadable),
    }


def attempt_row_document(row: AttemptRow) -> dict[str, Any]:
    return {
        **{"runId": row.run_id, "stepIndex": row.step_index, "stepId": row.step_id, "attempt": row.attempt},
        **{"delivery": row.delivery, "state": row.state, "verdict": row.verdict},
        **{"failureKind": row.failure_kind, "failureClass": row.failure_class},
        **{"failureSignature": row.failure_signature, "diffHash": row.diff_hash, "strategy": row.strategy},
        "startedAt": _iso(row.started_at_us),
        "endedAt": None if row.ended_at_us is None else _iso(row.ended_at_us),
        "phase": row.phase,
    }


def _iso(wall_us: int) -> str:
    return Instant(wall_us, 0, "").iso()
