"""Ends of a step, or of the run, that no attempt led to: nothing of it is wanted, may begin, or has time left."""

from __future__ import annotations

from recoup.engine.desk import Desk
from recoup.engine.facts import no_more_tried, not_concluded, owes_always, run_failed, to_be_settled
from recoup.kernel.template import TemplateError
from recoup.model import events as ev
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.plan import Step
from recoup.model.run import StepRecord


async def settle_first(desk: Desk, step: Step, record: StepRecord) -> None:
    """It was done, and something it rests on was lost since: only an operator may let it begin again. They are
    asked before a restore, for what it left behind may still be in the workspace."""
    try:
        if not desk.wanted(step):
            return await skip(desk, step, record)
    except TemplateError as error:
        return await cannot_start(desk, record, str(error))
    escalation = to_be_settled(desk, record, record.invalidation_reason or "")
    await desk.recorder.record(escalation, release=True)
    return None


async def skip(desk: Desk, step: Step, record: StepRecord) -> None:
    await desk.recorder.record(
        ev.StepSkipped(step_id=step.id, step_index=record.index, attempt=None, reason=f"when: {step.when}")
    )


async def cannot_start(desk: Desk, record: StepRecord, words: str) -> None:
    reason = f"step {record.step_id} cannot start: {words}"
    cls, kind = FailureClass.DETERMINISTIC_CONTRACT, FailureKind.INVALID_INPUT
    await desk.recorder.record(run_failed(desk, reason, cls, kind, record), release=True)


async def out_of_time(desk: Desk, step: Step, record: StepRecord) -> None:
    reason = f"run_timeout: the run has used its {desk.job.policy.run_timeout_seconds:g} s"
    cls, kind = FailureClass.TRANSIENT_RUNTIME, FailureKind.WALL_TIMEOUT
    begun = [not_concluded(record, kind, reason, not_begun=True)] if record.open else []
    await _end_early(desk, step, record, reason, cls, kind, *begun)


async def begun_elsewhere(desk: Desk, step: Step, record: StepRecord, run_id: str) -> None:
    reason = (
        f"step {step.id} must not be repeated, and run {run_id}, which is linked to this one, has begun it: "
        f"go on there (recoup show {run_id})"
    )
    cls, kind = FailureClass.DETERMINISTIC_CONTRACT, FailureKind.INVALID_INPUT
    await _end_early(desk, step, record, reason, cls, kind)


async def _end_early(
    desk: Desk,
    step: Step,
    record: StepRecord,
    reason: str,
    cls: FailureClass,
    kind: FailureKind,
    *facts: ev.Payload,
) -> None:
    """Nothing more is tried. What was begun is cleaned up after first, where the plan says how."""
    if owes_always(step, record):
        await desk.recorder.record(*facts, no_more_tried(desk, record, reason, cls, kind))
        return
    failed = f"; step {step.id} had failed: {record.failure_summary}" if record.failure_summary else ""
    end = run_failed(desk, reason + failed, cls, kind, record)
    await desk.recorder.record(*facts, end, release=True)
