"""Proven steps of an earlier run: everything they rest on is looked at here, and the kernel compares."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from recoup.checks.registry import asks_machine
from recoup.engine.arguments import (
    Arguments,
    Fresh,
    Scope,
    arguments_of,
    digests_now,
    environment_of,
    names_in,
    outputs_named,
    secret_names,
)
from recoup.engine.desk import Desk
from recoup.engine.kinds import kinds_in
from recoup.engine.originals import Originals, key_of, outputs_of, private_references
from recoup.engine.restoring import restore
from recoup.engine.world import EarlierRun, Job, World
from recoup.errors import RecoupError
from recoup.kernel.earlier import was_good
from recoup.kernel.outset import Outset, outset_in_place
from recoup.kernel.policies import step_policy
from recoup.kernel.prefix import is_good, is_rebuilt
from recoup.kernel.reuse import (
    NOTHING_PROVES,
    Found,
    Reuse,
    compare,
    done_in_place,
    foreseen,
    in_place,
    reused_fact,
    why_not,
)
from recoup.kernel.template import holds
from recoup.model import events as ev
from recoup.model.outcome import Scene
from recoup.model.plan import Handler, Plan, Repeat, Step, is_gate
from recoup.model.redacted import holds_mask
from recoup.model.run import RunState, StepRecord, Verdict
from recoup.model.workspace import Adopted, Baseline
from recoup.ports import Lifeline, Secrets

_CANNOT_COMPARE = (RecoupError, OSError, ValueError, LookupError, TypeError, msgspec.MsgspecError)
"""Whatever goes wrong while two steps are compared, they are not known to be the same."""
_ATTEMPT = 1
_PROBLEM_CHARS_MAX = 500
_FIRST_WORKSPACE = 1


async def find_reuse(
    world: World, job: Job, state: RunState, baseline: Baseline | None, lifeline: Lifeline
) -> Reuse:
    """What of the earlier run holds for this one. With a workspace, its checkpoints are in this run's store now."""
    assert state.lineage.reuse_from is not None, "asked only of a run that may reuse another"
    if job.earlier is None:
        gone = f"run {state.lineage.reuse_from}, which was to be reused, is gone"
        return Reuse(state.lineage.reuse_from, (), gone, "Run the plan without reuse.")
    looking = _Looking(world, job, state, job.earlier, lifeline)
    found = await looking.all(baseline)
    found = await _with_checkpoints(job, job.earlier, baseline, found)
    return compare(
        job.earlier.known,
        job.plan,
        baseline,
        found,
        from_step=state.lineage.from_step,
        later_digests=looking.digests_of_unrepeatable(),
    )


def foresee(world: World, job: Job, reuse: Reuse) -> Reuse:
    """With what becomes of all that the reused steps have left. Nothing is opened."""
    if job.earlier is None:
        return reuse
    earlier, count = job.earlier.known.state, reuse.count
    records, steps = earlier.steps[:count], job.plan.steps
    outset = Outset(steps=steps, records=records, done=frozenset(range(count)))
    run = _foreseen(world, job.plan, outset, job.earlier.job.secrets)
    restores = any(record.results.checkpoint is not None for record in records)
    rebuilt = [record.index for record in records if is_rebuilt(steps[record.index], record)]
    return foreseen(reuse, run, rebuilt if restores else ())


def foresee_in_place(world: World, secrets: Secrets, state: RunState, from_step: str | None) -> Reuse:
    """What a run that goes on performs and what it does not. Nothing is opened."""
    done = done_in_place(state, from_step)
    goes_back = any(is_good(record) and record.index not in done for record in state.steps)
    restores = state.workspaces.restore_pending or (goes_back and state.workspaces.in_use is not None)
    outset = outset_in_place(state, done, resets=restores, goes_back=goes_back)
    run = _foreseen(world, state.plan, outset, secrets)
    rebuilt = {index for index in done if is_rebuilt(state.plan.steps[index], state.steps[index])}
    return foreseen(
        in_place(state, from_step), run, rebuilt if restores else rebuilt & {*state.progress.rebuild_pending}
    )


def _foreseen(world: World, plan: Plan, run: Outset, secrets: Secrets) -> Outset:
    for _, kind in kinds_in(plan, world):
        run = kind.foreseen(run, secrets)
    return run


def reuse_facts(job: Job, reuse: Reuse) -> list[ev.Payload]:
    """What is taken over, what no longer counts, and where work goes on."""
    assert job.earlier is not None
    earlier, count = job.earlier.known, reuse.count
    facts: list[ev.Payload] = []
    for record in earlier.state.steps[:count]:
        facts.append(reused_fact(earlier.state, record))
        if record.index in earlier.incomplete and not record.skipped:
            facts.append(msgspec.structs.replace(earlier.incomplete[record.index], attempt=None))
    why = {asked.step_id: asked.reason for asked in reuse.asks}
    dropped = next((step for step in reuse.steps[count:] if was_good(earlier, step.step_id)), None)
    if dropped is not None:
        about: dict[str, Any] = {"step_id": dropped.step_id, "step_index": dropped.step_index}
        facts.append(
            ev.StepInvalidated(**about, attempt=None, reason=why.get(dropped.step_id, dropped.reason))
        )
    edge = reuse.frontier
    if edge is not None:
        private = tuple(sorted(private_references(earlier.state)))
        asks = tuple(msgspec.structs.replace(one, private=private) for one in reuse.asks)
        about = {"step_id": edge.step_id, "step_index": edge.step_index}
        reason = why.get(edge.step_id, edge.reason)
        facts.append(ev.ResumeFromStep(**about, attempt=None, reason=reason, asks=asks))
    return facts


