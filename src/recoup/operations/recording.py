"""Record a run that is to be driven, whole or not at all; and say what a new run would reuse."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from recoup.engine.originals import INPUTS, Originals, encoded
from recoup.engine.world import Watcher
from recoup.errors import UsageError
from recoup.fleet.hiding import words_redacted
from recoup.fleet.jobs import workspaces_of
from recoup.fleet.linked import Reusing, plan_of, throwaway
from recoup.fleet.queued import Queued, stream_of_key
from recoup.kernel.canonical import digest
from recoup.kernel.policies import policy_digest
from recoup.kernel.reuse import Reuse
from recoup.model.events import RunSubmitted, SubmissionKeyTaken
from recoup.model.ids import run_stream
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.model.storage import Append, Draft, PolicyBody, StreamAppend
from recoup.model.target import HealMode
from recoup.redaction.redactor import SecretRedactor
from recoup.settings import require_strong_key

if TYPE_CHECKING:
    from recoup.app import App

TEXT_PLANS: Final = "plans"
"""The folder of plans that come as text, in the home: what they name is looked for here. Their runs work elsewhere."""
_SECRET_GIVEN: Final = "[secret]"


async def record(
    app: App,
    plan: Plan,
    given: Mapping[str, str],
    source: str | None,
    reuse: Reusing | None = None,
    queued: Queued | None = None,
    heal: HealMode | None = None,
    *,
    submitted_by: str | None = None,
) -> str:
    """Returns the id of a run that is to be driven, by workers if it is `queued`. Nothing is recorded when the plan or
    its inputs cannot be used. Raises Conflict when a key is taken."""
    if reuse is None:  # a run that continues another one needs the key of that one
        require_strong_key(app.settings.key)
    run_id = new_run_id(app.world.clock.now().iso())
    redactor = app.hiding.redactors.of(run_id)
    with words_redacted(redactor):
        policy = await app.policy()
        kept = await app.hiding.of_plan(redactor, plan, reuse)
        inputs = app.hiding.inputs(redactor, plan, given, source or plan.name)
        app.hiding.refuse_names(redactor, plan, source or plan.name)
        if plan.workspace is not None:
            await workspaces_of(app.runs.files(run_id)).check(plan.workspace)
        payload = _submission(app, plan, policy, inputs, source, reuse)
        payload = msgspec.structs.replace(payload, heal=heal, submitted_by=submitted_by)
        payload = app.hiding.marked(redactor, payload if queued is None else queued.marked(payload))
        _must_be_bounded(payload, inputs, policy)
        if queued is not None and app.shipping is not None:
            app.shipping.must_be_fit(plan, private_words(payload))
        await _keep(app, run_id, payload, plan, inputs, kept, is_queued=queued is not None)
        await _append(app, run_id, redactor, payload, policy, queued)
    return run_id


async def _keep(
    app: App,
    run_id: str,
    payload: RunSubmitted,
    plan: Plan,
    inputs: Mapping[str, str | None],
    kept: Mapping[str, str],
    *,
    is_queued: bool,
) -> None:
    """What records must not show, and what other machines need."""
    files = app.runs.files(run_id)
    private = payload.plan_redacted or payload.private_inputs or kept
    if not is_queued or private or any(spec.secret for spec in plan.inputs.values()):
        files.make()
    if payload.plan_redacted:
        files.write_plan(msgspec.json.encode(plan))
    app.hiding.keep(files, payload, inputs, kept)
    if app.shipping is not None:
        await app.shipping.submitted(run_id, files, plan, private_words(payload))


async def _append(
    app: App,
    run_id: str,
    redactor: SecretRedactor,
    payload: RunSubmitted,
    policy: Policy,
    queued: Queued | None,
) -> None:
    draft = Draft(RunSubmitted.TYPE, redactor.seal(payload))
    key = () if queued is None else queued.key_taken(payload.workflow, run_id)
    taken = [StreamAppend(stream, (Draft(fact.TYPE, redactor.seal(fact)),), 0) for stream, fact in key]
    await app.ledger.append(
        Append(
            at=app.world.clock.now(),
            streams=(StreamAppend(run_stream(run_id), (draft,), 0), *taken),
            policies=_unstored(app, payload.policy_digest, policy),
        )
    )
    app.runs.stored_policies.add(payload.policy_digest)


def _unstored(app: App, digest: str, policy: Policy) -> tuple[PolicyBody, ...]:
    """The body of a policy goes into the ledger once, and is never taken out."""
    if digest in app.runs.stored_policies:
        return ()
    return (PolicyBody(digest, app.redactor.seal(policy)),)


async def preview(
    app: App, plan: Plan, given: Mapping[str, str], source: str | None, reuse: Reusing
) -> Reuse:
    """What a run of this plan would reuse. Nothing of it is recorded, and nothing is left behind."""
    run_id = new_run_id(app.world.clock.now().iso())
    redactor = app.hiding.redactors.of(run_id)
    with words_redacted(redactor):
        policy = await app.policy()
        kept = await app.hiding.of_plan(redactor, plan, reuse)
        inputs = app.hiding.inputs(redactor, plan, given, source or plan.name)
        payload = app.hiding.marked(redactor, _submission(app, plan, policy, inputs, source, reuse))
        with throwaway(app.settings.home) as files:
            app.hiding.keep(files, payload, inputs, kept)
            job = await app.jobs.made(run_id, plan, policy, files, redactor, reuse.run_id, Watcher())
            if payload.own_folder:
                job.own_folder = str(app.runs.files(reuse.run_id).work.resolve())
            return await app.jobs.linked.would_reuse(job, payload)


async def preview_in_place(app: App, state: RunState, from_step: str | None) -> Reuse:
    """What this run would perform if it went on now. Nothing of it is recorded."""
    await app.runs.fetch_missing(state.run_id)
    return app.jobs.linked.would_go_on(state, from_step)


async def recorded(app: App, state: RunState) -> tuple[Plan, dict[str, str]]:
    """The plan of a run as it is run, and the inputs that it was given."""
    files = app.runs.files(state.run_id)
    await app.runs.fetch_missing(state.run_id)
    plan, vault = plan_of(state, files), app.hiding.vault(files)
    given = {
        name: vault.get(f"inputs.{name}") if plan.inputs[name].secret else value
        for name, value in state.submission.inputs.items()
        if value is not None
    }
    return plan, given | (Originals(vault).all(INPUTS) if state.submission.private_inputs else {})


async def run_with_key(app: App, workflow: str, key: str | None) -> str | None:
    if key is None:
        return None
    for event in await app.ledger.read(stream_of_key(workflow, key), limit=1):
        assert isinstance(event.payload, SubmissionKeyTaken)
        return event.payload.run_id
    return None


def _submission(
    app: App,
    plan: Plan,
    policy: Policy,
    inputs: Mapping[str, str | None],
    source: str | None,
    reuse: Reusing | None,
) -> RunSubmitted:
    text_plans = (app.settings.home / TEXT_PLANS).resolve()
    return RunSubmitted(
        workflow=plan.name,
        plan_digest=digest(msgspec.to_builtins(plan)),
        plan=plan,
        plan_redacted=False,
        inputs={
            name: _SECRET_GIVEN if plan.inputs[name].secret and value is not None else value
            for name, value in inputs.items()
        },
        policy_digest=policy_digest(policy),
        plan_source=source,
        parent_run_id=reuse.run_id if reuse else None,
        reuse_from=reuse.run_id if reuse else None,
        own_folder=plan.workspace is None and Path(plan.folder).resolve() == text_plans,
        from_step=reuse.from_step if reuse else None,
    )


def private_words(payload: RunSubmitted) -> str | None:
    """What of a submission records show redacted, in words; None: nothing."""
    if payload.plan_redacted:
        return "text in its plan that records show redacted (recoup check says where)"
    if payload.private_inputs:
        return f"an input that records show redacted ({', '.join(payload.private_inputs)})"
    return None


def _must_be_bounded(payload: RunSubmitted, inputs: Mapping[str, str | None], policy: Policy) -> None:
    """Raises UsageError. The rest of a submission is bounded by the plan's limit and by what brought it here."""
    size = len(encoded({name: inputs[name] for name in payload.private_inputs}).encode())
    if size > policy.plan_bytes_max:
        raise UsageError(
            f"the inputs {', '.join(payload.private_inputs)} take {size} bytes, over plan_bytes_max "
            f"({policy.plan_bytes_max})",
            hint="Pass them in files instead.",
        )


def new_run_id(iso: str) -> str:
    """Sorts by time, and can be typed: the first characters that are unique will do. 48 bits, as a gateway is given
    hundreds in a second: with 24 two of them would have the same id every few minutes."""
    day, clock = iso[:10].replace("-", ""), iso[11:19].replace(":", "")
    return f"{day}-{clock}-{randomness.token_hex(6)}"
