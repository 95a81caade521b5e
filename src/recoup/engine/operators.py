"""Controls, carried out by whoever holds the lease. What they change follows from their event, in the kernel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

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
from recoup.kernel.controls import gate, refusal, unsettled
from recoup.kernel.prefix import is_good
from recoup.kernel.template import TemplateError
from recoup.model import events as ev
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.plan import Step
from recoup.model.run import RunStatus, StepRecord
from recoup.model.storage import Control, ControlAck

_REJECTED = FailureClass.DETERMINISTIC_POLICY
_TAKES_A_PAUSE_BACK = frozenset({"resume", "retry_step", "resume_from_step"})


async def carry_out(desk: Desk, control: Control, *, driving: bool) -> None:
    """`driving`: work goes on afterwards, in the same hands. Otherwise the run is left ready for a driver."""
    why = refusal(desk.state, control, desk.job.policy)
    if why is not None:
        return await _refuse(desk, control, why)
    await _DEEDS[control.action](desk, control, driving)
    return None


async def _refuse(desk: Desk, control: Control, why: str) -> None:
    await desk.recorder.record(
        control_handled(desk, control, "refused", why),
        acks=[ControlAck(control.id, "refused", desk.epoch)],
    )


async def _accept(
    desk: Desk,
    control: Control,
    *facts: ev.Payload,
    cut_off: Sequence[ev.Payload] = (),
    detail: str = "",
    release: bool = False,
) -> None:
    """`cut_off`: attempts that end for it. They end before it, so that they spend nothing of the budget it gives."""
    await desk.recorder.record(
        *cut_off,
        control_handled(desk, control, "accepted", detail),
        *facts,
        acks=[ControlAck(control.id, "accepted", desk.epoch)],
        release=release,
    )


async def _pause(desk: Desk, control: Control, driving: bool) -> None:
    """Before the next attempt; the one under way goes on."""
    busy = [record.step_id for record in desk.state.steps if record.open is not None]
    if driving:
        desk.paused_by = control
        detail = f"when the attempt of {busy[0]} has ended" if busy else ""
        return await _accept(desk, control, detail=detail)
    # An attempt that a lost driver left open stays open: what came of it is found out when work goes on.
    return await _accept(desk, control, held_by(control), release=True)


async def _resume(desk: Desk, control: Control, driving: bool) -> None:
    await _go_on(desk, control, driving)


async def _takeover(desk: Desk, control: Control, driving: bool) -> None:
    """At once: the operator works in the workspace from now on."""
    del driving
    tree, number = None, desk.workspace
    try:
        if desk.job.workspaces is not None and number is not None:
            # Taken over once more before a driver came: what was changed since the first time is still to be recorded.
            tree = desk.state.handed_over or (await desk.job.workspaces.snapshot(number)).tree
    except WorkspaceError as error:
        return await _refuse(desk, control, f"the workspace cannot be handed over: {error.message}")
    handed = ev.WorkspaceHandedOver(actor=control.actor, workspace=number, tree=tree)
    where = desk.folder.current
    await _accept(
        desk,
        control,
        handed,
        held_by(control),
        cut_off=_cut_off(desk, control),
        detail=f"the workspace is {where}",
        release=True,
    )
    return None


async def _retry_step(desk: Desk, control: Control, driving: bool) -> None:
    await _go_on(desk, control, driving, cut_off=_cut_off(desk, control))


async def _hard_reset_step(desk: Desk, control: Control, driving: bool) -> None:
    """A paused run stays paused; the workspace is restored when it goes on."""
    cut_off = _cut_off(desk, control)
    if desk.state.paused:
        await _accept(desk, control, held_by(control), cut_off=cut_off, release=True)
    else:
        await _go_on(desk, control, driving, cut_off=cut_off)


async def _resume_from_step(desk: Desk, control: Control, driving: bool) -> None:
    index = next(record.index for record in desk.state.steps if record.step_id == control.step_id)
    reason = f"{control.actor} went back to {control.step_id}: {control.reason}"
    for hooks in desk.kinds.all():
        await hooks.go_back(index)
    back = resumed_from(desk.state.steps[index], reason, restores=desk.workspace is not None)
    facts = [*invalidated(desk.state, index, reason), back]
    await _go_on(desk, control, driving, *facts, cut_off=_cut_off(desk, control))


async def _cancel(desk: Desk, control: Control, driving: bool) -> None:
    del driving
    cancelled = ev.RunCancelled(reason=control.reason, actor=control.actor)
    await _accept(desk, control, cancelled, cut_off=_cut_off(desk, control), release=True)


async def _approve(desk: Desk, control: Control, driving: bool) -> None:
    """The gate is a step like any other: it was begun, and it passed, by an operator's word."""
    record = gate(desk.state)
    assert record is not None
    step = desk.job.plan.steps[record.index]
    evidence = await desk.world.evidence.put(
        desk.world.redactor.seal(_said(control)), desk.job.policy.evidence_bytes_max
    )
    start = started(desk, step, record, desk.arguments(step), None)
    end = ev.AttemptFinished(
        step_id=step.id,
        step_index=record.index,
        attempt=record.attempts + 1,
        verdict="passed",
        duration_ms=0,
        evidence=(evidence,),
        settled_by="operator",
        actor=control.actor,
    )
    await _go_on(desk, control, driving, start, end)


