"""What the events of a step mean: for the step itself, and for its run."""

from __future__ import annotations

from msgspec.structs import replace

from recoup.kernel.deeds import BESIDE, is_done_for_good
from recoup.kernel.position import with_fresh_budget
from recoup.kernel.prefix import is_good
from recoup.kernel.progress import remember, says_something
from recoup.kernel.records import with_steps, without
from recoup.model import events as ev
from recoup.model.failure import FailureClass
from recoup.model.instant import Instant
from recoup.model.plan import Repeat
from recoup.model.run import (
    AgentTrace,
    Base,
    GivenUp,
    Mark,
    OpenAttempt,
    RunProgress,
    RunState,
    StepFailure,
    StepRecord,
    Verdict,
)

_MARKS_KEPT = 100
"""As far back as a policy may look (`no_progress_window`)."""


def after_step_event(state: RunState, step: StepRecord, payload: ev.StepPayload, at: Instant) -> RunState:
    match payload:
        case ev.AttemptStarted():
            return with_steps(state, _started(step, payload, at))
        case ev.AttemptLaunched():
            assert step.open is not None, f"step {step.step_id}: launched without a start"
            return with_steps(state, replace(step, open=replace(step.open, keeper=payload.keeper)))
        case ev.AgentSessionKnown():
            assert step.open is not None, f"step {step.step_id}: an agent's session without a start"
            return with_steps(state, replace(step, open=replace(step.open, session_id=payload.session_id)))
        case ev.AttemptFinished():
            return _finished(state, step, payload)
        case ev.AttemptFailed():
            return _failed(state, step, payload)
        case ev.CheckpointStored():
            return _checkpointed(state, step, payload)
        case ev.StepInvalidated():
            return _invalidated(state, step, payload)
        case ev.StepSkipped():
            return with_steps(state, replace(step, skipped=True, invalidation_reason=payload.reason))
        case ev.StepReused():
            return _restore_if(with_steps(state, _reused(step, payload)), payload.snapshot is not None)
        case ev.SelfHealTriggered() | ev.SelfHealEscalated():
            return _recovering(state, step, payload, at)
        case ev.SelfHealExhausted():
            recovery = replace(step.recovery, strategy=None)
            state = with_steps(state, replace(step, recovery=recovery))
            return _ended_early(state, state.steps[step.index], payload) if payload.gives_up else state
        case ev.TargetHealed() | ev.TargetAdapted(strategy="format"):
            return replace(state, counts=replace(state.counts, heals=state.counts.heals + 1))
        case ev.BrowserReset():
            # With a workspace there is more to bring back.
            pending = state.workspaces.baseline is not None
            return replace(state, workspaces=replace(state.workspaces, restore_pending=pending))
        case ev.PageLost():
            return _page_lost(state, payload)
        case ev.ResumeFromStep():
            return _resumed_from(state, payload)
        case _:
            return state


def _restore_if(state: RunState, restores: bool) -> RunState:
    if not restores or state.workspaces.restore_pending:
        return state
    return replace(state, workspaces=replace(state.workspaces, restore_pending=True))


# Attempts


def _started(step: StepRecord, payload: ev.AttemptStarted, at: Instant) -> StepRecord:
    attempts = step.spent.attempts
    assert payload.attempt is not None and payload.attempt == attempts + 1, (
        f"step {step.step_id}: attempt {payload.attempt} follows {attempts}"
    )
    attempt = OpenAttempt(
        payload.attempt,
        payload.delivery,
        payload.workspace,
        payload.inline,
        at,
        phase=payload.phase,
    )
    step = replace(step, open=attempt, recovery=replace(step.recovery, since=None))
    if payload.phase in BESIDE:
        return step
    beginning = replace(
        step.beginning,
        args_digest=payload.args_digest,
        pre_state=payload.pre_state,
        pre_fingerprint=payload.pre_fingerprint,
        prechecks=step.beginning.prechecks if payload.prechecks is None else payload.prechecks,
    )
    # It began: what was done elsewhere was another deed.
    doubt = replace(step.doubt, to_settle=step.doubt.to_settle and step.doubt.asks is None)
    return replace(
        step,
        kind=payload.kind,
        phase=payload.phase,
        beginning=beginning,
        doubt=doubt,
        invalidation_reason=None,
    )


