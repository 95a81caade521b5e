"""Attempts of which nobody knows how they ended: the world is asked whether the step was done all the same."""

from __future__ import annotations

import contextlib

import msgspec

from recoup.engine.conclusion import NO_CHANGE, Conclusion, Interrupted, Passed
from recoup.engine.driven_run import DrivenRun
from recoup.engine.handlers import exit_codes
from recoup.engine.outputs import Outputs
from recoup.engine.verification import Verification
from recoup.engine.work_folder import WorkFolder, is_folder
from recoup.errors import CheckpointBroken, WorkspaceRuined
from recoup.model.events import CheckResult
from recoup.model.failure import FailureKind
from recoup.model.outcome import Outcome, Scene
from recoup.model.plan import Check, Step
from recoup.model.policy import Policy
from recoup.model.run import StepRecord, Verdict


class UnknownOutcomes:
    """Of the attempts of one driven run."""

    def __init__(
        self, run: DrivenRun, folder: WorkFolder, outputs: Outputs, verification: Verification
    ) -> None:
        self._run = run
        self._folder = folder
        self._outputs = outputs
        self._verification = verification

    async def precheck(
        self, step: Step, workspace: int | None, env: dict[str, str], policy: Policy
    ) -> tuple[CheckResult, ...] | None:
        """The world checks of a step before its first attempt; None when it has none."""
        checks = world_checks(step)
        if not checks:
            return None
        scene = Scene(
            run_id=self._run.job.run_id,
            cwd=self._folder.path(workspace),
            env=env,
            policy=policy,
            check_timeout_s=policy.precheck_s,
            waits=False,
        )
        return (await self._verification.examine(checks, scene)).results

    async def lost(
        self, step: Step, record: StepRecord, policy: Policy, env: dict[str, str], why: str
    ) -> Conclusion:
        """An attempt whose driver is gone: done all the same, or failed with an unknown outcome."""
        with contextlib.suppress(WorkspaceRuined, CheckpointBroken):  # then nobody can say that it was done
            done = await self.already_done(step, record, policy, env)
            if done:
                return done
        outcome = Outcome(outcome_known=False, detail=why)
        failed = self._verification.failed(record, outcome, FailureKind.DRIVER_LOST, outcome.detail, policy)
        return await self._verification.unless_ruined(failed, step, record, outcome, policy)

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
        if not checks or not any(check.held is False for check in record.beginning.prechecks or ()):
            return None
        scene = self._scene(record, policy, env)
        if not is_folder(scene.cwd):
            return None
        if outcome is not None:
            if any(map(exit_codes, step.expect)):
                return None  # it did not exit by itself
            change, _ = await self._folder.change(record)
            scene = msgspec.structs.replace(scene, outcome=outcome, changed_files=change.files)
            checks = list(step.expect)
        await self._run.kinds.of(step).come_back(step, record)
        examined = await self._verification.examine(checks, scene)
        if self._run.stop.is_set():
            return Interrupted()
        collected = await self._outputs.all_wanted(step, scene)
        if not examined.all_held or collected is None:
            return None
        evidence = (await self._verification.proof(record, examined.results, None, policy),)
        seen = await self._run.kinds.of(step).seen_by_checks(step)
        how = (record, Verdict.PASSED, collected, evidence, Outcome(seen=seen), "already_done")
        return await self._verification.passed(*how)

    async def settled(
        self, step: Step, record: StepRecord, policy: Policy, env: dict[str, str]
    ) -> Passed | None:
        """An operator says that it was done. None: an output that another step needs cannot be had."""
        collected = self._outputs.given_elsewhere(step, record)
        if collected is None:
            collected = await self._outputs.all_wanted(step, self._scene(record, policy, env))
        if collected is None:
            return None
        how = (record, Verdict.UNVERIFIED, collected, (), Outcome(), "operator")
        try:
            passed = await self._verification.passed(*how)
        except (WorkspaceRuined, CheckpointBroken):
            return Passed(Verdict.UNVERIFIED, outputs=collected, settled_by="operator", files_lost=True)
        if record.verdict is Verdict.INVALIDATED:
            # Other steps have worked in that workspace since: it is not what this step left behind.
            return msgspec.structs.replace(passed, snapshot=None, change=NO_CHANGE)
        files_lost = passed.snapshot is None and self._folder.workspace_of(record) is not None
        return msgspec.structs.replace(passed, files_lost=files_lost)

    def _scene(self, record: StepRecord, policy: Policy, env: dict[str, str]) -> Scene:
        """What the attempt printed is gone; what it wrote may be there."""
        attempt = record.open.attempt if record.open else record.spent.attempts
        written = self._run.job.files.written_output(record.index, attempt)
        return Scene(
            run_id=self._run.job.run_id,
            cwd=self._folder.path(self._folder.workspace_of(record)),
            env=env,
            policy=policy,
            output_file=str(written) if written else None,
            check_timeout_s=policy.precheck_s,
            waits=False,
        )


def world_checks(step: Step) -> list[Check]:
    return [check for check in step.expect if check.asks_world]