async def _reject(desk: Desk, control: Control, driving: bool) -> None:
    del driving
    record, kind = gate(desk.state), FailureKind.REJECTED
    assert record is not None
    step, words = desk.job.plan.steps[record.index], f"rejected by {control.actor}: {control.reason}"
    failed = ev.AttemptFailed(
        step_id=step.id,
        step_index=record.index,
        attempt=record.attempts + 1,
        failure_class=_REJECTED,
        failure_kind=kind,
        strategy="none",
        reason=words,
        facts=Facts(kind=kind, excerpt=words),
        summary=words,
        outcome_known=True,
    )
    end = run_failed(desk, f"step {step.id}: {words}", _REJECTED, kind, record)
    start = started(desk, step, record, desk.arguments(step), None)
    await _accept(desk, control, start, failed, end, release=True)


async def _settle(desk: Desk, control: Control, driving: bool) -> None:
    record = unsettled(desk.state)
    assert record is not None
    if is_good(record):
        # It was done. The question is whether it is performed again for its page: no linked run may do so instead.
        return await _settle_page(desk, msgspec.structs.replace(control, step_id=None), driving)
    control = msgspec.structs.replace(control, step_id=record.step_id)
    words = f"{record.step_id} was settled as {control.argument}"
    also = [one for one in desk.state.steps if one.step_id in desk.state.also_settled and one.to_settle]
    facts: list[ev.Payload] = []
    for one in (record, *also) if control.argument == "done" else ():
        try:
            passed_as_told, files_lost = await _passed_as_told(desk, one, control.actor)
        except (TemplateError, _OutputMissing) as error:
            return await _refuse(desk, control, str(error))
        facts += passed_as_told
        if files_lost:
            words += ", without the files that it changed: the workspace that it worked in is lost"
    await _go_on(desk, control, driving, *facts, words=words)
    return None


class _OutputMissing(Exception):
    def __init__(self, step_id: str) -> None:
        super().__init__(f"an output of {step_id} that another step needs cannot be had")


async def _settle_page(desk: Desk, control: Control, driving: bool) -> None:
    names = ", ".join(desk.state.page_question)
    again = f"{names} performed again to restore the page"
    words = f"the page is used as it is, without {names}" if control.argument == "done" else again
    await _go_on(desk, control, driving, words=words)


async def _passed_as_told(desk: Desk, record: StepRecord, actor: str) -> tuple[list[ev.Payload], bool]:
    """The step passed by an operator's word; and whether the files that it changed are lost. Raises TemplateError,
    _OutputMissing."""
    step = desk.job.plan.steps[record.index]
    record, facts = _lost_attempt(desk, step, record)
    env = environment_of(desk.world, desk.job, step, desk.arguments(step), record.attempts, {})
    passed = await desk.attempts.unknown.settled(step, record, desk.policy(step), env)
    if passed is None:
        raise _OutputMissing(step.id)
    passed = await write_papers(desk, step, record, passed)
    end, *more = passed_facts(desk, step, record, passed)
    return [*facts, msgspec.structs.replace(end, actor=actor), *more], passed.files_lost


def _lost_attempt(desk: Desk, step: Step, record: StepRecord) -> tuple[StepRecord, list[ev.Payload]]:
    """Where events of the run were lost, the start of the attempt may be among them: it is recorded with its end. What
    was done in a linked run has no start here, and stays claimed there."""
    was_elsewhere = record.is_done_elsewhere
    if not record.lost and not was_elsewhere:
        return record, []
    pre_state = None if desk.job.workspaces is None else last_checkpoint(desk.state)[1].tree
    start = started(desk, step, record, desk.arguments(step), pre_state)
    if was_elsewhere:
        start = msgspec.structs.replace(start, once=False, again_after=())
    return msgspec.structs.replace(record, attempts=record.attempts + 1, pre_state=pre_state), [start]


async def _go_on(
    desk: Desk,
    control: Control,
    driving: bool,
    *facts: ev.Payload,
    cut_off: Sequence[ev.Payload] = (),
    words: str | None = None,
) -> None:
    if driving and desk.state.status is not RunStatus.ESCALATED:
        return await _accept(desk, control, *facts, cut_off=cut_off)
    paused = desk.state.paused and control.action not in _TAKES_A_PAUSE_BACK
    stands = "still paused" if paused else "waits for a driver"
    reason = f"{words or control.action} by {control.actor}; {stands}: resume to go on"
    waiting_for = "operator" if paused else "driver"
    waiting = ev.RunWaiting(reason=reason, step_id=control.step_id, waiting_for=waiting_for)
    return await _accept(desk, control, *facts, waiting, cut_off=cut_off, release=True)


def _cut_off(desk: Desk, control: Control) -> list[ev.Payload]:
    """Attempts that end because somebody wished so. Handlers are done again from the first when the run goes on."""
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


def held_by(control: Control) -> ev.RunWaiting:
    taken = "taken over" if control.action == "takeover" else "paused"
    reason = f"{taken} by {control.actor}: {control.reason}"
    return ev.RunWaiting(reason=reason, step_id=control.step_id, waiting_for="operator")


def _said(control: Control) -> dict[str, str]:
    return {"approvedBy": control.actor, "reason": control.reason, "at": control.at.iso()}


_DEEDS: dict[str, Callable[[Desk, Control, bool], Awaitable[None]]] = {
    "pause": _pause,
    "resume": _resume,
    "takeover": _takeover,
    "retry_step": _retry_step,
    "hard_reset_step": _hard_reset_step,
    "resume_from_step": _resume_from_step,
    "cancel": _cancel,
    "approve": _approve,
    "reject": _reject,
    "settle": _settle,
}
