"""The documents that go with an attempt: what a retry is told, what people find in the run's folder."""

from __future__ import annotations

from typing import Any

from recoup.model.instant import Instant
from recoup.model.plan import Plan, Step
from recoup.model.run import StepRecord
from recoup.steps.registry import step_kind

_LAST_COMMAND_MAX = 2000
CONSTRAINTS = (
    "do not re-run unchanged remediation",
    "if test harness instability is detected, isolate cause before editing product code",
)


def retry_context(plan: Plan, step: Step, record: StepRecord, attempt: int) -> dict[str, Any]:
    """The minimal envelope: what was wanted, what went wrong, what not to do. Never logs, never a transcript."""
    return {
        "objective": plan.objective,
        "stepId": step.id,
        "title": step.title,
        "instructions": instructions(step),
        "attempt": attempt,
        "failureSummary": record.failure.summary,
        "failureClass": record.failure.cls,
        "failureKind": record.failure.kind,
        "failureSignature": record.failure.signature,
        "strategy": record.recovery.strategy,
        "lastCommand": record.agent.last_command or instructions(step),
        "changedFiles": list(record.results.changed_files),
        "diffHash": record.results.diff_hash,
        "constraints": list(CONSTRAINTS),
    }


def instructions(step: Step) -> str:
    """What the step does, in the plan's words."""
    return step_kind(step.action).instructions(step.action)[:_LAST_COMMAND_MAX]


def step_state(
    record: StepRecord, attempt: int, diff_hash: str | None, files: tuple[str, ...], at: Instant
) -> dict[str, Any]:
    return {
        "schemaVersion": "v1",
        "stepId": record.step_id,
        "stepIndex": record.index,
        "attempt": attempt,
        "diffHash": diff_hash,
        "changedFiles": list(files),
        "finishedAt": at.iso(),
    }
