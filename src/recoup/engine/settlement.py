"""What follows from how an attempt ended: the kernel decides, and it is recorded in one transaction."""

from __future__ import annotations

import msgspec

from recoup.engine.conclusion import ApprovalRefuted, Failed, Passed, Troubled
from recoup.engine.desk import Desk
from recoup.engine.facts import (
    failed_facts,
    failed_results,
    not_concluded,
    passed_facts,
    passed_result,
)
from recoup.engine.passing import write_papers
from recoup.engine.shared_commits import SharedCommits
from recoup.errors import MachineTrouble
from recoup.kernel.decide import decide
from recoup.kernel.step_state import step_state, tokens_left
from recoup.model import events as ev
from recoup.model.decision import Escalate, GiveUp
from recoup.model.failure import Failure, FailureKind
from recoup.model.plan import Step
from recoup.model.policy import Policy
from recoup.model.run import StepRecord, StepState

_ENDS = (ev.RunFailed, ev.RunDeadLettered, ev.Escalated)


class Settlement:
    """Records what attempts of one run came to, and what follows."""

    def __init__(self, desk: Desk, shared: SharedCommits) -> None:
        self._desk = desk
        self._shared = shared

    async def settle(
        self, step: Step, record: StepRecord, conclusion: Passed | Failed | Troubled | ApprovalRefuted
    ) -> None:
        """Raises MachineTrouble, after the attempt was recorded."""
        match conclusion:
            case Passed():
                await self._pass(step, record, conclusion)
            case Failed():
                await self._fail(step, record, conclusion)
            case Troubled():
                await self._stop_in_trouble(record, conclusion)
            case ApprovalRefuted():
                about = (record, FailureKind.RUNTIME_DRIFT, conclusion.words)
                spared = not_concluded(*about, not_begun=False, spared=True, outcome_known=True)
                await self._desk.recorder.record(spared)

    async def _pass(self, step: Step, record: StepRecord, passed: Passed) -> None:
        desk = self._desk
        passed = await write_papers(desk, step, record, passed)
        attempt = record.open.attempt if record.open else record.spent.attempts
        on_trial = desk.state.workspaces.trial is not None
        facts = passed_facts(desk, step, record, passed, "rescue" if passed.handlers else "main")
        success = self._shared.success(step, record, facts)
        hooks = desk.kinds.of(step)
        shown = hooks.passed(step, record, passed.seen, passed.evidence, passed.verdict)
        await desk.recorder.record(
            *(*facts, *shown.facts, *success),
            results=[passed_result(desk, step, record)],
            beside=shown.beside,
            tail=self._shared.next_start(record, passed),
            release=bool(success),
        )
        hooks.recorded(shown)
        if desk.outside(step):
            desk.job.files.forget_output(record.index, attempt)
        if on_trial:
            assert desk.job.workspaces is not None and desk.state.workspaces.current is not None
            await desk.job.workspaces.swap(desk.state.workspaces.current, desk.job.policy.workspaces_kept)

    async def _fail(self, step: Step, record: StepRecord, failed: Failed) -> None:
        desk, policy, now = self._desk, self._desk.policy(step), self._desk.now()
        state = await self._step_state(record, failed.failure, policy)
        decision = decide(state, failed.failure, policy, now)
        if isinstance(decision, GiveUp | Escalate):
            failed = await self._with_case(record, failed, decision.reason, policy)
        facts = failed_facts(desk, step, record, state, failed, decision)
        if desk.outside(step):
            desk.job.files.write_attempt_state(
                record.index, state.attempt, desk.world.redactor.seal(facts[0])
            )
        first, *following = facts
        hooks = desk.kinds.of(step)
        shown = hooks.failed(step, record, failed.seen, failed.evidence)
        await desk.recorder.record(
            *(first, *shown.facts, *following),
            results=failed_results(desk, step, record, failed, decision),
            beside=shown.beside,
            release=any(isinstance(fact, _ENDS) for fact in facts),
            at=now,
        )
        hooks.recorded(shown)
        for every in desk.kinds.all():
            await every.reconsider()
        if failed.failure.outcome_known and desk.outside(step):
            desk.job.files.forget_output(record.index, state.attempt)

    async def _step_state(self, record: StepRecord, failure: Failure, policy: Policy) -> StepState:
        state = self._desk.state
        workflow = await self._desk.world.ledger.workflow_state(state.workflow)
        return step_state(state, record, failure.cls, policy, tokens_left(policy, workflow.tokens_spent))

    async def _with_case(self, record: StepRecord, failed: Failed, why: str, policy: Policy) -> Failed:
        """The step has failed for good: what is needed to look into it is kept, and cited by the event."""
        desk = self._desk
        if desk.world.cases is None:
            return failed
        digest = desk.recorder.digest_of(policy)
        about = (desk.state, record, failed.failure, why, digest, policy.evidence_bytes_max)
        handle = await desk.world.cases.store_case(*about, evidence=failed.evidence)
        if handle is None:
            return failed
        return msgspec.structs.replace(failed, evidence=(*failed.evidence, handle))

    async def _stop_in_trouble(self, record: StepRecord, troubled: Troubled) -> None:
        """The attempt ends and costs nothing; the run waits until the machine is well, or for another one."""
        is_main = record.open is not None and record.open.phase == "main"
        spared = not_concluded(
            *(record, FailureKind.DISK_FULL, troubled.words),
            not_begun=not is_main,
            spared=True,
            outcome_known=troubled.outcome_known,
        )
        await self._desk.recorder.record(spared)
        raise MachineTrouble(troubled.words, hint="Free some space. Then: recoup resume RUN")
