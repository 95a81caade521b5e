"""The facts that a driver records, from what it knows. No effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.engine.arguments import Arguments
from recoup.engine.conclusion import Failed, Kept, Passed
from recoup.engine.desk import Desk
from recoup.engine.handlers import Handled
from recoup.kernel.advice import hint_of, retry_advice, settle_advice
from recoup.kernel.deeds import ENDS_THE_STEP, lost_words
from recoup.kernel.healing import details_of, seen_at_the_end
from recoup.kernel.pre_states import pre_fingerprint
from recoup.kernel.reuse import deed_words
from recoup.kernel.workflow import token_cost
from recoup.model import events as ev
from recoup.model.decision import Decision, Escalate, GiveUp, HardReset, Retry, SoftReset, strategy
from recoup.model.failure import Facts, Failure, FailureClass, FailureKind
from recoup.model.outcome import Seen
from recoup.model.plan import Repeat, Step, kind_of
from recoup.model.run import GivenUp, RunState, StepRecord, StepState, Verdict
from recoup.model.storage import Control
from recoup.model.workspace import Missing, Snapshot


def started(
    desk: Desk,
    step: Step,
    record: StepRecord,
    arguments: Arguments,
    pre_state: str | None,
    phase: str = "main",
    prechecks: tuple[ev.CheckResult, ...] | None = None,
    seen: Seen | None = None,
) -> ev.AttemptStarted:
    """`seen`: by the step before, where the ledger does not say so yet."""
    kind = kind_of(step.action)
    checks = record.beginning.prechecks if prechecks is None else prechecks
    return ev.AttemptStarted(
        step_id=step.id,
        step_index=record.index,
        attempt=record.spent.attempts + 1,
        strategy=record.recovery.strategy,
        policy_digest=desk.recorder.digest_of(desk.policy(step)),
        delivery=desk.state.driver.delivery,
        kind=kind,
        args_digest=arguments.digest,
        pre_state=pre_state,
        workspace=desk.workspace,
        inline=not desk.outside(step),
        prechecks=prechecks,
        phase=phase,
        once=step.repeat is Repeat.NEVER and phase in ENDS_THE_STEP,
        again_after=record.doubt.asks.deeds if record.doubt.asks and phase in ENDS_THE_STEP else (),
        pre_fingerprint=pre_fingerprint(desk.state, step, record, seen, checks if pre_state is None else ()),
    )


def passed_facts(
    desk: Desk, step: Step, record: StepRecord, passed: Passed, phase: str = "main"
) -> list[ev.Payload]:
    """The step is done: its end, its checkpoint, and what the checkpoint lacks or should not hold."""
    attempt = record.open.attempt if record.open else record.spent.attempts
    facts: list[ev.Payload] = [
        ev.AttemptFinished(
            step_id=step.id,
            step_index=record.index,
            attempt=attempt,
            diff_hash=passed.change.hash,
            strategy=record.recovery.strategy,
            policy_digest=desk.recorder.digest_of(desk.policy(step)),
            verdict=passed.verdict,
            duration_ms=passed.duration_ms,
            exit_code=passed.exit_code,
            outputs=passed.outputs.plain,
            secret_outputs=tuple(passed.outputs.secret),
            private_outputs=passed.private_outputs,
            evidence=passed.evidence,
            changed_files=passed.change.files,
            changed_files_count=passed.change.files_count,
            checkpoint=passed.snapshot.tree if passed.snapshot else None,
            workspace=desk.workspace,
            settled_by=passed.settled_by,
            phase=phase,
            agent=passed.agent,
            handlers=passed.handlers,
            **seen_at_the_end(passed.seen),
        )
    ]
    about: dict[str, Any] = {"step_id": step.id, "step_index": record.index, "attempt": attempt}
    if passed.files_lost:
        facts.append(ev.CheckpointIncomplete(**about, missing=(_FILES_LOST,), missing_count=1))
    if phase == "rebuild" or passed.snapshot is None or desk.workspace is None:
        return facts
    kept = Kept(passed.snapshot, passed.secrets_found)
    return facts + _checkpoint_facts(about, kept, desk.workspace, passed.change.hash)


_FILES_LOST = Missing(".", "the workspace of the step is lost, and with it every file that the step changed")


def _checkpoint_facts(
    about: dict[str, Any], kept: Kept, workspace: int, diff_hash: str | None = None
) -> list[ev.Payload]:
    snapshot = kept.snapshot
    stored = Snapshot(snapshot.tree, snapshot.manifest, bytes_stored=snapshot.bytes_stored)
    facts: list[ev.Payload] = [
        ev.CheckpointStored(**about, diff_hash=diff_hash, snapshot=stored, workspace=workspace)
    ]
    if snapshot.missing_count:
        facts.append(
            ev.CheckpointIncomplete(**about, missing=snapshot.missing, missing_count=snapshot.missing_count)
        )
    facts += [ev.SecretFound(**about, names=names, where=path) for path, names in kept.secrets_found]
    return facts


def resumed_from(
    record: StepRecord, reason: str, strategy: str | None = None, *, restores: bool = False
) -> ev.ResumeFromStep:
    """With the step's last attempt, if it had one; `strategy`: of its next one."""
    last = record.open.attempt if record.open else record.spent.attempts
    return ev.ResumeFromStep(
        step_id=record.step_id,
        step_index=record.index,
        attempt=last or None,
        strategy=strategy,
        reason=reason,
        restores=restores,
    )


