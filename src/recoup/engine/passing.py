"""What is kept of a step that passed, before the ledger says so: whatever the ledger cites is there."""

from __future__ import annotations

from recoup.engine.attempt import Passed
from recoup.engine.desk import Desk
from recoup.engine.papers import step_state
from recoup.model.plan import Step
from recoup.model.run import StepRecord


async def write_papers(desk: Desk, step: Step, record: StepRecord, passed: Passed) -> None:
    for name, value in passed.outputs.secret.items():
        desk.job.secrets.put(f"steps.{step.id}.outputs.{name}", value)
    if passed.outputs.secret:
        await desk.job.secrets.settle()
    if not desk.outside(step):
        return
    redactor, now = desk.world.redactor, desk.world.clock.now()
    attempt = record.open.attempt if record.open else record.attempts
    document = step_state(record, attempt, passed.change.hash, passed.change.files, now)
    desk.job.files.write_step_state(record.index, redactor.seal(document))
    if passed.snapshot is None or desk.job.workspaces is None or record.pre_state is None:
        return
    limit = desk.policy(step).patch_bytes_max
    patch = await desk.job.workspaces.patch(record.pre_state, passed.snapshot.tree, limit)
    desk.job.files.write_patch(record.index, redactor.redact(patch))
