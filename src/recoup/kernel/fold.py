"""From events to the state of a run: `fold` is the pure function, `advance` its step and the only writer."""

from __future__ import annotations

from collections.abc import Iterable

from recoup.kernel.controls import heed
from recoup.kernel.deeds import BESIDE, is_done_for_good
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.position import begin_anew
from recoup.kernel.prefix import is_good, is_rebuilt, prefix_after
from recoup.kernel.progress import remember, says_something
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.failure import FailureClass
from recoup.model.instant import Instant
from recoup.model.plan import ApproveAction, Repeat, kind_of
from recoup.model.run import (
    Base,
    Clocks,
    GivenUp,
    Lineage,
    Mark,
    OpenAttempt,
    Queueing,
    RunState,
    RunStatus,
    StepRecord,
    Submission,
    Verdict,
)

_ACTIVE_PERIOD_S = 86_400
_WAIT_MAX_S = 366 * 86_400
_MARKS_KEPT = 100
"""As far back as a policy may look (`no_progress_window`)."""


def fold(run_id: str, events: Iterable[Event]) -> RunState:
    """The state of a run after these events, the first of which submitted it."""
    iterator = iter(events)
    first = next(iterator)
    assert isinstance(first.payload, ev.RunSubmitted), f"run {run_id} does not begin with its submission"
    state = submitted(run_id, first.payload, first.at)
    state.seq = first.seq
    for event in iterator:
        advance(state, event.payload, event.at, event.seq)
    return state


def submitted(run_id: str, payload: ev.RunSubmitted, at: Instant) -> RunState:
    plan = payload.plan
    return RunState(
        run_id,
        payload.workflow,
        plan,
        Submission(
            at=at,
            plan_digest=payload.plan_digest,
            plan_redacted=payload.plan_redacted,
            policy_digest=payload.policy_digest,
            inputs=payload.inputs,
            private_inputs=payload.private_inputs,
            plan_source=payload.plan_source,
            own_folder=payload.own_folder,
            heal=payload.heal,
        ),
        Lineage(payload.parent_run_id, payload.reuse_from, payload.from_step),
        Queueing(payload.queue, payload.priority, payload.needs, payload.not_before_us),
        seq=1,
        clocks=Clocks(updated_at=at),
        steps=[StepRecord(step.id, index, kind_of(step.action)) for index, step in enumerate(plan.steps)],
    )


def advance(state: RunState, payload: ev.Payload, at: Instant, seq: int) -> None:
    """One event further."""
    assert seq == state.seq + 1, f"run {state.run_id}: event {seq} follows {state.seq}"
    state.seq = seq
    if isinstance(payload, _STOPS_THE_CLOCK) and not (isinstance(payload, ev.RunWaiting) and payload.until):
        _stop_clock(state, state.clocks.updated_at if isinstance(payload, ev.RunTakenOver) else at)
    state.clocks.updated_at = at
    if isinstance(payload, ev.StepPayload):
        step = _step_of(state, payload)
        _advance_step(state, step, payload, at)
        state.progress.prefix_length = prefix_after(state, step)
    else:
        _advance_run(state, payload, at)
        _clock_the_wait(state, at)


def _step_of(state: RunState, payload: ev.StepPayload) -> StepRecord:
    assert 0 <= payload.step_index < len(state.steps), f"the plan has no step {payload.step_index}"
    step = state.steps[payload.step_index]
    assert step.step_id == payload.step_id, f"step {payload.step_index} is {step.step_id}"
    return step


_STOPS_THE_CLOCK = (
    ev.RunInterrupted,
    ev.RunTakenOver,
    ev.RunWaiting,
    ev.RunBlocked,
    ev.RunSucceeded,
    ev.RunCancelled,
    ev.RunFailed,
    ev.RunDeadLettered,
    ev.Escalated,
)
"""Nobody works on the run from then on (of a lost driver: since its last fact)."""


def _stop_clock(state: RunState, at: Instant | None) -> None:
    if state.clocks.active_since is not None and at is not None:
        state.clocks.active_s += elapsed_s(state.clocks.active_since, at, _ACTIVE_PERIOD_S)
        state.clocks.active_since = None


def _clock_the_wait(state: RunState, at: Instant) -> None:
    """For a person; whatever else it waits for is no question to anybody."""
    asks = state.status is RunStatus.ESCALATED or (
        state.status is RunStatus.WAITING and state.hold.waiting_for in ("approval", "operator")
    )
    if asks and state.clocks.waiting_since is None:
        state.clocks.waiting_since = at
    elif not asks and state.clocks.waiting_since is not None:
        state.clocks.waited_s += elapsed_s(state.clocks.waiting_since, at, _WAIT_MAX_S)
        state.clocks.waiting_since = None