def _finished(state: RunState, step: StepRecord, payload: ev.AttemptFinished) -> RunState:
    assert payload.attempt is not None
    phase = step.open.phase if step.open is not None else payload.phase
    step = _spent(step, payload.attempt)
    if phase in BESIDE:
        return _done_beside(with_steps(state, step), step.index, phase)
    results = replace(
        step.results,
        outputs=payload.outputs,
        secret_outputs=payload.secret_outputs,
        private_outputs=payload.private_outputs,
        evidence=payload.evidence,
        changed_files=payload.changed_files,
        diff_hash=payload.diff_hash,
        page=payload.page,
    )
    step = replace(
        step,
        verdict=Verdict(payload.verdict),
        phase=payload.phase,
        results=results,
        spent=replace(step.spent, marks=(), unknown_failures=0),
        failure=StepFailure(),
        recovery=replace(step.recovery, strategy=None, given_up=None),
        doubt=replace(step.doubt, outcome_unknown=False),
    )
    state = _always_next(with_steps(state, step), step.index)
    if state.driver.troubles:
        state = replace(state, driver=replace(state.driver, troubles=0))
    if payload.page is not None:
        state = _without_consent(state)
    if payload.workspace is None:
        return state
    return replace(state, workspaces=replace(state.workspaces, current=payload.workspace, trial=None))


def _failed(state: RunState, step: StepRecord, payload: ev.AttemptFailed) -> RunState:
    assert payload.attempt is not None
    if payload.not_begun:
        return _not_begun(state, step)
    phase = step.open.phase if step.open is not None else payload.phase
    if step.open is not None and step.open.session_id is not None:
        # All that is known of an agent whose driver was lost.
        step = replace(step, agent=replace(step.agent, session_id=step.open.session_id))
    step = _spent(step, payload.attempt, counts=not payload.spared)
    if payload.agent is not None:
        step = replace(step, agent=AgentTrace(payload.agent.last_command, payload.agent.session_id))
    match phase:
        case "main":
            return _failed_itself(state, step, payload)
        case "rescue":
            step = replace(step, recovery=replace(step.recovery, rescue_tried=True))
            return _always_next(with_steps(state, step), step.index)
        case "always":
            return _done_beside(with_steps(state, step), step.index, phase)
        case _:
            return with_steps(state, step)  # how the step ended stands; a rebuild is still to be done


def _not_begun(state: RunState, step: StepRecord) -> RunState:
    state = _not_repeated_unasked(state, step)
    beginning = step.beginning
    if step.spent.attempts == 0:
        beginning = replace(beginning, prechecks=None)  # they were asked too long ago, or not to the end
    return with_steps(state, replace(step, open=None, beginning=beginning))


def _failed_itself(state: RunState, step: StepRecord, payload: ev.AttemptFailed) -> RunState:
    once = state.plan.steps[step.index].repeat is Repeat.NEVER
    failure = StepFailure(
        payload.failure_class, payload.facts.kind, payload.failure_signature, payload.summary
    )
    results = replace(
        step.results,
        diff_hash=payload.diff_hash,
        changed_files=payload.changed_files,
        evidence=payload.evidence,
    )
    step = replace(
        step,
        verdict=Verdict.FAILED,
        failure=failure,
        results=results,
        spent=replace(
            step.spent,
            unknown_failures=step.spent.unknown_failures + (failure.cls is FailureClass.UNKNOWN),
            marks=_marks_after(step, payload),
        ),
        doubt=replace(step.doubt, outcome_unknown=once and not payload.outcome_known),
    )
    return _gave_up(state, step, payload) if payload.gives_up else with_steps(state, step)


def _marks_after(step: StepRecord, payload: ev.AttemptFailed) -> tuple[Mark, ...]:
    if payload.failure_class is None or not says_something(payload.facts.kind, payload.failure_class):
        return step.spent.marks
    mark = Mark(
        payload.failure_signature or "",
        payload.diff_hash,
        payload.facts.output_hash,
        payload.tolerance_level,
    )
    return remember(step.spent.marks, mark, _MARKS_KEPT)