def passed_result(desk: Desk, step: Step, record: StepRecord) -> ev.WorkflowStepResult:
    result, attempts = (
        "recovered" if record.spent.attempts_in_delivery else "passed",
        record.spent.attempts_in_delivery + 1,
    )
    return ev.WorkflowStepResult(
        run_id=desk.job.run_id,
        step_id=step.id,
        result=result,
        attempts=attempts,
        tokens=token_cost(result, attempts, desk.policy(step)),
    )


def failed_facts(
    desk: Desk, step: Step, record: StepRecord, state: StepState, failed: Failed, decision: Decision
) -> list[ev.Payload]:
    """The attempt failed, and what follows from it."""
    failure = failed.failure
    shared: dict[str, Any] = {
        "step_id": step.id,
        "step_index": record.index,
        "attempt": state.attempt,
        "failure_class": decision.cls,
        "failure_kind": failure.kind,
        "failure_signature": failure.signature,
        "diff_hash": failure.facts.diff_hash,
        "strategy": strategy(decision),
        "reason": decision.reason,
        "policy_digest": desk.recorder.digest_of(desk.policy(step)),
    }
    end = ev.AttemptFailed(
        **shared,
        facts=failure.facts,
        summary=failure.summary,
        outcome_known=failure.outcome_known,
        evidence=failed.evidence,
        changed_files=failed.change.files,
        changed_files_count=failed.change.files_count,
        tolerance_level=failure.tolerance_level,
        retry_tokens=state.retry_tokens,
        phase=_phase(record),
        agent=failed.agent,
        handlers=failed.handlers,
        gives_up=_postponed(step, record, decision),
        redeliver=isinstance(decision, GiveUp) and decision.redeliver,
        resolution=details_of(failed.seen),
    )
    return [end, *_consequences(desk, step, record, failed, decision, shared)]


def _phase(record: StepRecord) -> str:
    return record.open.phase if record.open is not None else "main"


def owes_always(step: Step, record: StepRecord) -> bool:
    """It was begun in this delivery and has not come to its end, after which its `always` would follow by itself."""
    ended = record.recovery.given_up is not None and (record.recovery.rescue_tried or not step.rescue)
    return bool(step.always and record.spent.attempts_in_delivery) and not ended


def _postponed(step: Step, record: StepRecord, decision: Decision) -> bool:
    """The end of the run waits for the step's handlers."""
    return isinstance(decision, GiveUp) and _phase(record) == "main" and bool(step.rescue or step.always)


def _consequences(
    desk: Desk, step: Step, record: StepRecord, failed: Failed, decision: Decision, shared: dict[str, Any]
) -> list[ev.Payload]:
    match decision:
        case Retry(delay_ms=delay_ms) | SoftReset(delay_ms=delay_ms):
            return [ev.SelfHealTriggered(**shared, delay_ms=delay_ms)]
        case HardReset(delay_ms=delay_ms):
            return [ev.SelfHealEscalated(**shared, delay_ms=delay_ms)]
        case Escalate(reason=reason):
            words = f"step {step.id}: {reason}"
            hint = settle_hint(desk, record, failed.failure.kind)
            return [escalated(desk, words, hint, record, failed.failure)]
        case GiveUp():
            return _ends(desk, step, record, failed, decision, shared)


def _ends(
    desk: Desk, step: Step, record: StepRecord, failed: Failed, decision: GiveUp, shared: dict[str, Any]
) -> list[ev.Payload]:
    facts: list[ev.Payload] = []
    if decision.exhausted:
        facts.append(ev.SelfHealExhausted(**shared, retryable=decision.redeliver))
    if _postponed(step, record, decision):
        return facts
    rebuilding = "rebuild of " if _phase(record) == "rebuild" else ""
    reason = f"{rebuilding}step {step.id}: {failed.failure.summary} ({decision.reason})"
    given_up = GivenUp(reason, decision.cls, failed.failure.kind, decision.redeliver)
    return [*facts, *run_ends(desk, record, given_up)]