def _advance_run(state: RunState, payload: ev.Payload, at: Instant) -> None:
    match payload:
        case ev.RunStarted():
            _begin_delivery(state, payload.delivery, payload.epoch)
            state.driver.owner, state.driver.started_at, state.clocks.active_since = payload.owner, at, at
            state.workspaces.baseline, state.workspaces.current = payload.baseline, payload.workspace
        case ev.RunResumed():
            _enter(state, payload.epoch)
            _begin_delivery(state, payload.delivery, payload.epoch)
            state.driver.owner, state.clocks.active_since = payload.owner, state.clocks.active_since or at
            state.workspaces.current = (
                payload.workspace if payload.workspace is not None else state.workspaces.current
            )
        case ev.RunTakenOver():
            _enter(state, payload.epoch)
            state.driver.epoch = payload.epoch
            state.driver.takeovers += 1
        case ev.RunInterrupted():
            state.driver.interrupted = True
            state.driver.in_trouble = payload.machine_trouble
            state.driver.troubles += payload.machine_trouble
            state.reason = payload.reason
        case ev.RunEventsLost():
            _lose_events(state, payload)
        case ev.RunWaiting():
            state.status, state.reason = RunStatus.WAITING, payload.reason
            state.hold.waiting_until, state.hold.waiting_for = payload.until, payload.waiting_for
            state.escalation.id, state.escalation.step_index = None, None
            if payload.waiting_for == "approval":
                state.progress.gate_reached = state.progress.prefix_length
        case ev.RunBlocked():
            state.status, state.reason = RunStatus.BLOCKED, payload.reason
            state.hold.waiting_until, state.driver.interrupted = payload.until, False
        case ev.Escalated():
            state.status, state.reason = RunStatus.ESCALATED, payload.reason
            state.escalation.id, state.escalation.step_index = payload.escalation_id, payload.step_index
            state.failure.cls, state.failure.kind = payload.failure_class, payload.failure_kind
            state.page.question, state.escalation.also_settled = payload.page_steps, payload.also_steps
        case ev.CheckpointRestored():
            _restore(state, payload)
        case ev.ControlHandled():
            if payload.outcome == "accepted":
                heed(state, payload)
        case ev.WorkspaceHandedOver():
            state.workspaces.handed_over = payload.tree
        case ev.WorkspaceChanged():
            _build_on(state, payload)
        case _:
            _end_run(state, payload)


def _lose_events(state: RunState, payload: ev.RunEventsLost) -> None:
    """Whatever is not known to have passed may have been begun, and done, in what was lost."""
    for step, record in zip(state.plan.steps, state.steps, strict=True):
        if step.repeat is Repeat.NEVER and not is_good(record) and not isinstance(step.action, ApproveAction):
            record.doubt.to_settle, record.doubt.lost = True, payload.reason


def _restore(state: RunState, payload: ev.CheckpointRestored) -> None:
    if payload.current:
        state.workspaces.current, state.workspaces.trial = payload.workspace, None
    else:
        state.workspaces.trial = payload.workspace
    state.workspaces.restore_pending, state.progress.rebuild_pending = False, _to_rebuild(state)
    state.workspaces.handed_over = None  # nobody had this one
    for step in state.steps[state.progress.prefix_length :]:
        step.agent.session_id = None  # what an agent's session knows is about another workspace
        if step.open is not None:
            step.open.session_id = None


def _to_rebuild(state: RunState) -> list[int]:
    """In the restored workspace; and in the browser, what was to be performed again to get its page back."""
    pairs = zip(state.plan.steps, state.steps, strict=True)
    rebuilt = {record.index for step, record in pairs if is_rebuilt(step, record)}
    return sorted(
        rebuilt | {index for index in state.progress.rebuild_pending if state.steps[index].kind == "browser"}
    )


def _enter(state: RunState, epoch: int) -> None:
    """Another driver has no page: it finds out anew what must be performed to get one back, and proves that page."""
    if epoch == state.driver.epoch:
        return
    pending = [(state.plan.steps[index], state.steps[index]) for index in state.progress.rebuild_pending]
    state.progress.rebuild_pending = [
        record.index for step, record in pending if record.kind != "browser" or is_rebuilt(step, record)
    ]


