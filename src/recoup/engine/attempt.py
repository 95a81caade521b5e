"""One attempt: order, perform, look, conclude. No decision about what follows is taken here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from recoup.checks.registry import check_kind
from recoup.engine.arguments import Arguments, environment_of
from recoup.engine.attempt_hooks import AttemptHooks
from recoup.engine.conclusion import ApprovalRefuted, Conclusion, Failed, Interrupted, Passed
from recoup.engine.driven_run import DrivenRun
from recoup.engine.handlers import Handled, Handlers, Place, exit_expected, is_empty
from recoup.engine.outputs import Outputs
from recoup.engine.papers import retry_context
from recoup.engine.unknown_outcome import UnknownOutcomes
from recoup.engine.verification import Verification
from recoup.engine.witness import witness
from recoup.engine.work_folder import WorkFolder, is_folder
from recoup.model.failure import FailureKind
from recoup.model.outcome import Order, Outcome, Scene
from recoup.model.plan import Handler, Repeat, Step, kind_of, resumes_session
from recoup.model.policy import Policy
from recoup.model.run import StepRecord, Verdict
from recoup.steps.hooks import CannotBegin


class Attempts:
    """Performs attempts of one run's steps."""

    def __init__(self, run: DrivenRun, folder: WorkFolder) -> None:
        self._run = run
        self._folder = folder
        self._outputs = Outputs(run)
        self._verification = Verification(run, folder, self._outputs)
        self.unknown = UnknownOutcomes(run, folder, self._outputs, self._verification)
        self._handlers = Handlers(run)

    async def perform(
        self, step: Step, record: StepRecord, arguments: Arguments, policy: Policy
    ) -> Conclusion:
        run, step = self._run, arguments.of(step)
        place, context = self._place(step, record, policy)
        env = self._env(step, arguments, place)
        order = msgspec.structs.replace(
            place.order(run.job, arguments, env, policy),
            has_own_timeout=step.limits.timeout_s is not None,
            title=step.title,
            retry_context=context,
            session_id=record.agent.session_id,
        )
        kind = run.kinds.of(step)
        order = await kind.order(order, step, record, hides=arguments.hides)
        if step.repeat is Repeat.NEVER and not run.launches(step):
            await witness(run.world, run.recorder.lease)
        outcome = kind.explained(step, await self._performed(order, record))
        if outcome.interrupted:
            return Interrupted()
        if outcome.refuted:
            return ApprovalRefuted(outcome.refuted)
        return await self._conclude(step, record, outcome, place.scene(run.job, arguments, env, outcome))

    async def _performed(self, order: Order, record: StepRecord) -> Outcome:
        hooks = AttemptHooks(self._run, record, resumes=resumes_session(order.action))
        try:
            return await self._run.world.runtimes[kind_of(order.action)].perform(order, hooks)
        finally:
            await hooks.recorded()

    async def not_begun(self, record: StepRecord, why: CannotBegin, policy: Policy) -> Failed:
        """Nothing was done."""
        outcome = Outcome(outcome_known=True, detail=why.reason)
        return await self._verification.failed(record, outcome, why.kind, why.reason, policy)

    async def rescue(
        self, step: Step, record: StepRecord, arguments: Arguments, policy: Policy
    ) -> Conclusion:
        """Every attempt has failed. The step is recovered if one of its handlers passes and what it expects holds."""
        step = arguments.of(step)
        place, _ = self._place(step, record, policy)
        handled = await self._handled(step.rescue, place, record)
        if handled is None:
            return Interrupted()
        outcome = handled.outcome or Outcome()
        scene = place.scene(self._run.job, arguments, self._env(step, arguments, place), outcome)
        if failed := await self._not_recovered(step, record, handled, scene):
            return failed
        verified = self._verification.verify(step, record, outcome, scene)
        whole = self._verification.unless_ruined(verified, step, record, outcome, policy)
        return _recovered(await whole, handled)

    async def always(self, step: Step, record: StepRecord, policy: Policy) -> Handled | None:
        """After the step, however it ended. None: the driver asked for the end."""
        place, _ = self._place(step, record, policy)
        grace_s = self._run.job.policy.always_grace_seconds
        hooks = AttemptHooks(self._run, record)
        return await self._handlers.perform(step.always, place, hooks, grace_s)

    async def _handled(
        self, handlers: tuple[Handler, ...], place: Place, record: StepRecord
    ) -> Handled | None:
        return await self._handlers.perform(handlers, place, AttemptHooks(self._run, record))

    async def _conclude(self, step: Step, record: StepRecord, outcome: Outcome, scene: Scene) -> Conclusion:
        """What came of the attempt."""
        if self._run.launches(step) and not is_folder(scene.cwd):
            words = f"the folder {scene.cwd} that the step ran in is gone or was replaced"
            return self._verification.ruined(step, outcome, words, scene.policy)
        concluded = self._concluded(step, record, outcome, scene)
        return await self._verification.unless_ruined(concluded, step, record, outcome, scene.policy)

    async def _concluded(self, step: Step, record: StepRecord, outcome: Outcome, scene: Scene) -> Conclusion:
        """Secret outputs become known first, so that nothing of them is stored."""
        verification = self._verification
        if problem := await self._outputs.hide_secrets(step, record, scene):
            return await verification.unhidable(record, outcome, problem, scene.policy)
        if _may_be_done(step, outcome):
            conclusion = await verification.verify(step, record, outcome, scene)
            if not isinstance(conclusion, Failed):
                return conclusion
        if outcome.kind is not None:
            about = (step, record, scene.policy, scene.env, outcome)
            done = None if outcome.outcome_known else await self.unknown.already_done(*about)
            return done or await verification.failed_by_itself(step, record, outcome, outcome.kind, scene)
        if not exit_expected(step, outcome):
            kind = FailureKind.EXIT_NONZERO
            return await verification.failed_by_itself(step, record, outcome, kind, scene)
        if step.on_empty and is_empty(step, outcome, await self._outputs.collect(step, scene)):
            return await self._filled(step, record, scene)
        return await verification.verify(step, record, outcome, scene)

    async def _filled(self, step: Step, record: StepRecord, scene: Scene) -> Conclusion:
        """It ended well with nothing to show; its handlers are to make good for that."""
        place, _ = self._place(step, record, scene.policy)
        handled = await self._handled(step.on_empty, place, record)
        if handled is None:
            return Interrupted()
        outcome = handled.outcome or Outcome()
        scene = msgspec.structs.replace(scene, outcome=outcome, output_file=place.output_file)
        # The step itself ended well: one that must not be repeated is not tried again for its handlers' sake.
        if failed := await self._not_recovered(step, record, handled, scene, outcome_known=False):
            return failed
        return _recovered(await self._verification.verify(step, record, outcome, scene), handled)

    async def _not_recovered(
        self, step: Step, record: StepRecord, handled: Handled, scene: Scene, *, outcome_known: bool = True
    ) -> Failed | None:
        """None of the handlers passed, or one left a secret that cannot be hidden. `outcome_known`: of the step."""
        verification = self._verification
        if problem := await self._outputs.hide_secrets(step, record, scene):
            outcome = handled.outcome or Outcome()
            return await verification.unhidable(record, outcome, problem, scene.policy)
        if handled.outcome is not None:
            return None
        words = "; ".join(f"handler {result.number}: {result.detail}" for result in handled.results)
        about = (record, Outcome(outcome_known=outcome_known), FailureKind.POSTCONDITION_FAILED, words)
        failed = await verification.failed(*about, scene.policy)
        return msgspec.structs.replace(failed, handlers=handled.results)

    def _env(self, step: Step, arguments: Arguments, place: Place) -> dict[str, str]:
        return environment_of(self._run.world, self._run.job, step, arguments, place.attempt, place.files)

    def _place(self, step: Step, record: StepRecord, policy: Policy) -> tuple[Place, dict[str, Any] | None]:
        """Where the open attempt runs, with the files it is given; and what a retry is told."""
        assert record.open is not None, f"step {step.id}: no attempt is open"
        attempt, files, context = record.open.attempt, dict[str, str](), None
        if record.failure.summary is not None:
            context = msgspec.to_builtins(retry_context(self._run.job.plan, step, record, attempt))
        if self._run.launches(step):
            files["RECOUP_OUTPUT"] = str(self._run.job.files.output_path(record.index, attempt))
            if context is not None:
                files["RECOUP_RETRY_CONTEXT"] = str(self._write(context, record.index, attempt))
        cwd = self._folder.path(record.open.workspace)
        return Place(step, record.index, attempt, cwd, files, policy), context

    def _write(self, context: dict[str, Any], index: int, attempt: int) -> Path:
        """For people redacted. The step gets the plan's own words: where redaction changes those, in a private file."""
        files, redacted = self._run.job.files, self._run.world.redactor.seal(context)
        shown, original = files.write_retry_context(index, attempt, redacted), msgspec.json.encode(context)
        if redacted.data == original:
            return shown
        return files.write_private_retry_context(index, attempt, original)


def _recovered(conclusion: Conclusion, handled: Handled) -> Conclusion:
    if isinstance(conclusion, Passed):
        return msgspec.structs.replace(conclusion, verdict=Verdict.RECOVERED, handlers=handled.results)
    if isinstance(conclusion, Failed):
        return msgspec.structs.replace(conclusion, handlers=handled.results)
    return conclusion


def _may_be_done(step: Step, outcome: Outcome) -> bool:
    """A step is done when its postconditions hold: an agent that was denied a tool may have found another way, and one
    that did not say how it ended may have done its work."""
    if outcome.kind is FailureKind.TOOL_DENIED:
        return bool(step.expect)
    silent = outcome.kind is FailureKind.AGENT_ERROR and (outcome.agent_event or "").endswith(":no_result")
    return (
        silent
        and outcome.exit_code == 0
        and any(check_kind(check).proves_work(check) for check in step.expect)
    )