def run_ends(desk: Desk, record: StepRecord, given_up: GivenUp) -> list[ev.Payload]:
    """The delivery fails; after the last one that was allowed, the run."""
    about: dict[str, Any] = {
        "reason": given_up.reason,
        "failure_class": given_up.cls,
        "failure_kind": given_up.kind,
        "delivery": desk.state.driver.delivery,
        "step_id": record.step_id,
        "step_index": record.index,
    }
    if given_up.redeliver and desk.state.driver.delivery >= desk.job.policy.delivery_max:
        return [given_up_for_good(desk, given_up.reason), ev.RunDeadLettered(**about)]
    return [ev.RunFailed(**about, retryable=given_up.redeliver)]


def given_up_result(desk: Desk, record: StepRecord) -> ev.WorkflowStepResult:
    """What the workflow counts when handlers could not recover the step."""
    assert record.recovery.given_up is not None
    return ev.WorkflowStepResult(
        run_id=desk.job.run_id,
        step_id=record.step_id,
        result="failed",
        attempts=record.spent.attempts_in_delivery,
        failure_kind=record.recovery.given_up.kind,
        failure_class=record.recovery.given_up.cls,
    )


def failed_results(
    desk: Desk, step: Step, record: StepRecord, failed: Failed, decision: Decision
) -> Sequence[ev.WorkflowStepResult]:
    """What the workflow's budgets count: every failed attempt, and the step when it is given up."""
    about: dict[str, Any] = {
        "run_id": desk.job.run_id,
        "step_id": step.id,
        "attempts": record.spent.attempts_in_delivery + 1,
        "failure_kind": failed.failure.kind,
        "failure_class": decision.cls,
    }
    cost = token_cost("attempt_failed", record.spent.attempts_in_delivery + 1, desk.policy(step))
    results = [ev.WorkflowStepResult(**about, result="attempt_failed", tokens=cost)]
    if isinstance(decision, GiveUp | Escalate) and not _postponed(step, record, decision):
        results.append(ev.WorkflowStepResult(**about, result="failed"))
    return results


def not_rescued(desk: Desk, step: Step, record: StepRecord, failed: Failed) -> ev.AttemptFailed:
    """The handlers did not help. How the step failed before stands."""
    assert record.open is not None
    return ev.AttemptFailed(
        step_id=step.id,
        step_index=record.index,
        attempt=record.open.attempt,
        failure_class=failed.failure.cls,
        failure_kind=failed.failure.kind,
        failure_signature=failed.failure.signature,
        diff_hash=failed.change.hash,
        strategy="none",
        reason="no handler recovered the step",
        policy_digest=desk.recorder.digest_of(desk.policy(step)),
        facts=failed.failure.facts,
        summary=failed.failure.summary,
        outcome_known=True,
        phase="rescue",
        handlers=failed.handlers,
    )


def always_facts(
    desk: Desk, step: Step, record: StepRecord, handled: Handled, kept: Kept | None
) -> list[ev.Payload]:
    assert record.open is not None
    failed = sum(not result.passed for result in handled.results)
    about: dict[str, Any] = {
        "step_id": step.id,
        "step_index": record.index,
        "attempt": record.open.attempt,
    }
    facts: list[ev.Payload] = [
        ev.AttemptFinished(
            **about,
            reason=f"{failed} of {len(handled.results)} failed" if failed else None,
            policy_digest=desk.recorder.digest_of(desk.policy(step)),
            verdict=record.verdict,
            duration_ms=0,
            phase="always",
            handlers=handled.results,
        )
    ]
    if kept is not None and desk.workspace is not None:
        facts += _checkpoint_facts(about, kept, desk.workspace)
    return facts


def invalidated(state: RunState, index: int, reason: str) -> list[ev.StepInvalidated]:
    """This step and the good ones after it must be performed again."""
    records = state.steps[index : state.progress.prefix_length]
    return [
        ev.StepInvalidated(
            step_id=record.step_id,
            step_index=record.index,
            attempt=None,
            reason=reason if record.index == index else f"after {records[0].step_id}: {reason}",
        )
        for record in records
    ]


