"""What is kept of a step that passed, before the ledger says so: whatever the ledger cites is there."""

from __future__ import annotations

import msgspec

from recoup.engine.arguments import Fresh
from recoup.engine.conclusion import Passed
from recoup.engine.desk import Desk
from recoup.engine.originals import Originals, outputs_of, private_names
from recoup.engine.papers import step_state
from recoup.model.plan import Step
from recoup.model.run import StepRecord


async def write_papers(desk: Desk, step: Step, record: StepRecord, passed: Passed) -> Passed:
    """Returns it with the names of the outputs whose originals are kept."""
    passed = await _keep_values(desk, step, passed)
    if desk.outside(step):
        await _write_state(desk, step, record, passed)
    return passed


async def _write_state(desk: Desk, step: Step, record: StepRecord, passed: Passed) -> None:
    redactor, now = desk.world.redactor, desk.world.clock.now()
    attempt = record.open.attempt if record.open else record.spent.attempts
    document = step_state(record, attempt, passed.change.hash, passed.change.files, now)
    desk.job.files.write_step_state(record.index, redactor.seal(document))
    if passed.snapshot is None or desk.job.workspaces is None or record.beginning.pre_state is None:
        return
    limit = desk.policy(step).patch_bytes_max
    patch = await desk.job.workspaces.patch(record.beginning.pre_state, passed.snapshot.tree, limit)
    desk.job.files.write_patch(record.index, redactor.redact(patch))


def fresh_outputs(step_id: str, passed: Passed) -> Fresh:
    """The outputs of a step that has just passed, for the arguments of the next one."""
    private = frozenset(f"{outputs_of(step_id)}.{name}" for name in passed.private_outputs)
    return Fresh({step_id: {**passed.outputs.plain, **passed.outputs.secret}}, private=private)


async def _keep_values(desk: Desk, step: Step, passed: Passed) -> Passed:
    """The secret outputs, and the originals of those that redaction changes."""
    outputs, secrets = passed.outputs, desk.job.secrets
    for name, value in outputs.secret.items():
        secrets.put(f"{outputs_of(step.id)}.{name}", value)
    private = private_names(desk.world.redactor, outputs.plain) if outputs.plain else ()
    if private:
        originals = {name: outputs.plain[name] for name in private}
        Originals(secrets).keep(outputs_of(step.id), originals)
    if outputs.secret or private:
        await secrets.settle()
    return passed if private == () else msgspec.structs.replace(passed, private_outputs=private)
