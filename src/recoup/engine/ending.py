"""Ends of a step, or of the run, that no attempt led to: nothing of it is wanted, may begin, or has time left."""

from __future__ import annotations

from recoup.engine.arguments import digests_now
from recoup.engine.desk import Desk
from recoup.engine.facts import no_more_tried, not_concluded, owes_always, run_failed, to_be_settled
from recoup.kernel.reuse import deed_words, is_same_deed
from recoup.kernel.template import TemplateError
from recoup.model import events as ev
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.plan import Step
from recoup.model.run import StepRecord


async def settle_first(desk: Desk, step: Step, record: StepRecord) -> bool:
    """It was done, here or in a linked run, and what it left was lost since: only an operator may let it begin again.
    They are asked before a restore, for what it left behind may still be in the workspace. False: with the arguments
    that it has by now it was never done."""
    try:
        if not desk.wanted(step):
            await skip(desk, step, record)
            return True
        if not _was_done(desk, step, record):
            return False
        also = _also_asked(desk, step, record)
    except TemplateError as error:
        await cannot_start(desk, record, str(error))
        return True
    escalation = to_be_settled(desk, record, record.invalidation_reason or "", also)
    await desk.recorder.record(escalation, release=True)
    return True


def _was_done(desk: Desk, step: Step, record: StepRecord) -> bool:
    """In a linked run: with the arguments that it has now, or as far as is known."""
    asks = record.doubt.asks
    if asks is None or not record.is_done_elsewhere:
        return True
    private = frozenset(asks.private)
    digests = digests_now(step, desk.job, desk.state, desk.world.redactor, private_then=private)
    return digests is None or is_same_deed(asks, digests)


def _also_asked(desk: Desk, step: Step, record: StepRecord) -> list[StepRecord]:
    """Steps right after it that were lost with it: one answer serves them all."""
    also: list[StepRecord] = []
    if record.doubt.asks is None:
        return also
    hooks = desk.kinds.of(step)
    behind = zip(desk.job.plan.steps, desk.state.steps, strict=True)
    for following, one in [*behind][record.index + 1 :]:
        if (
            not hooks.is_lost_too(following)
            or not one.doubt.to_settle
            or one.doubt.asks is None
            or following.when is not None
        ):
            break
        if deed_words(one.doubt.asks) != deed_words(record.doubt.asks) or not _was_done(desk, following, one):
            break
        also.append(one)
    return also


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
    failed = f"; step {step.id} had failed: {record.failure.summary}" if record.failure.summary else ""
    end = run_failed(desk, reason + failed, cls, kind, record)
    await desk.recorder.record(*facts, end, release=True)