def _begin_delivery(state: RunState, delivery: int, epoch: int) -> None:
    if delivery != state.driver.delivery:
        for step in state.steps:
            begin_anew(step)
    state.driver.delivery, state.driver.epoch = delivery, epoch
    state.status, state.reason = RunStatus.RUNNING, ""
    state.driver.interrupted, state.failure.retryable, state.hold.waiting_until = False, False, None
    state.driver.in_trouble = False
    state.failure.cls, state.failure.kind = None, None
    state.escalation.id, state.escalation.step_index = None, None
    state.hold.waiting_for = None


def _build_on(state: RunState, payload: ev.WorkspaceChanged) -> None:
    """The next step begins from what the operator left, and what failed before began from something else."""
    state.workspaces.handed_over = None
    if not payload.kept:
        return
    state.workspaces.base = Base(state.progress.prefix_length, payload.snapshot)
    for step in state.steps[state.progress.prefix_length :]:
        step.beginning.pre_state, step.spent.marks = None, ()


def _forget_beginnings(state: RunState, step: StepRecord) -> None:
    """After this step was invalidated: what is performed behind it will begin from something else. Steps that stay done
    have begun from what they have begun from."""
    again = [later for later in state.steps[step.index + 1 :] if not is_good(later)]
    if state.progress.prefix_length < step.index:
        again.append(step)
    for record in again:
        record.beginning.pre_state, record.beginning.pre_fingerprint, record.spent.marks = None, None, ()


def _end_run(state: RunState, payload: ev.Payload) -> None:
    match payload:
        case ev.RunSucceeded():
            state.status, state.reason = RunStatus.SUCCEEDED, payload.reason
        case ev.RunCancelled():
            state.status, state.reason = RunStatus.CANCELLED, payload.reason
        case ev.RunFailed():
            state.status, state.reason, state.failure.retryable = (
                RunStatus.FAILED,
                payload.reason,
                payload.retryable,
            )
            state.failure.cls, state.failure.kind = payload.failure_class, payload.failure_kind
            state.driver.delivery = payload.delivery
        case ev.RunDeadLettered():
            state.status, state.reason = RunStatus.DEAD_LETTER, payload.reason
            state.driver.delivery = payload.delivery
            state.failure.cls, state.failure.kind = payload.failure_class, payload.failure_kind
        case _:
            pass  # facts that change no state: controls, secrets found, and those of newer versions


def _advance_step(state: RunState, step: StepRecord, payload: ev.StepPayload, at: Instant) -> None:
    match payload:
        case ev.AttemptStarted():
            _start(step, payload, at)
        case ev.AttemptLaunched():
            assert step.open is not None, f"step {step.step_id}: launched without a start"
            step.open.keeper = payload.keeper
        case ev.AgentSessionKnown():
            assert step.open is not None, f"step {step.step_id}: an agent's session without a start"
            step.open.session_id = payload.session_id
        case ev.AttemptFinished():
            _finish(state, step, payload)
        case ev.AttemptFailed():
            _fail(state, step, payload)
        case ev.CheckpointStored():
            step.results.checkpoint = payload.snapshot
            if state.workspaces.base is not None and state.workspaces.base.index == step.index + 1:
                state.workspaces.base = Base(
                    state.workspaces.base.index, payload.snapshot, in_checkpoint=True
                )
        case ev.StepInvalidated():
            _invalidate(state, step, payload)
            # It follows when the step has been performed again.
            state.progress.always_pending = [
                index for index in state.progress.always_pending if index != step.index
            ]
            state.progress.rebuild_pending = [
                index for index in state.progress.rebuild_pending if index != step.index
            ]
            state.progress.gate_reached = None
            state.page.repeats, state.page.as_is = (), False
            state.progress.invalidations += 1
            if state.workspaces.base is not None and step.index < state.workspaces.base.index:
                state.workspaces.base = None  # what the operator left was built on what this step left
            _forget_beginnings(state, step)
        case ev.StepSkipped():
            step.skipped, step.invalidation_reason = True, payload.reason
        case ev.StepReused():
            _reuse(step, payload)
            state.workspaces.restore_pending = (
                state.workspaces.restore_pending or payload.snapshot is not None
            )
        case ev.SelfHealTriggered() | ev.SelfHealEscalated():
            state.counts.retries += 1
            step.recovery.strategy, step.recovery.since, step.recovery.delay_ms = (
                payload.strategy,
                at,
                payload.delay_ms,
            )
            if isinstance(payload, ev.SelfHealEscalated):
                state.counts.resets += 1
                state.workspaces.restore_pending = True
        case ev.SelfHealExhausted():
            step.recovery.strategy = None
            if payload.gives_up:
                _end_early(state, step, payload)
        case ev.TargetHealed() | ev.TargetAdapted(strategy="format"):
            state.counts.heals += 1
        case ev.BrowserReset():
            # With a workspace there is more to bring back.
            state.workspaces.restore_pending = state.workspaces.baseline is not None
        case ev.PageLost():
            browser = {record.index for record in state.steps if record.kind == "browser"}
            done = [record for record in state.steps if not record.skipped]
            again = [record.index for record in done if record.step_id in payload.steps]
            state.progress.rebuild_pending = sorted({*state.progress.rebuild_pending} - browser | {*again})
        case ev.ResumeFromStep():
            state.workspaces.restore_pending = state.workspaces.restore_pending or payload.restores
            for asked in payload.asks:
                record = state.steps[asked.step_index]
                record.doubt.asks, record.doubt.to_settle = asked, True
        case _:
            pass


