"""Controls, carried out by the holder of the lease. What each needs it says as an `Effect`; what it changes follows
from its event, in the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from recoup.engine.arguments import environment_of
from recoup.engine.checkpoints import last_checkpoint
from recoup.engine.desk import Desk
from recoup.engine.facts import (
    control_handled,
    invalidated,
    not_concluded,
    passed_facts,
    resumed_from,
    run_failed,
    started,
)
from recoup.engine.passing import write_papers
from recoup.errors import WorkspaceError
from recoup.kernel.controls import CONTROLS, refusal
from recoup.kernel.controls.kind import (
    AnswerGate,
    Effect,
    GoBack,
    HandOver,
    Hold,
    SettleAsDone,
    Then,
)
from recoup.kernel.template import TemplateError
from recoup.model import events as ev
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.plan import Step
from recoup.model.run import RunStatus, StepRecord
from recoup.model.storage import Control, ControlAck

_REJECTED = FailureClass.DETERMINISTIC_POLICY


class _Performed(msgspec.Struct, frozen=True):
    """What came of an order."""

    facts: Sequence[ev.Payload] = ()
    detail: str = ""
    """For the sender of the control."""
    note: str = ""
    """Behind the words of what the run waits after."""


class _CannotBeDone(Exception):
    """The run is as it was; the control is refused with these words."""


async def carry_out(desk: Desk, control: Control, *, driving: bool) -> None:
    """`driving`: work goes on afterwards, in the same hands. Otherwise the run is left ready for a driver."""
    why = refusal(desk.state, control, desk.job.policy)
    if why is not None:
        return await _refuse(desk, control, why)
    effect = CONTROLS[control.action].effect(desk.state, control)
    try:
        performed = await _perform(desk, effect)
    except _CannotBeDone as error:
        return await _refuse(desk, effect.control, str(error))
    return await _accept(desk, effect, performed, driving)


async def _refuse(desk: Desk, control: Control, why: str) -> None:
    await desk.recorder.record(
        control_handled(desk, control, "refused", why),
        acks=[ControlAck(control.id, "refused", desk.epoch)],
    )


async def _accept(desk: Desk, effect: Effect, performed: _Performed, driving: bool) -> None:
    """Attempts that are cut off end before it, so that they spend nothing of the budget it gives."""
    control, detail = effect.control, performed.detail
    cut_off = _cut_off(desk, control) if effect.cuts_off else []
    waiting: list[ev.Payload] = []
    stays = driving and _stays(desk, effect)
    if stays and effect.then is Then.WAITS_AFTER_ATTEMPT:
        desk.paused_by, detail = control, _after_attempt(desk)
    elif not stays and effect.then is not Then.ENDS:
        waiting = [_waiting(desk, effect, performed.note)]
    await desk.recorder.record(
        *cut_off,
        control_handled(desk, control, "accepted", detail),
        *performed.facts,
        *effect.facts,
        *waiting,
        acks=[ControlAck(control.id, "accepted", desk.epoch)],
        release=not stays,
    )


def _stays(desk: Desk, effect: Effect) -> bool:
    """In the hands of its driver."""
    if effect.then is Then.GOES_ON:
        return desk.state.status is not RunStatus.ESCALATED
    return effect.then is Then.WAITS_AFTER_ATTEMPT


def _after_attempt(desk: Desk) -> str:
    busy = [record.step_id for record in desk.state.steps if record.open is not None]
    return f"when the attempt of {busy[0]} has ended" if busy else ""


def _waiting(desk: Desk, effect: Effect, note: str) -> ev.RunWaiting:
    # An attempt that a lost driver left open stays open: what came of it is found out when work goes on.
    control = effect.control
    if effect.then is not Then.GOES_ON:
        return held_by(control)
    paused = desk.state.hold.paused and CONTROLS[control.action].hold is not Hold.LIFTS
    stands = "still paused" if paused else "waits for a driver"
    words = f"{effect.words or control.action}{note}"
    return ev.RunWaiting(
        reason=f"{words} by {control.actor}; {stands}: resume to go on",
        step_id=control.step_id,
        waiting_for="operator" if paused else "driver",
    )


def held_by(control: Control) -> ev.RunWaiting:
    reason = f"{CONTROLS[control.action].held_words} by {control.actor}: {control.reason}"
    return ev.RunWaiting(reason=reason, step_id=control.step_id, waiting_for="operator")


def _cut_off(desk: Desk, control: Control) -> list[ev.Payload]:
    """Attempts that an operator ends. Handlers run again from the first when the run continues."""
    words = f"{control.action} by {control.actor}"
    return [
        not_concluded(
            record,
            FailureKind.CANCELLED,
            words,
            not_begun=not record.open.launched or record.open.phase != "main",
        )
        for record in desk.state.steps
        if record.open is not None
    ]


# Orders


async def _perform(desk: Desk, effect: Effect) -> _Performed:
    """Raises _CannotBeDone."""
    match effect.order:
        case None:
            return _Performed()
        case HandOver():
            return await _hand_over(desk, effect.control)
        case GoBack() as back:
            return await _go_back(desk, back)
        case AnswerGate() as answer:
            return await _answer_gate(desk, effect.control, answer)
        case SettleAsDone() as settled:
            return await _settle(desk, effect.control, settled)


async def _hand_over(desk: Desk, control: Control) -> _Performed:
    tree, number = None, desk.workspace
    try:
        if desk.job.workspaces is not None and number is not None:
            # Taken over once more before a driver came: what was changed since the first time is still to be recorded.
            tree = desk.state.workspaces.handed_over or (await desk.job.workspaces.snapshot(number)).tree
    except WorkspaceError as error:
        raise _CannotBeDone(f"the workspace cannot be handed over: {error.message}") from None
    handed = ev.WorkspaceHandedOver(actor=control.actor, workspace=number, tree=tree)
    return _Performed([handed], detail=f"the workspace is {desk.folder.current}")


async def _go_back(desk: Desk, back: GoBack) -> _Performed:
    for hooks in desk.kinds.all():
        await hooks.go_back(back.index)
    resumed = resumed_from(desk.state.steps[back.index], back.reason, restores=desk.workspace is not None)
    return _Performed([*invalidated(desk.state, back.index, back.reason), resumed])


async def _answer_gate(desk: Desk, control: Control, answer: AnswerGate) -> _Performed:
    record, step = desk.state.steps[answer.index], desk.job.plan.steps[answer.index]
    ended = (
        await _passed_gate(desk, control, record) if answer.passes else _failed_gate(desk, control, record)
    )
    return _Performed([started(desk, step, record, desk.arguments(step), None), *ended])


async def _passed_gate(desk: Desk, control: Control, record: StepRecord) -> list[ev.Payload]:
    approval = {"approvedBy": control.actor, "reason": control.reason, "at": control.at.iso()}
    sealed = desk.world.redactor.seal(approval)
    evidence = await desk.world.evidence.put(sealed, desk.job.policy.evidence_bytes_max)
    end = ev.AttemptFinished(
        step_id=record.step_id,
        step_index=record.index,
        attempt=record.spent.attempts + 1,
        verdict="passed",
        duration_ms=0,
        evidence=(evidence,),
        settled_by="operator",
        actor=control.actor,
    )
    return [end]


def _failed_gate(desk: Desk, control: Control, record: StepRecord) -> list[ev.Payload]:
    kind, words = FailureKind.REJECTED, f"rejected by {control.actor}: {control.reason}"
    failed = ev.AttemptFailed(
        step_id=record.step_id,
        step_index=record.index,
        attempt=record.spent.attempts + 1,
        failure_class=_REJECTED,
        failure_kind=kind,
        strategy="none",
        reason=words,
        facts=Facts(kind=kind, excerpt=words),
        summary=words,
        outcome_known=True,
    )
    return [failed, run_failed(desk, f"step {record.step_id}: {words}", _REJECTED, kind, record)]


async def _settle(desk: Desk, control: Control, settled: SettleAsDone) -> _Performed:
    facts: list[ev.Payload] = []
    note = ""
    for index in settled.indexes:
        passed_as_told, files_lost = await _passed_as_told(desk, desk.state.steps[index], control.actor)
        facts += passed_as_told
        if files_lost:
            note += ", without the files that it changed: the workspace that it worked in is lost"
    return _Performed(facts, note=note)


async def _passed_as_told(desk: Desk, record: StepRecord, actor: str) -> tuple[list[ev.Payload], bool]:
    """The step passed by an operator's word; and whether the files that it changed are lost. Raises _CannotBeDone."""
    step = desk.job.plan.steps[record.index]
    try:
        record, facts = _lost_attempt(desk, step, record)
        env = environment_of(desk.world, desk.job, step, desk.arguments(step), record.spent.attempts, {})
        passed = await desk.attempts.unknown.settled(step, record, desk.policy(step), env)
    except TemplateError as error:
        raise _CannotBeDone(str(error)) from None
    if passed is None:
        raise _CannotBeDone(f"an output of {step.id} that another step needs cannot be had")
    passed = await write_papers(desk, step, record, passed)
    end, *more = passed_facts(desk, step, record, passed)
    return [*facts, replace(end, actor=actor), *more], passed.files_lost


def _lost_attempt(desk: Desk, step: Step, record: StepRecord) -> tuple[StepRecord, list[ev.Payload]]:
    """Where events of the run were lost, the start of the attempt may be among them: it is recorded with its end. What
    was done in a linked run has no start here, and stays claimed there."""
    was_elsewhere = record.is_done_elsewhere
    if not record.doubt.lost and not was_elsewhere:
        return record, []
    pre_state = None if desk.job.workspaces is None else last_checkpoint(desk.state)[1].tree
    start = started(desk, step, record, desk.arguments(step), pre_state)
    if was_elsewhere:
        start = replace(start, once=False, again_after=())
    begun = replace(
        record,
        spent=replace(record.spent, attempts=record.spent.attempts + 1),
        beginning=replace(record.beginning, pre_state=pre_state),
    )
    return begun, [start]