async def keep_private_values(world: World, job: Job, reuse: Reuse) -> None:
    """Before the ledger says that they are there."""
    assert job.earlier is not None
    reused = job.earlier.known.state.steps[: reuse.count]
    keys = [_output_key(record.step_id, name) for record in reused for name in record.results.secret_outputs]
    keys += [key_of(outputs_of(record.step_id)) for record in reused if record.results.private_outputs]
    kept = {key: job.earlier.job.secrets.get(key) for key in keys}
    for _, kind in kinds_in(job.plan, world):
        kept |= kind.inherited(job.earlier.job.secrets, reused)
    for key, value in kept.items():
        job.secrets.put(key, value)
    if kept:
        await job.secrets.settle()


async def go_on_from_reused(desk: Desk) -> None:
    """The workspace as the last reused step left it. Also after a driver that was lost before it could do this."""
    state = desk.state
    untouched = state.workspaces.current == _FIRST_WORKSPACE and all(
        not step.spent.attempts and step.open is None for step in state.steps
    )
    if state.workspaces.restore_pending and state.lineage.reuse_from is not None and untouched:
        await restore(desk, f"reuse of {state.lineage.reuse_from}", current=True)


class _Looking:
    """Looks at the steps of a new run one by one, for as long as all before are the same as in the earlier run."""

    def __init__(
        self, world: World, job: Job, state: RunState, earlier: EarlierRun, lifeline: Lifeline
    ) -> None:
        self._world = world
        self._job = job
        self._state = state
        self._earlier = earlier
        self._lifeline = lifeline
        self._secret = secret_names(job.plan)
        self._newly_named = outputs_named(job.plan) - outputs_named(earlier.known.plan)
        self._outputs: dict[str, dict[str, Any]] = {}
        """Of the steps that are the same, by step."""
        self._recorded: dict[str, Mapping[str, Any]] = {}
        self._private_then = private_references(earlier.known.state)

    async def all(self, baseline: Baseline | None) -> list[Found]:
        known, plan, found = self._earlier.known, self._job.plan, list[Found]()
        for index, step in enumerate(plan.steps):
            if step.id == self._state.lineage.from_step or why_not(known, plan, baseline, index):
                break
            found.append(await self._found(step, known.state.steps[index]))
            if why_not(known, plan, baseline, index, found[index]):
                break
        return found

    def digests_of_unrepeatable(self) -> dict[str, frozenset[str] | None]:
        """None: not known before the steps before it have run."""
        steps = [step for step in self._job.plan.steps if step.repeat is Repeat.NEVER]
        return {step.id: self._digests(step) for step in steps}

    async def _found(self, step: Step, record: StepRecord) -> Found:
        try:
            found = await self._look(step, record)
        except _CANNOT_COMPARE as error:
            found = Found(problem=f"it cannot be compared: {_first_line(error)}")
        if found.problem is None:
            return found
        shown = self._world.redactor.redact(found.problem).text[:_PROBLEM_CHARS_MAX]
        return msgspec.structs.replace(found, problem=shown)

    async def _look(self, step: Step, record: StepRecord) -> Found:
        scope = Scope(self._job, self._state, self._fresh())
        wanted = step.when is None or holds(step.when, scope)
        if record.skipped or not wanted:
            return Found(wanted=wanted)
        arguments = self._arguments(step)
        if record.beginning.args_digest not in (arguments.digest, arguments.plain_digest):
            return Found(args_digest=arguments.digest, changed=self._changed(step))
        values = {**record.results.outputs, **self._secret_outputs(record), **self._private_outputs(record)}
        problem = (
            await self._evidence_problem(record)
            or self._output_problem(step, record, values)
            or self._handler_problem(step, record, values)
            or await self._world_problem(step, arguments)
        )
        if problem is None:
            self._outputs[step.id], self._recorded[step.id] = values, record.results.outputs
        return Found(args_digest=record.beginning.args_digest, problem=problem)

    def _fresh(self, **more: Mapping[str, Any]) -> Fresh:
        """The outputs of the steps that are the same, and `more`, by step."""
        private = frozenset(name for name in self._private_then if name.startswith("steps."))
        return Fresh({**self._outputs, **more}, self._recorded, private)

    def _arguments(self, work: Step | Handler) -> Arguments:
        return arguments_of(work, self._job, self._state, self._secret, self._fresh())

    def _digests(self, step: Step) -> frozenset[str] | None:
        redactor, then = self._world.redactor, self._private_then
        try:
            return digests_now(step, self._job, self._state, redactor, self._fresh(), then)
        except _CANNOT_COMPARE:
            return None

    def _changed(self, step: Step) -> tuple[str, ...]:
        earlier = self._earlier
        before = Scope(earlier.job, earlier.known.state)
        now = Scope(self._job, self._state, self._fresh())
        return tuple(name for name in names_in(step) if before.get(name) != now.get(name))

    def _secret_outputs(self, record: StepRecord) -> dict[str, str]:
        """Registered before anything is recorded that might hold one."""
        secrets = self._earlier.job.secrets
        values = {
            name: secrets.get(_output_key(record.step_id, name)) for name in record.results.secret_outputs
        }
        for name, value in values.items():
            self._job.redactor.register_unless_short(_output_key(record.step_id, name), value)
        return values

    def _private_outputs(self, record: StepRecord) -> dict[str, Any]:
        originals = Originals(self._earlier.job.secrets)
        return originals.all(outputs_of(record.step_id)) if record.results.private_outputs else {}

    async def _evidence_problem(self, record: StepRecord) -> str | None:
        for handle in record.results.evidence:
            try:
                await self._world.evidence.get(handle)
            except (RecoupError, OSError) as error:
                return f"its evidence does not hold: {_first_line(error)}"
        return None

    def _output_problem(self, step: Step, record: StepRecord, values: Mapping[str, Any]) -> str | None:
        plain = {name: value for name, value in values.items() if name not in record.results.secret_outputs}
        if self._world.redactor.found_in(msgspec.json.encode(plain)) or self._masked_now(record):
            return "an output of it holds what is a secret now"
        if record.results.private_outputs is None and holds_mask(
            msgspec.json.encode(record.results.outputs).decode()
        ):
            return "an output of it was masked in the records, and its original was not kept"
        new = {name for step_id, name in self._newly_named if step_id == step.id}
        missing = sorted(new - record.results.outputs.keys() - set(record.results.secret_outputs))
        return f"an output that is wanted now was not kept: {', '.join(missing)}" if missing else None

    def _masked_now(self, record: StepRecord) -> bool:
        """Redaction hides more than it did when these were recorded."""
        shown = msgspec.json.decode(msgspec.json.encode(record.results.outputs))
        return bool(msgspec.json.decode(self._world.redactor.seal(record.results.outputs).data) != shown)

    def _handler_problem(self, step: Step, record: StepRecord, values: Mapping[str, Any]) -> str | None:
        """What its handlers left is part of what it left."""
        there, fresh = self._earlier, self._fresh(**{step.id: values})
        for handler in _performed_handlers(step, record):
            before = arguments_of(handler, there.job, there.known.state, secret_names(there.known.plan))
            now = arguments_of(handler, self._job, self._state, self._secret, fresh)
            if before.digest != now.digest:
                return "the arguments of its handlers are not what they were"
        return None

    async def _world_problem(self, step: Step, arguments: Arguments) -> str | None:
        """Without a workspace the world must still be as the step left it."""
        if self._job.workspaces is not None or is_gate(step.action):
            return None
        policy = step_policy(self._job.policy, self._job.plan, step)
        scene = Scene(
            cwd=self._job.folder,
            env=environment_of(self._world, self._job, step, arguments, _ATTEMPT, {})
            | arguments.expected.env,
            policy=policy,
            check_timeout_s=policy.precheck_s,
        )
        checks = [check for check in arguments.of(step).expect if asks_machine(check)]
        examined = await self._world.inspector.examine(checks, scene, self._lifeline, asyncio.Event())
        broken = [f"{result.check}: {result.detail}" for result in examined.results if not result.held]
        return f"{NOTHING_PROVES}: {'; '.join(broken)}" if broken else None