def _start(step: StepRecord, payload: ev.AttemptStarted, at: Instant) -> None:
    assert payload.attempt is not None and payload.attempt == step.spent.attempts + 1, (
        f"step {step.step_id}: attempt {payload.attempt} follows {step.spent.attempts}"
    )
    step.open = OpenAttempt(
        payload.attempt,
        payload.delivery,
        payload.workspace,
        payload.inline,
        at,
        phase=payload.phase,
    )
    step.recovery.since = None
    if payload.phase in BESIDE:
        return
    step.kind, step.phase = payload.kind, payload.phase
    step.beginning.args_digest, step.beginning.pre_state = payload.args_digest, payload.pre_state
    step.beginning.pre_fingerprint = payload.pre_fingerprint
    if payload.prechecks is not None:
        step.beginning.prechecks = payload.prechecks
    step.invalidation_reason = None
    step.doubt.to_settle = step.doubt.to_settle and step.doubt.asks is None  # it began: it was another deed


def _finish(state: RunState, step: StepRecord, payload: ev.AttemptFinished) -> None:
    assert payload.attempt is not None
    phase = step.open.phase if step.open is not None else payload.phase
    _spend(step, payload.attempt)
    if phase in BESIDE:
        _done_beside(state, step, phase)
        return
    state.driver.troubles = 0
    step.verdict, step.doubt.outcome_unknown = Verdict(payload.verdict), False
    step.results.outputs, step.results.secret_outputs = payload.outputs, payload.secret_outputs
    step.results.private_outputs = payload.private_outputs
    step.results.evidence, step.results.changed_files = payload.evidence, payload.changed_files
    step.results.diff_hash, step.recovery.strategy = payload.diff_hash, None
    step.failure.cls = step.failure.kind = step.failure.signature = step.failure.summary = None
    step.spent.marks, step.spent.unknown_failures, step.recovery.given_up = (), 0, None
    step.phase, step.results.page = payload.phase, payload.page
    if payload.page is not None:
        state.page.repeats, state.page.as_is = (), False
    _always_next(state, step)
    if payload.workspace is not None:
        state.workspaces.current, state.workspaces.trial = payload.workspace, None


def _fail(state: RunState, step: StepRecord, payload: ev.AttemptFailed) -> None:
    assert payload.attempt is not None
    if payload.not_begun:
        _not_repeated_unasked(state, step)
        step.open = None
        if step.spent.attempts == 0:
            step.beginning.prechecks = None  # they were asked too long ago, or not to the end
        return
    phase = step.open.phase if step.open is not None else payload.phase
    if step.open is not None and step.open.session_id is not None:
        step.agent.session_id = step.open.session_id  # all that is known of an agent whose driver was lost
    _spend(step, payload.attempt, counts=not payload.spared)
    if payload.agent is not None:
        step.agent.last_command, step.agent.session_id = payload.agent.last_command, payload.agent.session_id
    if phase == "rescue":
        step.recovery.rescue_tried = True
        _always_next(state, step)
    if phase == "always":
        _done_beside(state, step, phase)
    if phase != "main":
        return  # how the step ended stands; a rebuild is still to be done
    once = state.plan.steps[step.index].repeat is Repeat.NEVER
    step.verdict, step.doubt.outcome_unknown = Verdict.FAILED, once and not payload.outcome_known
    step.failure.cls, step.failure.kind = payload.failure_class, payload.facts.kind
    step.failure.signature, step.failure.summary = payload.failure_signature, payload.summary
    step.results.diff_hash, step.results.changed_files = payload.diff_hash, payload.changed_files
    step.results.evidence = payload.evidence
    step.spent.unknown_failures += payload.failure_class is FailureClass.UNKNOWN
    if payload.failure_class is not None and says_something(payload.facts.kind, payload.failure_class):
        mark = Mark(
            payload.failure_signature or "",
            payload.diff_hash,
            payload.facts.output_hash,
            payload.tolerance_level,
        )
        step.spent.marks = remember(step.spent.marks, mark, _MARKS_KEPT)
    if payload.gives_up:
        _give_up(state, step, payload)


