"""One attempt: order, perform, look, conclude. No decision about what follows is taken here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec

from recoup.engine.arguments import Arguments, environment_of, outputs_wanted
from recoup.engine.artifacts import stored_artifacts
from recoup.engine.checkpoints import last_checkpoint
from recoup.engine.excerpts import end_of
from recoup.engine.handlers import Handled, Handlers, Place, exit_expected, is_empty
from recoup.engine.kinds import RunKinds
from recoup.engine.lease import LeaseLifeline
from recoup.engine.papers import retry_context
from recoup.engine.recorder import Recorder
from recoup.engine.witness import witness
from recoup.engine.world import Job, World
from recoup.errors import CheckpointBroken, RecoupError, WorkspaceRuined
from recoup.model.events import (
    AgentReport,
    AgentSessionKnown,
    AttemptLaunched,
    CheckResult,
    HandlerResult,
)
from recoup.model.failure import Failure, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.outcome import Collected, Order, Outcome, Progress, Scene, Seen
from recoup.model.plan import (
    WORLD_CHECKS,
    AgentAction,
    AgentSession,
    Check,
    DiffCheck,
    ExitCheck,
    Repeat,
    Step,
    kind_of,
)
from recoup.model.policy import Policy
from recoup.model.redacted import Redacted
from recoup.model.run import StepRecord, Verdict
from recoup.model.workspace import Change, Snapshot
from recoup.steps.hooks import CannotBegin

_SECRET_SEARCH_BYTES = 64 << 20
_EVIDENCE_END_BYTES = 2048
_NO_CHANGE = Change(None)
_NO_OUTPUTS = Collected()
_NEEDS_ROOM = frozenset(
    {FailureKind.EXIT_NONZERO, FailureKind.SIGNALLED, FailureKind.EXCEPTION, FailureKind.AGENT_ERROR}
)
"""How a command fails that could not write what it had to."""
SESSIONS_MAX = 8
"""Number of sessions of one attempt that are recorded: an agent may open another one while it works."""
TROUBLES_MAX = 3
"""Number of interruptions by trouble of the machine, without a step that passed between them, that cost a run nothing.
After that it pays for them like for other failures: it may itself be what fills the disk."""


class Passed(msgspec.Struct):
    """The step is done, and this proves it (or, unverified, does not)."""

    verdict: Verdict
    duration_ms: int = 0
    exit_code: int | None = None
    outputs: Collected = _NO_OUTPUTS
    private_outputs: tuple[str, ...] = ()
    """Those of the plain ones whose originals are in the private store."""
    evidence: tuple[str, ...] = ()
    change: Change = _NO_CHANGE
    snapshot: Snapshot | None = None
    secrets_found: tuple[tuple[str, tuple[str, ...]], ...] = ()
    settled_by: str = "outcome"
    agent: AgentReport | None = None
    handlers: tuple[HandlerResult, ...] = ()
    seen: Seen | None = None
    files_lost: bool = False
    """Its workspace was lost with it: the run goes on without the files that the step changed."""


class Kept(msgspec.Struct, frozen=True):
    """A checkpoint, and what it should not hold."""

    snapshot: Snapshot
    secrets_found: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Failed(msgspec.Struct):
    """The attempt failed, or nobody can know."""

    failure: Failure
    evidence: tuple[str, ...] = ()
    change: Change = _NO_CHANGE
    agent: AgentReport | None = None
    handlers: tuple[HandlerResult, ...] = ()
    seen: Seen | None = None


class Interrupted:
    """The driver asked for the end; nothing is concluded."""


class Troubled(msgspec.Struct, frozen=True):
    """The command failed because the machine is in trouble: nothing is learned about the step, and nothing is spent."""

    words: str
    outcome_known: bool = True


class ApprovalRefuted(msgspec.Struct, frozen=True):
    """The step was not performed: what a person has approved does not hold any more."""

    words: str


Conclusion = Passed | Failed | Interrupted | Troubled | ApprovalRefuted


class StepHooks(msgspec.Struct):
    """What the engine offers a runtime during one attempt."""

    lifeline: LeaseLifeline
    stop: asyncio.Event
    recorder: Recorder
    step_id: str
    index: int
    attempt: int
    job: Job
    world: World
    once: bool
    """The step must not be repeated."""
    resumes: bool = False
    """A later attempt resumes the session of the agent."""
    recordings: list[asyncio.Task[bool]] = []

    async def launched(self, keeper: ProcessIdentity) -> None:
        await self.recorder.record(
            AttemptLaunched(step_id=self.step_id, step_index=self.index, attempt=self.attempt, keeper=keeper)
        )
        if self.once:
            # A database that loses this event is noticed by it: it is known elsewhere before the step begins.
            await witness(self.world, self.recorder.lease)

    def said(self, stream: str, chunk: Redacted) -> None:
        self.job.watcher.said(self.index, stream, chunk)

    def progressed(self, progress: Progress) -> None:
        self.job.watcher.progressed(self.index, progress)

    def session_known(self, session_id: str) -> None:
        if not self.resumes or len(self.recordings) >= SESSIONS_MAX:
            return
        known = AgentSessionKnown(
            step_id=self.step_id, step_index=self.index, attempt=self.attempt, session_id=session_id
        )
        self.recordings.append(asyncio.create_task(self.recorder.record(known)))

    async def recorded(self) -> None:
        """Returns when nothing is being recorded any more. What could not be costs a session, not the attempt."""
        for result in await asyncio.gather(*self.recordings, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, RecoupError):
                raise result


class Attempts:
    """Performs attempts of one run's steps."""

    def __init__(
        self,
        world: World,
        job: Job,
        recorder: Recorder,
        kinds: RunKinds,
        lifeline: LeaseLifeline,
        stop: asyncio.Event,
    ) -> None:
        self._world = world
        self._job = job
        self._recorder = recorder
        self._kinds = kinds
        self._lifeline = lifeline
        self._stop = stop
        self._handlers = Handlers(world, job, kinds, stop, lifeline)
        self._folder = job.folder

    async def perform(
        self, step: Step, record: StepRecord, arguments: Arguments, policy: Policy
    ) -> Conclusion:
        step = arguments.of(step)
        place = self._place(step, record, policy)
        env = environment_of(self._world, self._job, step, arguments, place.attempt, place.files)
        order = msgspec.structs.replace(
            place.order(self._job, arguments, env, policy),
            has_own_timeout=step.limits.timeout_s is not None,
            title=step.title,
            retry_context=self._retry_context(step, record, place.attempt),
            session_id=record.session_id,
        )
        kind = self._kinds.of(step)
        order = await kind.order(order, step, record, hides=arguments.hides)
        if step.repeat is Repeat.NEVER and not self._launches(step):
            await witness(self._world, self._recorder.lease)
        outcome = kind.explained(step, await self._performed(order, self._hooks(record)))
        if outcome.interrupted:
            return Interrupted()
        if outcome.refuted:
            return ApprovalRefuted(outcome.refuted)
        asked_in = _scene(place, env | arguments.expected.env, outcome)
        return await self.conclude(step, record, outcome, asked_in)

    async def _performed(self, order: Order, hooks: StepHooks) -> Outcome:
        action = order.action
        hooks.resumes = isinstance(action, AgentAction) and action.resume is AgentSession.SESSION
        try:
            return await self._world.runtimes[kind_of(action)].perform(order, hooks)
        finally:
            await hooks.recorded()

    async def rescue(
        self, step: Step, record: StepRecord, arguments: Arguments, policy: Policy
    ) -> Conclusion:
        """Every attempt has failed. The step is recovered if one of its handlers passes and what it expects holds."""
        step = arguments.of(step)
        place = self._place(step, record, policy)
        handled = await self._handlers.perform(step.rescue, place, self._recorder.state, self._hooks(record))
        if handled is None:
            return Interrupted()
        env = environment_of(self._world, self._job, step, arguments, place.attempt, place.files)
        scene = _scene(place, env | arguments.expected.env, handled.outcome or Outcome())
        if problem := await self._learn_secret_outputs(step, record, scene):
            return await self._unhidable(record, handled.outcome or Outcome(), problem, policy)
        if handled.outcome is None:
            return await self._not_helped(record, handled, policy)
        verified = self._unless_ruined(
            self._verify(step, record, handled.outcome, scene), step, record, handled.outcome, policy
        )
        return _recovered(await verified, handled)

    async def always(self, step: Step, record: StepRecord, policy: Policy) -> Handled | None:
        """After the step, however it ended. None: the driver asked for the end."""
        place = self._place(step, record, policy)
        grace_s = self._job.policy.always_grace_seconds
        state = self._recorder.state
        return await self._handlers.perform(step.always, place, state, self._hooks(record), grace_s)

    async def conclude(self, step: Step, record: StepRecord, outcome: Outcome, scene: Scene) -> Conclusion:
        """What came of the attempt."""
        if self._launches(step) and not _is_folder(scene.cwd):
            words = f"the folder {scene.cwd} that the step ran in is gone or was replaced"
            return self._ruined(step, outcome, words, scene.policy)
        concluded = self._concluded(step, record, outcome, scene)
        return await self._unless_ruined(concluded, step, record, outcome, scene.policy)

    async def _unless_ruined(
        self,
        concluding: Coroutine[Any, Any, Conclusion],
        step: Step,
        record: StepRecord,
        outcome: Outcome,
        policy: Policy,
    ) -> Conclusion:
        """A workspace that cannot be stored fails the attempt, whatever else it came to. And an attempt that failed and
        destroyed the repository of its workspace says nothing about the source, and cannot be repeated there."""
        try:
            conclusion = await concluding
            damage = await self._damage(record) if isinstance(conclusion, Failed) else None
        except (WorkspaceRuined, CheckpointBroken) as error:
            return self._ruined(step, outcome, error.message, policy)
        if isinstance(conclusion, Failed) and damage is not None:
            return self._ruined(step, outcome, f"{damage}: {conclusion.failure.summary}", policy)
        return conclusion

    def _ruined(self, step: Step, outcome: Outcome, words: str, policy: Policy) -> Failed:
        """Without a look at what changed: there is nothing left that could be looked at."""
        from recoup.engine.failing import failure_of

        if step.repeat is Repeat.NEVER and outcome.kind is None and exit_expected(step, outcome):
            # It ended well, so it may have been done, and only what it left is lost.
            outcome = msgspec.structs.replace(outcome, outcome_known=False)
        kind = FailureKind.WORKSPACE_BROKEN
        failure = failure_of(self._world.redactor, outcome, kind, words, _NO_CHANGE, policy)
        return Failed(failure, agent=outcome.agent, seen=outcome.seen)

    async def _damage(self, record: StepRecord) -> str | None:
        workspace = self._workspace_of(record)
        if self._job.workspaces is None or workspace is None:
            return None
        _, before = last_checkpoint(self._recorder.state)
        return await self._job.workspaces.damage(workspace, before)

    async def _concluded(self, step: Step, record: StepRecord, outcome: Outcome, scene: Scene) -> Conclusion:
        """Secret outputs become known first, so that nothing of them is stored."""
        if problem := await self._learn_secret_outputs(step, record, scene):
            return await self._unhidable(record, outcome, problem, scene.policy)
        if _may_be_done(step, outcome):
            conclusion = await self._verify(step, record, outcome, scene)
            if not isinstance(conclusion, Failed):
                return conclusion
        if outcome.kind is not None:
            done = (
                None
                if outcome.outcome_known
                else await self.already_done(step, record, scene.policy, scene.env, outcome)
            )
            return done or await self._by_itself(step, record, outcome, outcome.kind, scene)
        if not exit_expected(step, outcome):
            return await self._by_itself(step, record, outcome, FailureKind.EXIT_NONZERO, scene)
        if step.on_empty:
            collected = await self._world.inspector.collect(step.outputs, scene)
            if is_empty(step, outcome, collected):
                return await self._filled(step, record, scene)
        return await self._verify(step, record, outcome, scene)

    async def _by_itself(
        self, step: Step, record: StepRecord, outcome: Outcome, kind: FailureKind, scene: Scene
    ) -> Failed | Troubled:
        """The command itself failed. On a full disk that is no wonder, and on ours it is no fault of the step."""
        machine = self._world.machine
        words = machine.full(scene.cwd) if machine is not None and kind in _NEEDS_ROOM else None
        if machine is None or words is None:
            return await self._failed(record, outcome, kind, outcome.detail, scene.policy)
        may_repeat = outcome.outcome_known or step.repeat is Repeat.SAFE
        is_ours = machine.is_home_disk(scene.cwd) and self._recorder.state.troubles < TROUBLES_MAX
        if is_ours and may_repeat:
            return Troubled(f"step {step.id} failed, and {words}", outcome.outcome_known)
        return await self._failed(record, outcome, FailureKind.DISK_FULL, words, scene.policy)

    async def _filled(self, step: Step, record: StepRecord, scene: Scene) -> Conclusion:
        """It ended well with nothing to show; its handlers are to make good for that."""
        place = self._place(step, record, scene.policy)
        handled = await self._handlers.perform(
            step.on_empty, place, self._recorder.state, self._hooks(record)
        )
        if handled is None:
            return Interrupted()
        outcome = handled.outcome or Outcome()
        scene = msgspec.structs.replace(scene, outcome=outcome, output_file=place.output_file)
        if problem := await self._learn_secret_outputs(step, record, scene):
            return await self._unhidable(record, outcome, problem, scene.policy)
        if handled.outcome is None:
            # The step itself ended well: one that must not be repeated is not tried again for its handlers' sake.
            return await self._not_helped(record, handled, scene.policy, outcome_known=False)
        return _recovered(await self._verify(step, record, handled.outcome, scene), handled)

    async def _not_helped(
        self, record: StepRecord, handled: Handled, policy: Policy, *, outcome_known: bool = True
    ) -> Failed:
        words = "; ".join(f"handler {result.number}: {result.detail}" for result in handled.results)
        outcome = Outcome(outcome_known=outcome_known)
        failed = await self._failed(record, outcome, FailureKind.POSTCONDITION_FAILED, words, policy)
        failed.handlers = handled.results
        return failed

    async def precheck(
        self, step: Step, workspace: int | None, env: dict[str, str], policy: Policy
    ) -> tuple[CheckResult, ...] | None:
        """The world checks of a step before its first attempt; None when it has none."""
        checks = world_checks(step)
        if not checks:
            return None
        scene = Scene(
            run_id=self._job.run_id,
            cwd=self._cwd(workspace),
            env=env,
            policy=policy,
            check_timeout_s=policy.precheck_s,
            waits=False,
        )
        return (await self._world.inspector.examine(checks, scene, self._lifeline, self._stop)).results

    async def already_done(
        self,
        step: Step,
        record: StepRecord,
        policy: Policy,
        env: dict[str, str],
        outcome: Outcome | None = None,
    ) -> Passed | Interrupted | None:
        """After an unknown outcome: done only if all world checks hold now, one was asked and did not hold before, and
        every output that later steps need is there. `outcome`: Recoup itself ended the attempt, so its output and
        changes are known, and must match `expect` as well."""
        checks = world_checks(step)
        if not checks or not any(check.held is False for check in record.prechecks or ()):
            return None
        scene = self._scene_of_lost(record, policy, env)
        if not _is_folder(scene.cwd):
            return None
        if outcome is not None:
            if any(isinstance(check, ExitCheck) for check in step.expect):
                return None  # it did not exit by itself
            change, _ = await self._change(record)
            scene = msgspec.structs.replace(scene, outcome=outcome, changed_files=change.files)
            checks = list(step.expect)
        await self._kinds.of(step).come_back(step, record)
        examined = await self._world.inspector.examine(checks, scene, self._lifeline, self._stop)
        if self._stop.is_set():
            return Interrupted()
        collected = await self._wanted_outputs(step, scene)
        if not examined.all_held or collected is None:
            return None
        evidence = (await self._put_evidence(record, examined.results, None, policy),)
        return await self._passed(record, Verdict.PASSED, collected, evidence, Outcome(), "already_done")

    async def lost(
        self, step: Step, record: StepRecord, policy: Policy, env: dict[str, str], why: str
    ) -> Conclusion:
        """An attempt whose driver is gone: done all the same, or failed with an unknown outcome."""
        with contextlib.suppress(WorkspaceRuined, CheckpointBroken):  # then nobody can say that it was done
            done = await self.already_done(step, record, policy, env)
            if done:
                return done
        outcome = Outcome(outcome_known=False, detail=why)
        failed = self._failed(record, outcome, FailureKind.DRIVER_LOST, outcome.detail, policy)
        return await self._unless_ruined(failed, step, record, outcome, policy)

    async def not_begun(self, record: StepRecord, why: CannotBegin, policy: Policy) -> Failed:
        """Nothing was done."""
        outcome = Outcome(outcome_known=True, detail=why.reason)
        return await self._failed(record, outcome, why.kind, why.reason, policy)

    async def settled(
        self, step: Step, record: StepRecord, policy: Policy, env: dict[str, str]
    ) -> Passed | None:
        """An operator says that it was done. None: an output that another step needs cannot be had."""
        collected = self._outputs_elsewhere(step, record)
        if collected is None:
            collected = await self._wanted_outputs(step, self._scene_of_lost(record, policy, env))
        if collected is None:
            return None
        how = (record, Verdict.UNVERIFIED, collected, (), Outcome(), "operator")
        try:
            passed = await self._passed(*how)
        except (WorkspaceRuined, CheckpointBroken):
            return Passed(Verdict.UNVERIFIED, outputs=collected, settled_by="operator", files_lost=True)
        if record.verdict is Verdict.INVALIDATED:
            # Other steps have worked in that workspace since: it is not what this step left behind.
            passed.snapshot, passed.change = None, _NO_CHANGE
        else:
            passed.files_lost = passed.snapshot is None and self._workspace_of(record) is not None
        return passed

    def _outputs_elsewhere(self, step: Step, record: StepRecord) -> Collected | None:
        """Of a step that was done in a linked run: what it gave there, if that is all that others need."""
        if record.asks is None or record.attempts > 1:
            return None
        outputs = record.asks.outputs
        is_enough = outputs_wanted(self._job.plan, step) <= outputs.keys()
        return Collected(plain=dict(outputs)) if is_enough else None

    async def _wanted_outputs(self, step: Step, scene: Scene) -> Collected | None:
        collected = await self._world.inspector.collect(step.outputs, scene)
        missing = outputs_wanted(self._job.plan, step) - collected.plain.keys() - collected.secret.keys()
        if collected.problem or missing or self._undeclared(collected):
            return None
        return None if self._register(step, collected) else collected

    def _scene_of_lost(self, record: StepRecord, policy: Policy, env: dict[str, str]) -> Scene:
        """What the attempt printed is gone; what it wrote may be there."""
        attempt = record.open.attempt if record.open else record.attempts
        written = self._job.files.written_output(record.index, attempt)
        return Scene(
            run_id=self._job.run_id,
            cwd=self._cwd(record.open.workspace if record.open else self._recorder.state.workspace_in_use),
            env=env,
            policy=policy,
            output_file=str(written) if written else None,
            check_timeout_s=policy.precheck_s,
            waits=False,
        )

    async def _verify(self, step: Step, record: StepRecord, outcome: Outcome, scene: Scene) -> Conclusion:
        checks = [check for check in step.expect if not isinstance(check, ExitCheck)]
        if any(isinstance(check, DiffCheck) for check in checks):
            change, _ = await self._change(record)
            scene = msgspec.structs.replace(scene, changed_files=change.files)
        results: tuple[CheckResult, ...] = ()
        if checks:
            results = (await self._world.inspector.examine(checks, scene, self._lifeline, self._stop)).results
        if self._stop.is_set():
            return Interrupted()
        evidence = (await self._put_evidence(record, results, outcome, scene.policy),) if step.expect else ()
        broken = [result for result in results if not result.held]
        if broken:
            words = "; ".join(f"{result.check}: {result.detail}" for result in broken)
            if step.repeat is Repeat.NEVER:
                # It ended well, so it may have been done, and only its traces are missing.
                outcome = msgspec.structs.replace(outcome, outcome_known=False)
            return await self._failed(
                record, outcome, FailureKind.POSTCONDITION_FAILED, words, scene.policy, evidence
            )
        return await self._with_outputs(step, record, outcome, scene, evidence)

    async def _with_outputs(
        self, step: Step, record: StepRecord, outcome: Outcome, scene: Scene, evidence: tuple[str, ...]
    ) -> Conclusion:
        collected = Collected()
        if step.outputs or scene.output_file:
            collected = await self._world.inspector.collect(step.outputs, scene)
        problem, kind = collected.problem, FailureKind.OUTPUT_INVALID
        if problem is None:
            problem, kind = self._undeclared(collected), FailureKind.SECRET_UNDECLARED
        if problem is not None:
            return await self._failed(record, outcome, kind, problem, scene.policy, evidence)
        verdict = Verdict.PASSED if step.expect else Verdict.UNVERIFIED
        return await self._passed(record, verdict, collected, evidence, outcome, "outcome")

    async def _learn_secret_outputs(self, step: Step, record: StepRecord, scene: Scene) -> str | None:
        """Each by itself: one that is missing must not hide another. Why one cannot be hidden, in words."""
        found, problem = False, None
        for name, spec in step.outputs.items():
            if spec.secret:
                collected = await self._world.inspector.collect({name: spec}, scene)
                found |= bool(collected.secret)
                problem = problem or self._register(step, collected) or _unknown(name, collected)
        if problem is not None:
            self._job.files.withhold_log(
                record.index, self._world.redactor.redact(f"[withheld: {problem}]\n")
            )
        elif found:
            self._job.files.redact_log(record.index, self._world.redactor)
        return problem

    def _register(self, step: Step, collected: Collected) -> str | None:
        """Why a secret output cannot be hidden, in words. One that is too short is not: it could not be told from
        other text."""
        for name, value in collected.secret.items():
            try:
                self._job.redactor.register_unless_short(f"steps.{step.id}.outputs.{name}", value)
            except ValueError as error:
                return f"the secret output {name} cannot be kept out of the records: {error}"
        return None

    async def _unhidable(self, record: StepRecord, outcome: Outcome, problem: str, policy: Policy) -> Failed:
        """Nothing is stored of what the attempt printed or showed."""
        nothing_said = Outcome(exit_code=outcome.exit_code, duration_ms=outcome.duration_ms)
        return await self._failed(record, nothing_said, FailureKind.OUTPUT_INVALID, problem, policy)

    async def _passed(
        self,
        record: StepRecord,
        verdict: Verdict,
        collected: Collected,
        evidence: tuple[str, ...],
        outcome: Outcome,
        settled_by: str,
    ) -> Passed:
        change, snapshot = await self._change(record)
        evidence += await stored_artifacts(self._world, outcome.artifacts, self._job.policy)
        if record.open is None or record.open.phase != "rebuild":
            step = self._job.plan.steps[record.index]
            await self._kinds.of(step).keep(step, outcome)
        return Passed(
            verdict=verdict,
            duration_ms=outcome.duration_ms,
            exit_code=outcome.exit_code,
            outputs=collected,
            evidence=evidence,
            change=change,
            snapshot=snapshot,
            secrets_found=await self._secrets_in(record.pre_state, snapshot) if change.hash else (),
            settled_by=settled_by,
            agent=outcome.agent,
            seen=outcome.seen,
        )

    async def _failed(
        self,
        record: StepRecord,
        outcome: Outcome,
        kind: FailureKind,
        detail: str,
        policy: Policy,
        evidence: tuple[str, ...] = (),
    ) -> Failed:
        from recoup.engine.failing import failure_of  # 20 ms that a run without failures is spared

        change, _ = await self._change(record)
        failure = failure_of(self._world.redactor, outcome, kind, detail, change, policy)
        evidence += await stored_artifacts(self._world, outcome.artifacts, policy)
        return Failed(failure, evidence, change, outcome.agent, seen=outcome.seen)

    async def _change(self, record: StepRecord) -> tuple[Change, Snapshot | None]:
        workspace = self._workspace_of(record)
        if self._job.workspaces is None or workspace is None or record.pre_state is None:
            return _NO_CHANGE, None
        if not _is_folder(str(self._job.workspaces.path(workspace))):
            return _NO_CHANGE, None
        snapshot = await self._job.workspaces.snapshot(workspace)
        return await self._job.workspaces.change(record.pre_state, snapshot.tree), snapshot

    def _workspace_of(self, record: StepRecord) -> int | None:
        return record.open.workspace if record.open else self._recorder.state.workspace_in_use

    async def kept(self, record: StepRecord) -> Kept | None:
        """Of the workspace in which work goes on, after handlers of a step that is done."""
        workspace = self._recorder.state.workspace_in_use
        if self._job.workspaces is None or workspace is None or not _is_folder(self._cwd(workspace)):
            return None
        snapshot = await self._job.workspaces.snapshot(workspace)
        before = record.checkpoint.tree if record.checkpoint else record.pre_state
        changed = before is not None and before != snapshot.tree
        return Kept(snapshot, await self._secrets_in(before, snapshot) if changed else ())

    async def _secrets_in(
        self, before: str | None, snapshot: Snapshot | None
    ) -> tuple[tuple[str, tuple[str, ...]], ...]:
        assert self._job.workspaces is not None and snapshot is not None and before is not None
        contents = await self._job.workspaces.changed_contents(before, snapshot.tree, _SECRET_SEARCH_BYTES)
        found = [
            (path, self._world.redactor.found_in(path.encode() + b"\n" + data)) for path, data in contents
        ]
        return tuple((path, names) for path, names in found if names)

    def _undeclared(self, collected: Collected) -> str | None:
        """An output that holds a registered secret and is not declared secret, or has a name that no record can show,
        in words; None when there is none."""
        for name, value in collected.plain.items():
            if self._world.redactor.masked_in(name):
                return "the name of an output looks like a secret and would be masked in records: rename the output"
            held = self._world.redactor.found_in(msgspec.json.encode(value))
            if held or self._world.redactor.found_in(str(value).encode()):
                return (
                    f"output {name} holds the secret {', '.join(held) or 'value'}: declare it `secret: true`"
                )
        return None

    async def _put_evidence(
        self, record: StepRecord, results: tuple[CheckResult, ...], outcome: Outcome | None, policy: Policy
    ) -> str:
        document: dict[str, Any] = {
            "runId": self._job.run_id,
            "stepId": record.step_id,
            "attempt": record.open.attempt if record.open else record.attempts,
            "checks": msgspec.to_builtins(results),
        }
        if outcome is not None:
            document |= {
                "exitCode": outcome.exit_code,
                "durationMs": outcome.duration_ms,
                "stdoutEnd": end_of(self._world.redactor, outcome.stdout, _EVIDENCE_END_BYTES),
                "stderrEnd": end_of(self._world.redactor, outcome.stderr, _EVIDENCE_END_BYTES),
            }
        return await self._world.evidence.put(self._world.redactor.seal(document), policy.evidence_bytes_max)

    def _place(self, step: Step, record: StepRecord, policy: Policy) -> Place:
        """Where the open attempt runs, with the files it is given."""
        assert record.open is not None, f"step {step.id}: no attempt is open"
        attempt, files = record.open.attempt, {}
        if self._launches(step):
            files["RECOUP_OUTPUT"] = str(self._job.files.output_path(record.index, attempt))
            if record.failure_summary is not None:
                files["RECOUP_RETRY_CONTEXT"] = str(self._write_retry_context(step, record, attempt))
        return Place(step, record.index, attempt, self._cwd(record.open.workspace), files, policy)

    def _write_retry_context(self, step: Step, record: StepRecord, attempt: int) -> Path:
        """For people redacted. The step gets the plan's own words: where redaction changes those, in a private file."""
        files, context = self._job.files, retry_context(self._job.plan, step, record, attempt)
        redacted = self._world.redactor.seal(context)
        shown, original = (
            files.write_retry_context(record.index, attempt, redacted),
            msgspec.json.encode(context),
        )
        if redacted.data == original:
            return shown
        return files.write_private_retry_context(record.index, attempt, original)

    def _hooks(self, record: StepRecord) -> StepHooks:
        assert record.open is not None
        about = (record.step_id, record.index, record.open.attempt)
        once = self._job.plan.steps[record.index].repeat is Repeat.NEVER
        return StepHooks(self._lifeline, self._stop, self._recorder, *about, self._job, self._world, once)

    def _retry_context(self, step: Step, record: StepRecord, attempt: int) -> dict[str, Any] | None:
        if record.failure_summary is None or not isinstance(step.action, AgentAction):
            return None
        context: dict[str, Any] = msgspec.to_builtins(retry_context(self._job.plan, step, record, attempt))
        return context

    def _launches(self, step: Step) -> bool:
        return not self._world.runtimes[kind_of(step.action)].inline

    def folder(self) -> str:
        """Where work goes on."""
        return self._cwd(self._recorder.state.workspace_in_use)

    def has_folder(self) -> bool:
        return _is_folder(self.folder())

    def _cwd(self, workspace: int | None) -> str:
        if self._job.workspaces is None or workspace is None:
            return self._folder
        return str(self._job.workspaces.path(workspace))


