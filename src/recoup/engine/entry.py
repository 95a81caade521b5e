"""How a driver enters a run: for the first time, after another driver, or in a new delivery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from recoup.engine.arguments import environment_of
from recoup.engine.conclusion import Conclusion
from recoup.engine.desk import Desk
from recoup.engine.facts import given_up_for_good, not_concluded, resumed_from, run_failed
from recoup.engine.restoring import restore, workspace_broken
from recoup.engine.reusing import find_reuse, go_on_from_reused, keep_private_values, reuse_facts
from recoup.errors import MachineTrouble, WorkspaceError, WorkspaceRuined
from recoup.kernel.prefix import frontier
from recoup.model import events as ev
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.run import RunState, RunStatus, StepRecord
from recoup.model.workspace import Snapshot

_DRIVABLE = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.BLOCKED)


def is_going(desk: Desk) -> bool:
    """This driver still has the run, and has something to do for it."""
    drivable = desk.state.status in _DRIVABLE or is_redelivery(desk.state)
    return drivable and not desk.recorder.released


def is_redelivery(state: RunState) -> bool:
    """A failed delivery may be followed by another."""
    return state.status is RunStatus.FAILED and state.failure.retryable


async def begin(desk: Desk, first: Callable[[], Sequence[ev.AttemptStarted]]) -> None:
    """The first delivery: pin the source, make the workspace, then say so; without a workspace the `first` attempt may
    begin with it."""
    baseline = None
    if desk.job.workspaces is not None:
        assert desk.job.plan.workspace is not None, "workspaces belong to a plan that asks for one"
        try:
            baseline = await desk.job.workspaces.create(desk.job.plan.workspace)
        except MachineTrouble:
            raise  # the run can be resumed
        except WorkspaceError as error:
            return await workspace_broken(desk, error.message)
    start = ev.RunStarted(
        delivery=desk.state.driver.delivery + 1,
        epoch=desk.epoch,
        owner=desk.recorder.lease.owner,
        policy_digest=desk.recorder.digest_of(desk.job.policy),
        baseline=baseline,
        workspace=1 if baseline else None,
        worker=desk.world.worker,
    )
    if desk.state.lineage.reuse_from is not None:
        return await _begin_with_reuse(desk, start)
    tail = () if baseline is not None else first()
    await desk.recorder.record(
        start, tail=[msgspec.structs.replace(attempt, delivery=start.delivery) for attempt in tail]
    )
    return None


async def _begin_with_reuse(desk: Desk, start: ev.RunStarted) -> None:
    """What is reused and what is not stand in one commit with the start: a run never half reuses another."""
    reuse = await find_reuse(desk.world, desk.job, desk.state, start.baseline, desk.lifeline)
    if reuse.refusal is not None:
        cls, kind = FailureClass.DETERMINISTIC_CONTRACT, FailureKind.INVALID_INPUT
        failed = msgspec.structs.replace(run_failed(desk, reuse.refusal, cls, kind), delivery=start.delivery)
        await desk.recorder.record(start, failed, release=True)
        return
    await keep_private_values(desk.world, desk.job, reuse)
    await desk.recorder.record(start, *reuse_facts(desk.job, reuse))
    await go_on_from_reused(desk)


async def decline(desk: Desk, words: str) -> None:
    """The delivery fails before anything is done in it."""
    state, policy = desk.state, desk.job.policy
    delivery = state.driver.delivery + (not state.begun or is_redelivery(state))
    about: dict[str, Any] = {
        "reason": f"delivery {delivery} could not be made: {words}",
        "failure_class": FailureClass.TRANSIENT_RUNTIME,
        "failure_kind": FailureKind.DRIVER_LOST,
        "delivery": delivery,
    }
    ends: list[ev.Payload] = [ev.RunFailed(**about, retryable=True)]
    if delivery >= policy.delivery_max:
        ends = [given_up_for_good(desk, about["reason"]), ev.RunDeadLettered(**about)]
    await desk.recorder.record(*ends, release=True)


async def resume(desk: Desk) -> None:
    """Take the run up where the ledger says it is."""
    again = is_redelivery(desk.state)
    resumed = ev.RunResumed(
        delivery=desk.state.driver.delivery + again,
        epoch=desk.epoch,
        owner=desk.recorder.lease.owner,
        reason=_why_resumed(desk.state),
        worker=desk.world.worker,
    )
    await desk.recorder.record(resumed, *_from_step(desk))
    await _see_what_changed(desk)
    await go_on_from_reused(desk)


def _why_resumed(state: RunState) -> str:
    if is_redelivery(state):
        return "next delivery"
    if state.driver.interrupted:
        return "after an interruption"
    if state.status is RunStatus.BLOCKED:
        return "its workflow may run again"
    return "after a wait" if state.status is RunStatus.WAITING else "by another driver"


async def _see_what_changed(desk: Desk) -> None:
    """An operator had the workspace: what they left is recorded, and work goes on from there."""
    before, number, workspaces = desk.state.workspaces.handed_over, desk.workspace, desk.job.workspaces
    if before is None or number is None or workspaces is None or not workspaces.path(number).is_dir():
        return None
    try:
        snapshot = await workspaces.snapshot(number)
    except WorkspaceRuined as error:
        return await restore(desk, f"what the operator left cannot be stored: {error.message}", current=True)
    change = await workspaces.change(before, snapshot.tree)
    patch = await workspaces.patch(before, snapshot.tree, desk.job.policy.patch_bytes_max)
    redacted = desk.world.redactor.redact(patch)
    evidence: tuple[str, ...] = ()
    if patch:
        evidence = (await desk.world.evidence.put(redacted, desk.job.policy.evidence_bytes_max),)
    await desk.recorder.record(
        ev.WorkspaceChanged(
            workspace=number,
            before=before,
            snapshot=Snapshot(snapshot.tree, snapshot.manifest, bytes_stored=snapshot.bytes_stored),
            diff_hash=change.hash,
            changed_files=change.files,
            changed_files_count=change.files_count,
            evidence=evidence,
            kept=not desk.state.workspaces.restore_pending,
        )
    )
    return None


def _from_step(desk: Desk) -> list[ev.Payload]:
    """Where work goes on: the frontier, and why it is there."""
    edge = frontier(desk.state)
    if edge is None:
        return []
    record = desk.state.steps[edge.step_index]
    return [resumed_from(record, edge.reason, record.recovery.strategy)]


async def lost_attempt(desk: Desk, record: StepRecord, why: str) -> Conclusion | None:
    """An attempt that a former driver left open. None: it never began, or can simply begin again."""
    assert record.open is not None
    if not record.open.launched:
        await desk.recorder.record(
            not_concluded(
                record, FailureKind.DRIVER_LOST, f"{why}, before the attempt was launched", not_begun=True
            )
        )
        return None
    await desk.world.census.clear(desk.job.run_id, record.open.keeper)
    if record.open.phase != "main":
        words = f"its {record.open.phase} was interrupted, and will be done again"
        await desk.recorder.record(not_concluded(record, FailureKind.DRIVER_LOST, words, not_begun=True))
        return None
    step = desk.job.plan.steps[record.index]
    arguments = desk.arguments(step)
    env = environment_of(desk.world, desk.job, step, arguments, record.open.attempt, {})
    asked_in = env | arguments.expected.env
    return await desk.attempts.unknown.lost(arguments.of(step), record, desk.policy(step), asked_in, why)


async def take_over(desk: Desk, replaced: ProcessIdentity) -> None:
    """The owner was lost: clear its processes away, and say so. Too often, and a person must look."""
    await desk.world.census.clear(desk.job.run_id, None)
    await desk.recorder.record(
        ev.RunTakenOver(
            epoch=desk.epoch,
            previous_epoch=desk.state.driver.epoch,
            previous_owner=replaced,
            reason="the driver was lost",
        )
    )
    if desk.state.driver.takeovers <= desk.job.policy.takeovers_max or desk.state.status.is_terminal:
        return
    reason = f"takeovers_max: the driver was lost {desk.state.driver.takeovers} times"
    dead = ev.RunDeadLettered(
        reason=reason,
        failure_class=FailureClass.TRANSIENT_RUNTIME,
        failure_kind=FailureKind.DRIVER_LOST,
        delivery=desk.state.driver.delivery,
    )
    await desk.recorder.record(given_up_for_good(desk, reason), dead, release=True)
