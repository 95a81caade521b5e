"""Workspaces brought back from checkpoints. A broken checkpoint moves the frontier; nothing runs on half a tree."""

from __future__ import annotations

from recoup.engine.checkpoints import last_checkpoint
from recoup.engine.desk import Desk
from recoup.engine.facts import invalidated, run_failed, to_be_settled
from recoup.errors import CheckpointBroken, WorkspaceError
from recoup.kernel.deeds import is_done_for_good
from recoup.kernel.prefix import known_good_prefix_length
from recoup.model import events as ev
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.plan import Step
from recoup.model.run import RunState, StepRecord, Verdict
from recoup.ports import Workspaces
from recoup.steps.hooks import Undone


async def restore(desk: Desk, reason: str, *, current: bool = False) -> None:
    """Build the last good checkpoint aside; work goes on there, and the pointer follows when the step passes, or, with
    `current`, at once.

    Each checkpoint that turns out to be broken moves the frontier back, down to the baseline.
    """
    assert desk.job.workspaces is not None
    while not desk.recorder.released:
        index, snapshot = last_checkpoint(desk.state)
        try:
            number = await desk.job.workspaces.restore(snapshot)
        except CheckpointBroken as error:
            await _move_frontier_back(desk, index, error.message)
            continue
        await desk.recorder.record(
            ev.CheckpointRestored(
                step_index=index,
                step_id=None if index is None else desk.state.steps[index].step_id,
                tree=snapshot.tree,
                workspace=number,
                reason=reason,
                current=current,
            )
        )
        if current:
            await desk.job.workspaces.swap(number, desk.job.policy.workspaces_kept)
        return


async def hard_reset(desk: Desk, step: Step, record: StepRecord) -> None:
    """Replaces everything that the step works with: what its kind keeps, and its workspace."""
    if facts := await desk.kinds.of(step).reset(step, record):
        await desk.recorder.record(*facts)
    if desk.state.workspaces.restore_pending:
        await restore(desk, "hard reset")


async def adopt(desk: Desk, *, rebooted: bool = False) -> None:
    """Continue in the workspace that a former driver left, if it is what the ledger says; otherwise restore.

    `rebooted`: the machine was restarted since. Checkpoints were synced and workspaces were not, so files of steps
    that had passed may be gone."""
    workspaces, number = desk.job.workspaces, desk.workspace
    if workspaces is None or number is None:
        return None
    path = workspaces.path(number)
    if not path.is_dir() or path.is_symlink():
        return await restore(desk, "the workspace is gone")
    if desk.state.workspaces.trial is None and _pointed_at(workspaces) != number:
        # The swap follows its event; a driver that died between the two left it to us.
        await workspaces.swap(number, desk.job.policy.workspaces_kept)
    if _should_be_clean(desk.state):
        _, snapshot = last_checkpoint(desk.state)
        try:
            is_clean = await workspaces.matches(number, snapshot)
        except CheckpointBroken:  # restoring finds one that is whole, or ends the run
            is_clean = False
        if not is_clean:
            await restore(desk, "the workspace is not as the last checkpoint left it")
    elif rebooted and not _is_looked_for(desk.state):
        await restore(
            desk, "the machine was restarted, and may have lost files that were not on its disk yet"
        )
    return None


def _pointed_at(workspaces: Workspaces) -> int | None:
    """None: a step has removed the pointer."""
    try:
        return workspaces.current()
    except WorkspaceError:
        return None


async def workspace_broken(desk: Desk, words: str) -> None:
    await desk.recorder.record(
        run_failed(desk, words, FailureClass.DETERMINISTIC_REPO, FailureKind.WORKSPACE_BROKEN), release=True
    )


def _should_be_clean(state: RunState) -> bool:
    """No attempt of this delivery has touched the workspace since its last checkpoint, and nobody is still to look in
    it for what a step has left there."""
    index = known_good_prefix_length(state)
    if index == len(state.steps) or state.workspaces.restore_pending:
        return False
    record = state.steps[index]
    if record.spent.attempts_in_delivery or record.doubt.to_settle:
        return False
    return record.verdict in (Verdict.NOT_RUN, Verdict.INVALIDATED) or state.driver.delivery > 1


def _is_looked_for(state: RunState) -> bool:
    """A person is asked about a step, and what it left in the workspace belongs to the answer; or a workspace is to be
    made anyway; or no step is left that would need it."""
    index = known_good_prefix_length(state)
    if index == len(state.steps) or state.workspaces.restore_pending:
        return True
    record = state.steps[index]
    return record.doubt.to_settle and record.doubt.asks is None


async def _move_frontier_back(desk: Desk, index: int | None, words: str) -> None:
    if index is None:
        await workspace_broken(desk, f"the baseline cannot be restored: {words}")
    else:
        await invalidate_from(desk, index, f"its checkpoint is broken: {words}")


async def invalidate_from(desk: Desk, index: int, reason: str) -> None:
    """This step and the good ones after it must be performed again. Of those that must not be, the first is settled at
    once, while the workspace is still as it was, and each of the others when the run comes to it."""
    records = desk.state.steps[index : known_good_prefix_length(desk.state)]
    for hooks in desk.kinds.all():
        await hooks.go_back(index)
    facts: list[ev.Payload] = list(invalidated(desk.state, index, reason))
    done = [record for record in records if is_done_for_good(desk.job.plan.steps[record.index], record)]
    if done:
        facts.append(to_be_settled(desk, done[0], reason))
    await desk.recorder.record(*facts, release=bool(done))


async def undo(desk: Desk, undone: Undone) -> None:
    """This step and the good ones after it are performed again, gates included. What must not be repeated and is
    unaffected stays done; about the rest a person is asked once."""
    steps = desk.job.plan.steps
    good = desk.state.steps[undone.begins : known_good_prefix_length(desk.state)]
    done = [record for record in good if is_done_for_good(steps[record.index], record)]
    stay = {record.index for record in done if record.index in undone.unaffected}
    asked = [record for record in done if record.index not in stay]
    facts: list[ev.Payload] = [
        fact for fact in invalidated(desk.state, undone.begins, undone.reason) if fact.step_index not in stay
    ]
    if asked:
        facts.append(to_be_settled(desk, asked[0], undone.reason, also=asked[1:]))
    await desk.recorder.record(*facts, release=bool(asked))