def _not_repeated_unasked(state: RunState, step: StepRecord) -> RunState:
    """A driver was lost while it performed the step again for its page. If the step must not be repeated, an operator
    allowed that once."""
    repeated = step.open is not None and step.open.launched and step.open.phase == "rebuild"
    once = state.plan.steps[step.index].repeat is Repeat.NEVER
    return _rebuilt(state, step.index) if repeated and once else state


def _spent(step: StepRecord, attempt: int, *, counts: bool = True) -> StepRecord:
    assert step.open is None or step.open.attempt == attempt, (
        f"step {step.step_id}: attempt {attempt} is not open"
    )
    in_delivery = step.spent.attempts_in_delivery + counts
    return replace(
        step, open=None, spent=replace(step.spent, attempts=attempt, attempts_in_delivery=in_delivery)
    )


# What is owed beside a step


def _done_beside(state: RunState, index: int, phase: str) -> RunState:
    if phase != "rebuild":
        progress = state.progress
        return replace(
            state, progress=replace(progress, always_pending=without(progress.always_pending, index))
        )
    step = state.steps[index]
    step = replace(step, recovery=replace(step.recovery, strategy=None))
    return _rebuilt(with_steps(state, step), index)


def _rebuilt(state: RunState, index: int) -> RunState:
    """Or it need not be. An operator's consent counts for one performance."""
    name, progress = state.steps[index].step_id, state.progress
    repeats = tuple(other for other in state.page.repeats if other != name)
    pending = without(progress.rebuild_pending, index)
    return replace(
        state,
        page=replace(state.page, repeats=repeats),
        progress=replace(progress, rebuild_pending=pending),
    )


def _always_next(state: RunState, index: int) -> RunState:
    if not state.plan.steps[index].always:
        return state
    pending = (*state.progress.always_pending, index)
    return replace(state, progress=replace(state.progress, always_pending=pending))


def _without_consent(state: RunState) -> RunState:
    return replace(state, page=replace(state.page, repeats=(), as_is=False))


# What follows a failure


def _recovering(
    state: RunState, step: StepRecord, payload: ev.SelfHealTriggered | ev.SelfHealEscalated, at: Instant
) -> RunState:
    is_reset = isinstance(payload, ev.SelfHealEscalated)
    recovery = replace(step.recovery, strategy=payload.strategy, since=at, delay_ms=payload.delay_ms)
    counts = replace(state.counts, retries=state.counts.retries + 1, resets=state.counts.resets + is_reset)
    state = replace(with_steps(state, replace(step, recovery=recovery)), counts=counts)
    return _restore_if(state, is_reset)


def _gave_up(state: RunState, step: StepRecord, payload: ev.AttemptFailed) -> RunState:
    """The run goes on only as long as handlers of the step are left."""
    assert payload.failure_class is not None, f"step {step.step_id}: given up without a class"
    given_up = GivenUp(payload.reason or "", payload.failure_class, payload.failure_kind, payload.redeliver)
    state = with_steps(state, replace(step, recovery=replace(step.recovery, given_up=given_up)))
    return state if state.plan.steps[step.index].rescue else _always_next(state, step.index)


def _ended_early(state: RunState, step: StepRecord, payload: ev.SelfHealExhausted) -> RunState:
    assert payload.failure_class is not None, f"step {step.step_id}: given up without a class"
    given_up = GivenUp(payload.reason or "", payload.failure_class, payload.failure_kind, redeliver=False)
    recovery = replace(step.recovery, given_up=given_up, rescue_tried=True)
    return _always_next(with_steps(state, replace(step, recovery=recovery)), step.index)


# Results that count, and that count no more


def _checkpointed(state: RunState, step: StepRecord, payload: ev.CheckpointStored) -> RunState:
    state = with_steps(state, replace(step, results=replace(step.results, checkpoint=payload.snapshot)))
    base = state.workspaces.base
    if base is None or base.index != step.index + 1:
        return state
    base = Base(base.index, payload.snapshot, in_checkpoint=True)
    return replace(state, workspaces=replace(state.workspaces, base=base))


