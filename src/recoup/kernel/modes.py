"""What a mode means: how cautious its runs are, what an operator may make of it, how it looks from outside."""

from __future__ import annotations

import msgspec

from recoup.kernel.breaker import failure_counts, standing
from recoup.kernel.unreadable import unreadable_document
from recoup.model.answers.workflows import FailureCounters, LastFailure, ModeDocument
from recoup.model.events import WorkflowModeChanged
from recoup.model.instant import Instant
from recoup.model.mode import FailedResult, Health, Mode
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, Unreadable

TOLERANCE_LEVEL_MAX = 2
FORCIBLE = (Mode.RUNNING, Mode.DEGRADED, Mode.QUARANTINED, Mode.PAUSED)
"""A rollback is no mode to be put into: it is something that happens to what was learned."""


class Caution(msgspec.Struct, frozen=True):
    """What runs of the workflow must keep to."""

    confidence_floor: float
    margin_min: float
    tolerance_level_max: int
    learning: bool


def caution(mode: Mode, policy: Policy) -> Caution:
    """Everything but a running workflow is treated as a degraded one."""
    if mode is Mode.RUNNING:
        return Caution(policy.min_confidence_normal, 0.0, TOLERANCE_LEVEL_MAX, learning=True)
    return Caution(
        policy.min_confidence_degraded,
        policy.min_margin_top1_top2_degraded,
        tolerance_level_max=0,
        learning=mode is Mode.DEGRADED and not policy.disable_learning_in_degraded,
    )


def forced_change(
    health: Health, mode: Mode, reason: str, actor: str, for_s: float | None, policy: Policy, digest: str
) -> WorkflowModeChanged:
    """An operator's word. To let a workflow run again without a time is no override: the rules go on as ever."""
    assert mode in FORCIBLE, f"{mode} cannot be forced"
    if mode is Mode.QUARANTINED and for_s is None:
        for_s = policy.quarantine_duration_s
    return WorkflowModeChanged(
        mode=mode,
        previous=health.mode,
        reason=reason,
        for_s=for_s,
        forced=mode is not Mode.RUNNING or for_s is not None,
        actor=actor,
        policy_digest=digest,
    )


def calls_for_report(state: RunState, mode: Mode) -> bool:
    """A person will want to know: the run was handed over, or its workflow, of this mode now, was stopped."""
    if state.status in (RunStatus.ESCALATED, RunStatus.DEAD_LETTER):
        return True
    return state.begun and mode in (Mode.QUARANTINED, Mode.ROLLBACK)


def unreadable_mode_document(
    workflow: str, unreadable: Unreadable, policy: Policy, now: Instant
) -> ModeDocument:
    """Of a workflow whose stream cannot be folded: its mode is not known, and nothing of it begins."""
    which = f"event {unreadable.seq}" if unreadable.seq else "an event"
    return msgspec.structs.replace(
        mode_document(workflow, Health(), policy, now),
        mode="unreadable",
        reason=f"{which} of the workflow cannot be read: {unreadable.reason}; nothing of it begins",
        learning_enabled=False,
        unreadable=unreadable_document(unreadable),
    )


def mode_document(workflow: str, health: Health, policy: Policy, now: Instant) -> ModeDocument:
    at = standing(health, now)
    cautious = caution(at.mode, policy)
    failure = health.failures[-1] if health.failures else None
    return ModeDocument(
        workflow=workflow,
        mode=at.mode.value,
        since=health.since.at.iso() if health.since else None,
        until=now.plus_s(at.left_s).iso() if at.left_s is not None else None,
        reason=health.reason,
        causes=list(health.causes),
        forced=health.forced and not at.over,
        half_open=at.half_open,
        counters=msgspec.convert(failure_counts(health, policy, now), FailureCounters),
        counters_at_change=health.counters,
        last_failure=None if failure is None else _last_failure(failure),
        confidence_floor=cautious.confidence_floor,
        margin_min=cautious.margin_min,
        tolerance_level_max=cautious.tolerance_level_max,
        learning_enabled=cautious.learning,
    )


def _last_failure(failure: FailedResult) -> LastFailure:
    return LastFailure(
        at=failure.moment.at.iso(),
        run_id=failure.run_id,
        step_id=failure.step_id,
        failure_kind=failure.kind,
    )
