"""Controls, carried out by whoever holds the lease: cancel, settle, or a refusal that says what is possible."""

from __future__ import annotations

from recoup.engine.arguments import environment_of
from recoup.engine.desk import Desk
from recoup.engine.entry import is_redelivery
from recoup.engine.facts import control_handled, not_concluded, passed_facts
from recoup.engine.passing import write_papers
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.run import RunState, RunStatus, StepRecord
from recoup.model.storage import Control, ControlAck


def pre_empts(control: Control) -> bool:
    """Whether a running attempt must end for it."""
    return control.action == "cancel"


async def carry_out(desk: Desk, control: Control) -> None:
    ended = desk.state.status.is_terminal and not is_redelivery(desk.state)
    if control.action == "cancel" and not ended:
        return await _cancel(desk, control)
    unsettled = _unsettled(desk.state, control)
    if control.action == "settle" and unsettled is not None:
        return await _settle(desk, control, unsettled)
    return await refuse(desk, control)


async def refuse(desk: Desk, control: Control, why: str | None = None) -> None:
    await desk.recorder.record(
        control_handled(desk, control, "refused", why or why_refused(control, desk.state)),
        acks=[ControlAck(control.id, "refused", desk.epoch)],
    )


def why_refused(control: Control, state: RunState) -> str:
    if (
        control.action == "settle"
        and state.status is RunStatus.ESCALATED
        and state.escalated_step is not None
    ):
        return (
            f"{control.step_id} is not the step in question: {state.steps[state.escalated_step].step_id} is"
        )
    if control.action == "settle":
        return f"the run is {state.status}: only an escalated step with an unknown outcome can be settled"
    if control.action == "cancel":
        return f"the run is {state.status} already"
    return f"{control.action} is not available; possible are cancel and settle"


async def _cancel(desk: Desk, control: Control) -> None:
    open_ends = [
        not_concluded(
            record, FailureKind.CANCELLED, "the run was cancelled", not_begun=not record.open.launched
        )
        for record in desk.state.steps
        if record.open is not None
    ]
    await desk.recorder.record(
        control_handled(desk, control, "accepted"),
        *open_ends,
        ev.RunCancelled(reason=control.reason, actor=control.actor),
        acks=[ControlAck(control.id, "accepted", desk.epoch)],
        release=True,
    )


def _unsettled(state: RunState, control: Control) -> StepRecord | None:
    """The step that the escalation is about, if this control can settle it."""
    if state.status is not RunStatus.ESCALATED or state.escalated_step is None:
        return None
    record = state.steps[state.escalated_step]
    fits = control.step_id in (None, record.step_id) and control.argument in ("done", "not-done")
    return record if fits else None


async def _settle(desk: Desk, control: Control, record: StepRecord) -> None:
    step = desk.job.plan.steps[record.index]
    facts: list[ev.Payload] = [control_handled(desk, control, "accepted")]
    if control.argument == "done":
        env = environment_of(desk.world, desk.job, step, desk.arguments(step), record.attempts, {})
        passed = await desk.attempts.settled(step, record, desk.policy(step), env)
        if passed is None:
            return await refuse(desk, control, "an output of the step that another one needs cannot be had")
        await write_papers(desk, step, record, passed)
        facts += passed_facts(desk, step, record, passed)
    facts.append(
        ev.RunWaiting(
            reason=f"{step.id} was settled as {control.argument} by {control.actor}; resume to go on",
            step_id=step.id,
        )
    )
    await desk.recorder.record(*facts, acks=[ControlAck(control.id, "accepted", desk.epoch)], release=True)
    return None