def _unknown(name: str, collected: Collected) -> str | None:
    """Why nobody can hide a secret output, in words: it is there, but cannot be read."""
    if not collected.too_large:
        return None
    return f"the secret output {name} cannot be kept out of the records: {collected.problem}"


def world_checks(step: Step) -> list[Check]:
    return [check for check in step.expect if isinstance(check, WORLD_CHECKS)]


_EVIDENCE = (*WORLD_CHECKS, DiffCheck)
"""Checks of what was done, not of what was said."""


def _may_be_done(step: Step, outcome: Outcome) -> bool:
    """A step is done when its postconditions hold: an agent that was denied a tool may have found another way, and one
    that did not say how it ended may have done its work."""
    if outcome.kind is FailureKind.TOOL_DENIED:
        return bool(step.expect)
    silent = outcome.kind is FailureKind.AGENT_ERROR and (outcome.agent_event or "").endswith(":no_result")
    return silent and outcome.exit_code == 0 and any(isinstance(check, _EVIDENCE) for check in step.expect)


def _scene(place: Place, env: dict[str, str], outcome: Outcome) -> Scene:
    return Scene(
        run_id=env["RECOUP_RUN_ID"],
        cwd=place.cwd,
        env=env,
        policy=place.policy,
        outcome=outcome,
        output_file=place.output_file,
        check_timeout_s=place.policy.check_s,
    )


def _recovered(conclusion: Conclusion, handled: Handled) -> Conclusion:
    if isinstance(conclusion, Passed):
        conclusion.verdict = Verdict.RECOVERED
    if isinstance(conclusion, Passed | Failed):
        conclusion.handlers = handled.results
    return conclusion


def _is_folder(path: str) -> bool:
    """A real one: a link in the place of a workspace would lead git and checks elsewhere."""
    return Path(path).is_dir() and not Path(path).is_symlink()
