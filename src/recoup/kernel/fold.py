"""From events to the state of a run: `fold` over all of them, `advance` by one. A state never changes: each event gives
another one, which shares with the one before whatever the event is not about."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from recoup.kernel.controls import heed
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.position import with_fresh_budget
from recoup.kernel.prefix import is_good, is_rebuilt, prefix_after
from recoup.kernel.records import with_steps
from recoup.kernel.step_fold import after_step_event
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.instant import Instant
from recoup.model.plan import ApproveAction, Repeat, kind_of
from recoup.model.run import (
    Base,
    Clocks,
    Lineage,
    Queueing,
    RunEscalation,
    RunFailure,
    RunState,
    RunStatus,
    StepRecord,
    Submission,
)
from recoup.model.vector import Vector

_ACTIVE_PERIOD_S = 86_400
_WAIT_MAX_S = 366 * 86_400


def fold(run_id: str, events: Iterable[Event]) -> RunState:
    """The state of a run after these events, the first of which submitted it."""
    iterator = iter(events)
    first = next(iterator)
    assert isinstance(first.payload, ev.RunSubmitted), f"run {run_id} does not begin with its submission"
    state = submitted(run_id, first.payload, first.at, first.seq)
    for event in iterator:
        state = advance(state, event.payload, event.at, event.seq)
    return state


def submitted(run_id: str, payload: ev.RunSubmitted, at: Instant, seq: int = 1) -> RunState:
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
        seq=seq,
        clocks=Clocks(updated_at=at),
        steps=Vector.of(
            StepRecord(step.id, index, kind_of(step.action)) for index, step in enumerate(plan.steps)
        ),
    )


def advance(state: RunState, payload: ev.Payload, at: Instant, seq: int) -> RunState:
    """The state one event later."""
    assert seq == state.seq + 1, f"run {state.run_id}: event {seq} follows {state.seq}"
    state = replace(state, seq=seq, clocks=_clocks_at(state.clocks, payload, at))
    if not isinstance(payload, ev.StepPayload):
        return _wait_clocked(_after_run_event(state, payload, at), at)
    state = after_step_event(state, _step_of(state, payload), payload, at)
    length = prefix_after(state, state.steps[payload.step_index])
    if length == state.progress.prefix_length:
        return state
    return replace(state, progress=replace(state.progress, prefix_length=length))


def _step_of(state: RunState, payload: ev.StepPayload) -> StepRecord:
    assert 0 <= payload.step_index < len(state.steps), f"the plan has no step {payload.step_index}"
    step = state.steps[payload.step_index]
    assert step.step_id == payload.step_id, f"step {payload.step_index} is {step.step_id}"
    return step


# Clocks

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


def _clocks_at(clocks: Clocks, payload: ev.Payload, at: Instant) -> Clocks:
    if isinstance(payload, _STOPS_THE_CLOCK) and not (isinstance(payload, ev.RunWaiting) and payload.until):
        clocks = _stopped(clocks, clocks.updated_at if isinstance(payload, ev.RunTakenOver) else at)
    return replace(clocks, updated_at=at)


def _stopped(clocks: Clocks, at: Instant | None) -> Clocks:
    if clocks.active_since is None or at is None:
        return clocks
    active_s = clocks.active_s + elapsed_s(clocks.active_since, at, _ACTIVE_PERIOD_S)
    return replace(clocks, active_s=active_s, active_since=None)


def _wait_clocked(state: RunState, at: Instant) -> RunState:
    """For a person; whatever else it waits for is no question to anybody."""
    clocks = state.clocks
    asks = state.status is RunStatus.ESCALATED or (
        state.status is RunStatus.WAITING and state.hold.waiting_for in ("approval", "operator")
    )
    if asks and clocks.waiting_since is None:
        return replace(state, clocks=replace(clocks, waiting_since=at))
    if asks or clocks.waiting_since is None:
        return state
    waited_s = clocks.waited_s + elapsed_s(clocks.waiting_since, at, _WAIT_MAX_S)
    return replace(state, clocks=replace(clocks, waited_s=waited_s, waiting_since=None))


# Events of the run


def _after_run_event(state: RunState, payload: ev.Payload, at: Instant) -> RunState:
    match payload:
        case ev.RunStarted():
            return _started(state, payload, at)
        case ev.RunResumed():
            return _resumed(state, payload, at)
        case ev.RunTakenOver():
            state = _entered(state, payload.epoch)
            driver = replace(state.driver, epoch=payload.epoch, takeovers=state.driver.takeovers + 1)
            return replace(state, driver=driver)
        case ev.RunInterrupted():
            driver = replace(
                state.driver,
                interrupted=True,
                in_trouble=payload.machine_trouble,
                troubles=state.driver.troubles + payload.machine_trouble,
            )
            return replace(state, driver=driver, reason=payload.reason)
        case ev.RunEventsLost():
            return _events_lost(state, payload)
        case ev.RunWaiting():
            return _waiting(state, payload)
        case ev.RunBlocked():
            return replace(
                state,
                status=RunStatus.BLOCKED,
                reason=payload.reason,
                hold=replace(state.hold, waiting_until=payload.until),
                driver=replace(state.driver, interrupted=False),
            )
        case ev.Escalated():
            return _escalated(state, payload)
        case ev.CheckpointRestored():
            return _restored(state, payload)
        case ev.ControlHandled():
            return heed(state, payload) if payload.outcome == "accepted" else state
        case ev.WorkspaceHandedOver():
            return replace(state, workspaces=replace(state.workspaces, handed_over=payload.tree))
        case ev.WorkspaceChanged():
            return _built_on(state, payload)
        case _:
            return _ended(state, payload)


def _started(state: RunState, payload: ev.RunStarted, at: Instant) -> RunState:
    state = _delivered(state, payload.delivery, payload.epoch)
    return replace(
        state,
        driver=replace(state.driver, owner=payload.owner, started_at=at),
        clocks=replace(state.clocks, active_since=at),
        workspaces=replace(state.workspaces, baseline=payload.baseline, current=payload.workspace),
    )


def _resumed(state: RunState, payload: ev.RunResumed, at: Instant) -> RunState:
    state = _delivered(_entered(state, payload.epoch), payload.delivery, payload.epoch)
    workspaces = state.workspaces
    if payload.workspace is not None:
        workspaces = replace(workspaces, current=payload.workspace)
    return replace(
        state,
        driver=replace(state.driver, owner=payload.owner),
        clocks=replace(state.clocks, active_since=state.clocks.active_since or at),
        workspaces=workspaces,
    )


def _entered(state: RunState, epoch: int) -> RunState:
    """Another driver has no page: it finds out again what must be performed to get one back, and proves that page."""
    if epoch == state.driver.epoch:
        return state
    pending = [(state.plan.steps[index], state.steps[index]) for index in state.progress.rebuild_pending]
    still = tuple(
        record.index for step, record in pending if record.kind != "browser" or is_rebuilt(step, record)
    )
    return replace(state, progress=replace(state.progress, rebuild_pending=still))


def _delivered(state: RunState, delivery: int, epoch: int) -> RunState:
    steps = state.steps
    if delivery != state.driver.delivery:
        steps = Vector.of(map(with_fresh_budget, steps))
    return replace(
        state,
        status=RunStatus.RUNNING,
        reason="",
        failure=RunFailure(),
        driver=replace(state.driver, delivery=delivery, epoch=epoch, interrupted=False, in_trouble=False),
        hold=replace(state.hold, waiting_for=None, waiting_until=None),
        escalation=_without_question(state.escalation),
        steps=steps,
    )


def _without_question(escalation: RunEscalation) -> RunEscalation:
    return replace(escalation, id=None, step_index=None)


def _events_lost(state: RunState, payload: ev.RunEventsLost) -> RunState:
    """Whatever is not known to have passed may have been begun, and done, in what was lost."""
    lost = [
        replace(record, doubt=replace(record.doubt, to_settle=True, lost=payload.reason))
        for step, record in zip(state.plan.steps, state.steps, strict=True)
        if step.repeat is Repeat.NEVER and not is_good(record) and not isinstance(step.action, ApproveAction)
    ]
    return with_steps(state, *lost)


def _waiting(state: RunState, payload: ev.RunWaiting) -> RunState:
    progress = state.progress
    if payload.waiting_for == "approval":
        progress = replace(progress, gate_reached=progress.prefix_length)
    return replace(
        state,
        status=RunStatus.WAITING,
        reason=payload.reason,
        hold=replace(state.hold, waiting_for=payload.waiting_for, waiting_until=payload.until),
        escalation=_without_question(state.escalation),
        progress=progress,
    )


def _escalated(state: RunState, payload: ev.Escalated) -> RunState:
    return replace(
        state,
        status=RunStatus.ESCALATED,
        reason=payload.reason,
        failure=replace(state.failure, cls=payload.failure_class, kind=payload.failure_kind),
        escalation=RunEscalation(payload.escalation_id, payload.step_index, payload.also_steps),
        page=replace(state.page, question=payload.page_steps),
    )


def _restored(state: RunState, payload: ev.CheckpointRestored) -> RunState:
    # Nobody had this workspace.
    workspaces = replace(state.workspaces, restore_pending=False, handed_over=None)
    if payload.current:
        workspaces = replace(workspaces, current=payload.workspace, trial=None)
    else:
        workspaces = replace(workspaces, trial=payload.workspace)
    behind = state.steps[state.progress.prefix_length :]
    state = with_steps(state, *[_without_session(step) for step in behind if _has_session(step)])
    progress = replace(state.progress, rebuild_pending=_to_rebuild(state))
    return replace(state, workspaces=workspaces, progress=progress)


def _has_session(step: StepRecord) -> bool:
    return step.agent.session_id is not None or (step.open is not None and step.open.session_id is not None)


def _without_session(step: StepRecord) -> StepRecord:
    """What an agent's session knows is about another workspace."""
    attempt = None if step.open is None else replace(step.open, session_id=None)
    return replace(step, open=attempt, agent=replace(step.agent, session_id=None))


