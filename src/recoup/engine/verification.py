"""What an attempt came to, from its outcome and from what it left: checks are asked, and the proof is stored."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from recoup.checks.registry import check_kind
from recoup.engine.artifacts import stored_artifacts
from recoup.engine.conclusion import NO_CHANGE, Conclusion, Failed, Interrupted, Passed, Troubled
from recoup.engine.driven_run import DrivenRun
from recoup.engine.excerpts import end_of
from recoup.engine.handlers import checks_to_examine, exit_expected
from recoup.engine.outputs import Outputs
from recoup.engine.work_folder import WorkFolder
from recoup.errors import CheckpointBroken, WorkspaceRuined
from recoup.model.events import CheckResult
from recoup.model.failure import FailureKind
from recoup.model.outcome import Collected, Examined, Outcome, Scene
from recoup.model.plan import Check, Repeat, Step
from recoup.model.policy import Policy
from recoup.model.run import StepRecord, Verdict

_EVIDENCE_END_BYTES = 2048
_NEEDS_ROOM = frozenset(
    {FailureKind.EXIT_NONZERO, FailureKind.SIGNALLED, FailureKind.EXCEPTION, FailureKind.AGENT_ERROR}
)
"""How a command fails that could not write what it had to."""
TROUBLES_MAX = 3
"""Number of interruptions by trouble of the machine, without a step that passed between them, that cost a run nothing.
After that it pays for them like for other failures: it may itself be what fills the disk."""


class Verification:
    """Of the attempts of one driven run."""

    def __init__(self, run: DrivenRun, folder: WorkFolder, outputs: Outputs) -> None:
        self._run = run
        self._folder = folder
        self._outputs = outputs

    async def examine(self, checks: Sequence[Check], scene: Scene) -> Examined:
        run = self._run
        return await run.world.inspector.examine(checks, scene, run.lifeline, run.stop)

    async def verify(self, step: Step, record: StepRecord, outcome: Outcome, scene: Scene) -> Conclusion:
        """It ended well: what the step expects must hold, and its outputs must be there."""
        checks = checks_to_examine(step)
        if any(check_kind(check).needs_changes for check in checks):
            change, _ = await self._folder.change(record)
            scene = msgspec.structs.replace(scene, changed_files=change.files)
        results: tuple[CheckResult, ...] = ()
        if checks:
            results = (await self.examine(checks, scene)).results
        if self._run.stop.is_set():
            return Interrupted()
        evidence = (await self.proof(record, results, outcome, scene.policy),) if step.expect else ()
        broken = [result for result in results if not result.held]
        if broken:
            words = "; ".join(f"{result.check}: {result.detail}" for result in broken)
            if step.repeat is Repeat.NEVER:
                # It ended well, so it may have been done, and only its traces are missing.
                outcome = msgspec.structs.replace(outcome, outcome_known=False)
            return await self.failed(
                record, outcome, FailureKind.POSTCONDITION_FAILED, words, scene.policy, evidence
            )
        return await self._with_outputs(step, record, outcome, scene, evidence)

    async def _with_outputs(
        self, step: Step, record: StepRecord, outcome: Outcome, scene: Scene, evidence: tuple[str, ...]
    ) -> Conclusion:
        collected = Collected()
        if step.outputs or scene.output_file:
            collected = await self._outputs.collect(step, scene)
        problem, kind = collected.problem, FailureKind.OUTPUT_INVALID
        if problem is None:
            problem, kind = self._outputs.undeclared(collected), FailureKind.SECRET_UNDECLARED
        if problem is not None:
            return await self.failed(record, outcome, kind, problem, scene.policy, evidence)
        verdict = Verdict.PASSED if step.expect else Verdict.UNVERIFIED
        return await self.passed(record, verdict, collected, evidence, outcome, "outcome")

    async def passed(
        self,
        record: StepRecord,
        verdict: Verdict,
        collected: Collected,
        evidence: tuple[str, ...],
        outcome: Outcome,
        settled_by: str,
    ) -> Passed:
        change, snapshot = await self._folder.change(record)
        evidence += await self._artifacts(outcome, self._run.job.policy)
        if record.open is None or record.open.phase != "rebuild":
            step = self._run.job.plan.steps[record.index]
            await self._run.kinds.of(step).keep(step, outcome)
        secrets = await self._folder.secrets_in(record.beginning.pre_state, snapshot) if change.hash else ()
        return Passed(
            verdict=verdict,
            duration_ms=outcome.duration_ms,
            exit_code=outcome.exit_code,
            outputs=collected,
            evidence=evidence,
            change=change,
            snapshot=snapshot,
            secrets_found=secrets,
            settled_by=settled_by,
            agent=outcome.agent,
            seen=outcome.seen,
        )

    async def failed(
        self,
        record: StepRecord,
        outcome: Outcome,
        kind: FailureKind,
        detail: str,
        policy: Policy,
        evidence: tuple[str, ...] = (),
    ) -> Failed:
        from recoup.engine.failing import failure_of  # 20 ms that a run without failures is spared

        change, _ = await self._folder.change(record)
        failure = failure_of(self._run.world.redactor, outcome, kind, detail, change, policy)
        evidence += await self._artifacts(outcome, policy)
        return Failed(failure, evidence, change, outcome.agent, seen=outcome.seen)

    async def failed_by_itself(
        self, step: Step, record: StepRecord, outcome: Outcome, kind: FailureKind, scene: Scene
    ) -> Failed | Troubled:
        """The command itself failed. On a full disk that is no wonder, and on ours it is no fault of the step."""
        machine = self._run.world.machine
        words = machine.full(scene.cwd) if machine is not None and kind in _NEEDS_ROOM else None
        if machine is None or words is None:
            return await self.failed(record, outcome, kind, outcome.detail, scene.policy)
        may_repeat = outcome.outcome_known or step.repeat is Repeat.SAFE
        is_ours = machine.is_home_disk(scene.cwd) and self._run.state.driver.troubles < TROUBLES_MAX
        if is_ours and may_repeat:
            return Troubled(f"step {step.id} failed, and {words}", outcome.outcome_known)
        return await self.failed(record, outcome, FailureKind.DISK_FULL, words, scene.policy)

    async def unhidable(self, record: StepRecord, outcome: Outcome, problem: str, policy: Policy) -> Failed:
        """A secret output cannot be hidden: nothing is stored of what the attempt printed or showed."""
        nothing_said = Outcome(exit_code=outcome.exit_code, duration_ms=outcome.duration_ms)
        return await self.failed(record, nothing_said, FailureKind.OUTPUT_INVALID, problem, policy)

    async def unless_ruined(
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
            damage = await self._folder.damage(record) if isinstance(conclusion, Failed) else None
        except (WorkspaceRuined, CheckpointBroken) as error:
            return self.ruined(step, outcome, error.message, policy)
        if isinstance(conclusion, Failed) and damage is not None:
            return self.ruined(step, outcome, f"{damage}: {conclusion.failure.summary}", policy)
        return conclusion

    def ruined(self, step: Step, outcome: Outcome, words: str, policy: Policy) -> Failed:
        """Without a look at what changed: there is nothing left that could be looked at."""
        from recoup.engine.failing import failure_of

        if step.repeat is Repeat.NEVER and outcome.kind is None and exit_expected(step, outcome):
            # It ended well, so it may have been done, and only what it left is lost.
            outcome = msgspec.structs.replace(outcome, outcome_known=False)
        kind = FailureKind.WORKSPACE_BROKEN
        failure = failure_of(self._run.world.redactor, outcome, kind, words, NO_CHANGE, policy)
        return Failed(failure, agent=outcome.agent, seen=outcome.seen)

    async def proof(
        self, record: StepRecord, results: tuple[CheckResult, ...], outcome: Outcome | None, policy: Policy
    ) -> str:
        """The handle of what was asked and answered."""
        redactor = self._run.world.redactor
        document: dict[str, Any] = {
            "runId": self._run.job.run_id,
            "stepId": record.step_id,
            "attempt": record.open.attempt if record.open else record.spent.attempts,
            "checks": msgspec.to_builtins(results),
        }
        if outcome is not None:
            document |= {
                "exitCode": outcome.exit_code,
                "durationMs": outcome.duration_ms,
                "stdoutEnd": end_of(redactor, outcome.stdout, _EVIDENCE_END_BYTES),
                "stderrEnd": end_of(redactor, outcome.stderr, _EVIDENCE_END_BYTES),
            }
        return await self._run.world.evidence.put(redactor.seal(document), policy.evidence_bytes_max)

    async def _artifacts(self, outcome: Outcome, policy: Policy) -> tuple[str, ...]:
        return await stored_artifacts(self._run.world, outcome.artifacts, policy)