def not_concluded(
    record: StepRecord,
    kind: FailureKind,
    why: str,
    *,
    not_begun: bool,
    spared: bool = False,
    outcome_known: bool = False,
) -> ev.AttemptFailed:
    """An open attempt ends without anything being learned from it. `outcome_known`: but that it was not done."""
    assert record.open is not None
    return ev.AttemptFailed(
        step_id=record.step_id,
        step_index=record.index,
        attempt=record.open.attempt,
        failure_class=None,
        failure_kind=kind,
        strategy="none",
        reason=why,
        facts=Facts(kind=kind),
        summary=why,
        outcome_known=not_begun or outcome_known,
        not_begun=not_begun,
        spared=spared,
        phase=_phase(record),
    )


def no_more_tried(
    desk: Desk, record: StepRecord, reason: str, cls: FailureClass, kind: FailureKind
) -> ev.SelfHealExhausted:
    """The step comes to its end here, for a reason that is not its own."""
    return ev.SelfHealExhausted(
        step_id=record.step_id,
        step_index=record.index,
        attempt=record.spent.attempts,
        failure_class=cls,
        failure_kind=kind,
        strategy="none",
        reason=reason,
        policy_digest=desk.recorder.digest_of(desk.job.policy),
        retryable=False,
        gives_up=True,
    )


def run_succeeded(verdicts: Sequence[Verdict]) -> ev.RunSucceeded:
    length, unverified = len(verdicts), verdicts.count(Verdict.UNVERIFIED)
    reason = "the step is done" if length == 1 else f"all {length} steps are done"
    reason += f", {unverified} unverified" if unverified else ""
    return ev.RunSucceeded(known_good_prefix_length=length, reason=reason)


def run_failed(
    desk: Desk, reason: str, cls: FailureClass, kind: FailureKind, record: StepRecord | None = None
) -> ev.RunFailed:
    """The run ends because of something no attempt could mend."""
    return ev.RunFailed(
        reason=reason,
        failure_class=cls,
        failure_kind=kind,
        retryable=False,
        delivery=desk.state.driver.delivery,
        step_id=record.step_id if record else None,
        step_index=record.index if record else None,
    )


def escalated(
    desk: Desk, reason: str, hint: str, record: StepRecord | None = None, failure: Failure | None = None
) -> ev.Escalated:
    return ev.Escalated(
        escalation_id=desk.world.escalation_id(),
        reason=reason,
        hint=hint,
        step_id=record.step_id if record else None,
        step_index=record.index if record else None,
        attempt=(record.open.attempt if record.open else record.spent.attempts) if record else None,
        failure_class=failure.cls if failure else None,
        failure_kind=failure.kind if failure else None,
    )


def given_up_for_good(desk: Desk, reason: str) -> ev.Escalated:
    """What goes with a dead letter: a person fixes the cause, or nobody does."""
    return escalated(desk, reason, hint_of((retry_advice(desk.job.run_id, desk.state.queueing.queue),)))


def to_be_settled(
    desk: Desk, record: StepRecord, reason: str, also: Sequence[StepRecord] = ()
) -> ev.Escalated:
    """It was done and is good no longer. A person says whether that counts, or whether it is to be done once more.
    `also`: the answer counts for these too."""
    names = _listed([record, *also])
    words = _why_asked(record, names, reason)
    asked = escalated(desk, words, settle_hint(desk, record), record)
    return msgspec.structs.replace(asked, also_steps=tuple(one.step_id for one in also))


def _why_asked(record: StepRecord, names: str, reason: str) -> str:
    words = f"{names} must not be repeated, and what was left behind is lost: {reason}"
    if record.doubt.lost:
        return f"step {record.step_id} must not be repeated, and it is unknown whether it was done: {record.doubt.lost}"
    if record.doubt.asks is not None and record.is_done_elsewhere:
        return f"{names} {deed_words(record.doubt.asks)}; it cannot be reused: {record.doubt.asks.reason}"
    return words


def _listed(records: Sequence[StepRecord]) -> str:
    names = ", ".join(record.step_id for record in records)
    return f"step {names}" if len(records) == 1 else f"steps {names}"


def settle_hint(desk: Desk, record: StepRecord, failure: FailureKind | None = None) -> str:
    """`failure`: that of the attempt that ends now."""
    lost = lost_words(desk.job.plan.steps[record.index], record, failure)
    return hint_of(settle_advice(desk.job.run_id, record.step_id, lost))


def control_handled(desk: Desk, control: Control, outcome: str, detail: str = "") -> ev.ControlHandled:
    return ev.ControlHandled(
        command_id=control.id,
        action=control.action,
        outcome=outcome,
        reason=control.reason,
        actor=control.actor,
        epoch=desk.epoch,
        step_id=control.step_id,
        detail=detail,
        argument=control.argument,
        at=control.at.iso(),
    )