def _reused(step: StepRecord, payload: ev.StepReused) -> StepRecord:
    beginning = replace(
        step.beginning,
        args_digest=payload.args_digest,
        pre_state=payload.pre_state,
        pre_fingerprint=payload.pre_fingerprint,
    )
    results = replace(
        step.results,
        evidence=payload.evidence,
        checkpoint=payload.snapshot,
        outputs=payload.outputs,
        secret_outputs=payload.secret_outputs,
        private_outputs=payload.private_outputs,
        page=payload.page,
    )
    return replace(
        step,
        verdict=Verdict(payload.verdict),
        skipped=payload.skipped,
        kind=payload.kind,
        phase=payload.phase,
        reused_from=payload.from_run_id,
        beginning=beginning,
        results=results,
        invalidation_reason=payload.reason if payload.skipped else None,
    )


def _invalidated(state: RunState, step: StepRecord, payload: ev.StepInvalidated) -> RunState:
    settles = step.doubt.to_settle or is_done_for_good(state.plan.steps[step.index], step)
    state = with_steps(state, _without_results(step, payload.reason, settles))
    base = state.workspaces.base
    if base is not None and step.index < base.index:
        # What the operator left was built on what this step left.
        state = replace(state, workspaces=replace(state.workspaces, base=None))
    progress = _progress_without(state.progress, step.index)
    return _without_beginnings(replace(_without_consent(state), progress=progress), step.index)


def _without_results(step: StepRecord, reason: str | None, settles: bool) -> StepRecord:
    step = with_fresh_budget(step)
    results = replace(
        step.results,
        checkpoint=None,
        evidence=(),
        outputs={},
        secret_outputs=(),
        private_outputs=None,
        page=None,
    )
    return replace(
        step,
        verdict=Verdict.INVALIDATED,
        invalidation_reason=reason,
        skipped=False,
        reused_from=None,
        beginning=replace(step.beginning, prechecks=None),
        results=results,
        recovery=replace(step.recovery, strategy=None, since=None, delay_ms=0),
        doubt=replace(step.doubt, to_settle=settles),
    )


def _progress_without(progress: RunProgress, index: int) -> RunProgress:
    """Its handlers follow, and its rebuild, when it has been performed again."""
    return replace(
        progress,
        always_pending=without(progress.always_pending, index),
        rebuild_pending=without(progress.rebuild_pending, index),
        gate_reached=None,
        invalidations=progress.invalidations + 1,
    )


def _without_beginnings(state: RunState, index: int) -> RunState:
    """After this step was invalidated: what is performed behind it will begin from something else. Steps that stay done
    have begun from what they have begun from."""
    again = [later for later in state.steps[index + 1 :] if not is_good(later)]
    if state.progress.prefix_length < index:
        again.append(state.steps[index])
    return with_steps(state, *[_without_beginning(record) for record in again if _has_beginning(record)])


def _has_beginning(step: StepRecord) -> bool:
    began_from = (step.beginning.pre_state, step.beginning.pre_fingerprint)
    return began_from != (None, None) or bool(step.spent.marks)


def _without_beginning(step: StepRecord) -> StepRecord:
    beginning = replace(step.beginning, pre_state=None, pre_fingerprint=None)
    return replace(step, beginning=beginning, spent=replace(step.spent, marks=()))


def _page_lost(state: RunState, payload: ev.PageLost) -> RunState:
    browser = {record.index for record in state.steps if record.kind == "browser"}
    done = [record for record in state.steps if not record.skipped]
    again = {record.index for record in done if record.step_id in payload.steps}
    pending = tuple(sorted({*state.progress.rebuild_pending} - browser | again))
    return replace(state, progress=replace(state.progress, rebuild_pending=pending))


def _resumed_from(state: RunState, payload: ev.ResumeFromStep) -> RunState:
    asked_about = [
        replace(record, doubt=replace(record.doubt, asks=asked, to_settle=True))
        for asked in payload.asks
        for record in (state.steps[asked.step_index],)
    ]
    return _restore_if(with_steps(state, *asked_about), payload.restores)