async def _with_checkpoints(
    job: Job, earlier: EarlierRun, baseline: Baseline | None, found: list[Found]
) -> list[Found]:
    """With those checkpoints that could be brought over; the first that could not be ends the prefix."""
    if job.workspaces is None:
        return found
    records = [
        record
        for record, one in zip(earlier.known.state.steps, found, strict=False)
        if record.results.checkpoint is not None
        and why_not(earlier.known, job.plan, baseline, record.index, one) is None
    ]
    snapshots = [record.results.checkpoint for record in records if record.results.checkpoint is not None]
    adopted = await job.workspaces.adopt(earlier.job.files.root, snapshots)
    return _without_broken(found, records, adopted)


def _without_broken(found: list[Found], records: Sequence[StepRecord], adopted: Adopted) -> list[Found]:
    if adopted.problem is None:
        return found
    index = records[adopted.count].index
    return [*found[:index], Found(problem=f"its checkpoint cannot be brought over: {adopted.problem}")]


def _performed_handlers(step: Step, record: StepRecord) -> tuple[Handler, ...]:
    recovering = (*step.rescue, *step.on_empty) if record.verdict is Verdict.RECOVERED else ()
    return (*recovering, *step.always)


def _output_key(step_id: str, name: str) -> str:
    return f"steps.{step_id}.outputs.{name}"


def _first_line(error: BaseException) -> str:
    words = error.message if isinstance(error, RecoupError) else str(error)
    return words.splitlines()[0] if words.strip() else type(error).__name__