def _to_rebuild(state: RunState) -> tuple[int, ...]:
    """In the restored workspace; and in the browser, what was to be performed again to get its page back."""
    pairs = zip(state.plan.steps, state.steps, strict=True)
    rebuilt = {record.index for step, record in pairs if is_rebuilt(step, record)}
    pending = state.progress.rebuild_pending
    return tuple(sorted(rebuilt | {index for index in pending if state.steps[index].kind == "browser"}))


def _built_on(state: RunState, payload: ev.WorkspaceChanged) -> RunState:
    """The next step begins from what the operator left, and what failed before began from something else."""
    workspaces, length = replace(state.workspaces, handed_over=None), state.progress.prefix_length
    if not payload.kept:
        return replace(state, workspaces=workspaces)
    again = [
        replace(step, beginning=replace(step.beginning, pre_state=None), spent=replace(step.spent, marks=()))
        for step in state.steps[length:]
        if step.beginning.pre_state is not None or step.spent.marks
    ]
    workspaces = replace(workspaces, base=Base(length, payload.snapshot))
    return with_steps(replace(state, workspaces=workspaces), *again)


def _ended(state: RunState, payload: ev.Payload) -> RunState:
    match payload:
        case ev.RunSucceeded():
            return replace(state, status=RunStatus.SUCCEEDED, reason=payload.reason)
        case ev.RunCancelled():
            return replace(state, status=RunStatus.CANCELLED, reason=payload.reason)
        case ev.RunFailed():
            failure = RunFailure(payload.failure_class, payload.failure_kind, payload.retryable)
            return _failed(state, RunStatus.FAILED, payload, failure)
        case ev.RunDeadLettered():
            failure = replace(state.failure, cls=payload.failure_class, kind=payload.failure_kind)
            return _failed(state, RunStatus.DEAD_LETTER, payload, failure)
        case _:
            return state  # facts that change no state: controls, secrets found, and those of newer versions


def _failed(
    state: RunState, status: RunStatus, payload: ev.RunFailed | ev.RunDeadLettered, failure: RunFailure
) -> RunState:
    driver = replace(state.driver, delivery=payload.delivery)
    return replace(state, status=status, reason=payload.reason, failure=failure, driver=driver)