def _not_repeated_unasked(state: RunState, step: StepRecord) -> None:
    """A driver was lost while it performed the step again for its page. If the step must not be repeated, an operator
    allowed that once."""
    repeated = step.open is not None and step.open.launched and step.open.phase == "rebuild"
    if repeated and state.plan.steps[step.index].repeat is Repeat.NEVER:
        state.page.repeats = tuple(name for name in state.page.repeats if name != step.step_id)
        state.progress.rebuild_pending = [
            index for index in state.progress.rebuild_pending if index != step.index
        ]


def _done_beside(state: RunState, step: StepRecord, phase: str) -> None:
    if phase == "rebuild":
        # Consent counts for one performance.
        state.page.repeats = tuple(name for name in state.page.repeats if name != step.step_id)
        state.progress.rebuild_pending = [
            index for index in state.progress.rebuild_pending if index != step.index
        ]
        step.recovery.strategy = None
    else:
        state.progress.always_pending = [
            index for index in state.progress.always_pending if index != step.index
        ]


def _always_next(state: RunState, step: StepRecord) -> None:
    if state.plan.steps[step.index].always:
        state.progress.always_pending = [*state.progress.always_pending, step.index]


def _give_up(state: RunState, step: StepRecord, payload: ev.AttemptFailed) -> None:
    """The run goes on only as long as handlers of the step are left."""
    assert payload.failure_class is not None, f"step {step.step_id}: given up without a class"
    step.recovery.given_up = GivenUp(
        payload.reason or "", payload.failure_class, payload.failure_kind, payload.redeliver
    )
    if not state.plan.steps[step.index].rescue:
        _always_next(state, step)


def _end_early(state: RunState, step: StepRecord, payload: ev.SelfHealExhausted) -> None:
    assert payload.failure_class is not None, f"step {step.step_id}: given up without a class"
    step.recovery.given_up = GivenUp(
        payload.reason or "", payload.failure_class, payload.failure_kind, redeliver=False
    )
    step.recovery.rescue_tried = True
    _always_next(state, step)


def _reuse(step: StepRecord, payload: ev.StepReused) -> None:
    step.verdict, step.skipped, step.kind = Verdict(payload.verdict), payload.skipped, payload.kind
    step.phase, step.reused_from = payload.phase, payload.from_run_id
    step.beginning.args_digest, step.beginning.pre_state = payload.args_digest, payload.pre_state
    step.beginning.pre_fingerprint = payload.pre_fingerprint
    step.results.evidence, step.results.checkpoint = payload.evidence, payload.snapshot
    step.results.outputs, step.results.secret_outputs = payload.outputs, payload.secret_outputs
    step.results.private_outputs = payload.private_outputs
    step.invalidation_reason, step.results.page = payload.reason if payload.skipped else None, payload.page


def _spend(step: StepRecord, attempt: int, *, counts: bool = True) -> None:
    assert step.open is None or step.open.attempt == attempt, (
        f"step {step.step_id}: attempt {attempt} is not open"
    )
    step.open = None
    step.spent.attempts = attempt
    step.spent.attempts_in_delivery += counts


def _invalidate(state: RunState, step: StepRecord, payload: ev.StepInvalidated) -> None:
    step.doubt.to_settle = step.doubt.to_settle or is_done_for_good(state.plan.steps[step.index], step)
    step.verdict, step.invalidation_reason = Verdict.INVALIDATED, payload.reason
    step.results.checkpoint, step.results.evidence = None, ()
    step.results.outputs, step.results.secret_outputs, step.results.private_outputs = {}, (), None
    begin_anew(step)
    step.recovery.since, step.recovery.delay_ms = None, 0
    step.beginning.prechecks, step.skipped, step.recovery.strategy, step.reused_from = None, False, None, None
    step.results.page = None
