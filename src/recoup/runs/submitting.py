"""Runs are submitted: recorded whole, or not at all."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from recoup.engine.originals import INPUTS, Originals, encoded
from recoup.engine.world import Watcher, World
from recoup.errors import Conflict, NotFound, RecoupError, UsageError
from recoup.fleet.queued import DEFAULT_QUEUE, Queued, stream_of_key
from recoup.kernel.canonical import digest
from recoup.kernel.policies import policy_digest
from recoup.kernel.position import is_over
from recoup.kernel.reuse import Reuse
from recoup.linked import Reusing, plan_of, throwaway
from recoup.model.dispatch import Hint
from recoup.model.events import RunSubmitted, SubmissionKeyTaken
from recoup.model.ids import run_stream
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Append, Draft, PolicyBody, StreamAppend
from recoup.model.target import HealMode
from recoup.redaction.redactor import SecretRedactor
from recoup.runs.hiding import words_redacted
from recoup.runs.jobs import Jobs, workspaces_of
from recoup.steps.registry import needs_of

if TYPE_CHECKING:
    from recoup.depot.shipping import Shipping

TEXT_PLANS = "plans"
"""The folder of plans that come as text, in the home: what they name is looked for here. Their runs work elsewhere."""
_SECRET_GIVEN = "[secret]"


class Submitted(msgspec.Struct, frozen=True):
    """A run in a queue."""

    run_id: str
    duplicate: bool = False
    """It was submitted before, under the same key."""
    note: str | None = None
    differs: tuple[str, ...] = ()
    """What of a duplicate is not as it was submitted before: `plan`, `inputs`. Nothing of it will run."""


class Submitting:
    """Of new runs, and of those that go on from others."""

    def __init__(
        self,
        world: World,
        jobs: Jobs,
        home: Path,
        policy: Callable[[], Awaitable[Policy]],
        hint: Callable[[Hint, float], Awaitable[str | None]],
        require_strong_key: Callable[[], None],
    ) -> None:
        self._world = world
        self._jobs = jobs
        self._records = jobs.records
        self._hiding = jobs.hiding
        self._home = home
        self._text_plans = (home / TEXT_PLANS).resolve()
        self._policy = policy
        self._hint = hint
        self._require_strong_key = require_strong_key
        self._stored_policies: set[str] = set()

    @property
    def _shipping(self) -> Shipping | None:
        return self._jobs.shipping

    async def submit(
        self,
        plan: Plan,
        given: Mapping[str, str],
        source: str | None,
        reuse: Reusing | None = None,
        queued: Queued | None = None,
        heal: HealMode | None = None,
        *,
        submitted_by: str | None = None,
    ) -> str:
        """Record a run that is to be driven, by workers if it is `queued`. Nothing is recorded when the plan or its
        inputs cannot be used. Raises Conflict when a key is taken."""
        if reuse is None:  # a run that continues another one needs the key of that one
            self._require_strong_key()
        run_id = new_run_id(self._world.clock.now().iso())
        redactor = self._hiding.redactors.of(run_id)
        with words_redacted(redactor):
            await self._record(run_id, redactor, plan, given, source, reuse, queued, heal, submitted_by)
        return run_id

    async def _record(
        self,
        run_id: str,
        redactor: SecretRedactor,
        plan: Plan,
        given: Mapping[str, str],
        source: str | None,
        reuse: Reusing | None,
        queued: Queued | None,
        heal: HealMode | None,
        submitted_by: str | None,
    ) -> None:
        policy = await self._policy()
        files = self._records.files(run_id)
        kept = await self._hiding.of_plan(redactor, plan, reuse)
        inputs = self._hiding.inputs(redactor, plan, given, source or plan.name)
        self._hiding.refuse_names(redactor, plan, source or plan.name)
        if plan.workspace is not None:
            await workspaces_of(files).check(plan.workspace)
        payload = self._submission(plan, policy, inputs, source, reuse)
        payload = msgspec.structs.replace(payload, heal=heal, submitted_by=submitted_by)
        payload = self._hiding.marked(redactor, payload if queued is None else queued.marked(payload))
        _must_be_bounded(payload, inputs, policy)
        if queued is not None and self._shipping is not None:
            self._shipping.must_be_fit(plan, private_words(payload))
        private = payload.plan_redacted or payload.private_inputs or kept
        if queued is None or private or any(spec.secret for spec in plan.inputs.values()):
            files.make()
        if payload.plan_redacted:
            files.write_plan(msgspec.json.encode(plan))
        self._hiding.keep(files, payload, inputs, kept)
        if self._shipping is not None:
            await self._shipping.submitted(run_id, files, plan, private_words(payload))
        draft = Draft(RunSubmitted.TYPE, redactor.seal(payload))
        key = () if queued is None else queued.key_taken(plan.name, run_id)
        taken = [StreamAppend(stream, (Draft(fact.TYPE, redactor.seal(fact)),), 0) for stream, fact in key]
        await self._world.ledger.append(
            Append(
                at=self._world.clock.now(),
                streams=(StreamAppend(run_stream(run_id), (draft,), 0), *taken),
                policies=self._unstored(payload.policy_digest, policy),
            )
        )
        self._stored_policies.add(payload.policy_digest)

    async def submit_queued(
        self,
        plan: Plan,
        given: Mapping[str, str],
        source: str | None,
        queued: Queued,
        reuse: Reusing | None = None,
        heal: HealMode | None = None,
    ) -> Submitted:
        """For workers. Under a key that is taken nothing is submitted: the run that has it is named."""
        earlier = await self.run_with_key(plan.name, queued.dedup_key)
        if earlier is not None:
            return await self._duplicate(earlier, plan, given)
        try:
            run_id = await self.submit(plan, given, source, reuse, queued, heal)
        except Conflict:
            earlier = await self.run_with_key(plan.name, queued.dedup_key)
            if earlier is None:
                raise
            return await self._duplicate(earlier, plan, given)
        delay_s = (queued.not_before_us - self._world.clock.now().wall_us) / 1e6
        return Submitted(run_id, note=await self._hint(queued.hint(run_id), max(0.0, delay_s)))

    async def _duplicate(self, run_id: str, plan: Plan, given: Mapping[str, str]) -> Submitted:
        try:
            state = await self._records.state(run_id)
        except NotFound:  # the key outlives its run
            return Submitted(run_id, duplicate=True)
        differs = ["plan"] if state.submission.plan_digest != digest(msgspec.to_builtins(plan)) else []
        if await self._inputs_differ(state, plan, given):
            differs.append("inputs")
        note = None
        if differs:
            note = f"the key belongs to run {run_id}, and its {' and '.join(differs)} differ: nothing was submitted"
        return Submitted(run_id, duplicate=True, note=note, differs=tuple(differs))

    async def _inputs_differ(self, state: RunState, plan: Plan, given: Mapping[str, str]) -> bool:
        """By their values, where these can be read here; otherwise by what records show."""
        inputs = {name: given.get(name, spec.default) for name, spec in plan.inputs.items()}
        now = {name: value for name, value in (inputs | dict(given)).items() if value is not None}
        try:
            return (await self.recorded(state))[1] != now
        except RecoupError:
            hidden = {name for name, spec in state.plan.inputs.items() if spec.secret} | {
                *state.submission.private_inputs
            }
            shown = {name: value for name, value in state.submission.inputs.items() if value is not None}
            return any(shown.get(name) != now.get(name) for name in (shown.keys() | now.keys()) - hidden)

    async def retry(
        self, run_id: str, *, submitted_by: str | None = None, reason: str | None = None
    ) -> Submitted:
        """A run that has ended, once more: a new one, linked to it, in the same queue."""
        state = await self._records.state(run_id)
        if not is_over(state):
            raise UsageError(
                f"run {run_id} has not ended: {state.status}",
                hint=f"See what it waits for: recoup show {run_id}",
            )
        if state.status is RunStatus.SUCCEEDED:
            raise UsageError(
                f"run {run_id} has succeeded: nothing is left to do",
                hint=f"Do it again from a step: recoup resume {run_id} --from-step STEP",
            )
        plan, given = await self.recorded(state)
        needs = tuple(sorted({*state.queueing.needs, *needs_of(plan)}))
        queued = Queued(
            queue=state.queueing.queue or DEFAULT_QUEUE,
            priority=state.queueing.priority,
            needs=needs,
            dedup_key=f"retry of {run_id}",
            submitted_by=submitted_by,
            submit_reason=reason,
        )
        reusing = Reusing(run_id)
        return await self.submit_queued(
            plan, given, state.submission.plan_source, queued, reusing, state.submission.heal
        )

    async def preview(
        self, plan: Plan, given: Mapping[str, str], source: str | None, reuse: Reusing
    ) -> Reuse:
        """What a run of this plan would reuse. Nothing of it is recorded, and nothing is left behind."""
        run_id = new_run_id(self._world.clock.now().iso())
        redactor = self._hiding.redactors.of(run_id)
        with words_redacted(redactor):
            return await self._would_reuse(run_id, redactor, plan, given, source, reuse)

    async def _would_reuse(
        self,
        run_id: str,
        redactor: SecretRedactor,
        plan: Plan,
        given: Mapping[str, str],
        source: str | None,
        reuse: Reusing,
    ) -> Reuse:
        policy = await self._policy()
        kept = await self._hiding.of_plan(redactor, plan, reuse)
        inputs = self._hiding.inputs(redactor, plan, given, source or plan.name)
        payload = self._hiding.marked(redactor, self._submission(plan, policy, inputs, source, reuse))
        with throwaway(self._home) as files:
            self._hiding.keep(files, payload, inputs, kept)
            job = await self._jobs.made(run_id, plan, policy, files, redactor, reuse.run_id, Watcher())
            if payload.own_folder:
                job.own_folder = str(self._records.files(reuse.run_id).work.resolve())
            return await self._jobs.linked.would_reuse(job, payload)

    async def preview_in_place(self, state: RunState, from_step: str | None) -> Reuse:
        """What this run would perform if it went on now. Nothing of it is recorded."""
        await self._records.fetch_missing(state.run_id)
        return self._jobs.linked.would_go_on(state, from_step)

    async def recorded(self, state: RunState) -> tuple[Plan, dict[str, str]]:
        """The plan of a run as it is run, and the inputs that it was given."""
        files = self._records.files(state.run_id)
        await self._records.fetch_missing(state.run_id)
        plan, vault = plan_of(state, files), self._hiding.vault(files)
        given = {
            name: vault.get(f"inputs.{name}") if plan.inputs[name].secret else value
            for name, value in state.submission.inputs.items()
            if value is not None
        }
        return plan, given | (Originals(vault).all(INPUTS) if state.submission.private_inputs else {})

    async def run_with_key(self, workflow: str, key: str | None) -> str | None:
        if key is None:
            return None
        for event in await self._world.ledger.read(stream_of_key(workflow, key), limit=1):
            assert isinstance(event.payload, SubmissionKeyTaken)
            return event.payload.run_id
        return None

    def _submission(
        self,
        plan: Plan,
        policy: Policy,
        inputs: Mapping[str, str | None],
        source: str | None,
        reuse: Reusing | None,
    ) -> RunSubmitted:
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
            own_folder=plan.workspace is None and Path(plan.folder).resolve() == self._text_plans,
            from_step=reuse.from_step if reuse else None,
        )

    def _unstored(self, digest_of_it: str, policy: Policy) -> tuple[PolicyBody, ...]:
        """The body of a policy goes into the ledger once, and is never taken out."""
        if digest_of_it in self._stored_policies:
            return ()
        return (PolicyBody(digest_of_it, self._world.redactor.seal(policy)),)


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
