"""Drives one run under one lease: folds, asks the kernel, does it, records it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from recoup.engine.arguments import Arguments, environment_of
from recoup.engine.attempt import (
    ApprovalRefuted,
    Conclusion,
    Failed,
    Interrupted,
    Kept,
    Passed,
    Troubled,
    world_checks,
)
from recoup.engine.checkpoints import last_checkpoint
from recoup.engine.controls import watch_controls
from recoup.engine.desk import Desk
from recoup.engine.ending import begun_elsewhere, cannot_start, out_of_time, settle_first, skip
from recoup.engine.entry import begin, decline, is_redelivery, lost_attempt, resume, take_over
from recoup.engine.facts import (
    always_facts,
    failed_facts,
    failed_results,
    given_up_result,
    not_concluded,
    not_rescued,
    page_question,
    passed_facts,
    passed_result,
    run_ends,
    run_succeeded,
    started,
)
from recoup.engine.lease import explained_loss, keep_lease
from recoup.engine.losses import record_loss
from recoup.engine.operators import carry_out, held_by
from recoup.engine.passing import fresh_outputs, write_papers
from recoup.engine.restoring import adopt, hard_reset, invalidate_after_change, restore
from recoup.engine.run_page import Changed, Question, Replay, Unreachable
from recoup.engine.surroundings import Surroundings
from recoup.engine.witness import unsettled_s
from recoup.engine.world import Job, World
from recoup.errors import (
    LeaseLost,
    LedgerError,
    MachineTrouble,
    RecoupError,
    StateError,
    WorkspaceRuined,
    is_trouble,
)
from recoup.kernel.commands import gate_commands
from recoup.kernel.controls import is_over, pre_empts, refusal
from recoup.kernel.decide import decide
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.prefix import is_good, known_good_prefix_length
from recoup.kernel.step_state import step_state, tokens_left
from recoup.kernel.template import TemplateError
from recoup.model import events as ev
from recoup.model.decision import Escalate, GiveUp, Strategy
from recoup.model.failure import Failure, FailureKind
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.plan import ApproveAction, BrowserAction, BrowserVerb, Repeat, Step
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus, StepRecord, StepState, Verdict
from recoup.model.storage import Control

_DRIVABLE = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.BLOCKED)
T = TypeVar("T")
_ENDS = (ev.RunFailed, ev.RunDeadLettered, ev.Escalated)
_SHOWN_WAIT_S = 2
"""A shorter cooldown is not worth two events."""


class Driver:
    """One delivery of one run. Everything it knows can be folded again from the ledger."""

    def __init__(
        self,
        world: World,
        job: Job,
        state: RunState,
        lease: Lease,
        replaced: ProcessIdentity | None = None,
        *,
        vouched: bool = False,
    ) -> None:
        """`vouched`: a moment ago the run's workflow let runs go on."""
        self._vouched = vouched
        self._halt = asyncio.Event()
        """Set when the current attempt or wait must end: a control, an interruption, a lost lease."""
        self._desk = Desk(world, job, state, lease, self._halt)
        self.state = state
        self._surroundings = Surroundings(self._desk)
        self._replaced = replaced
        self._driving = self._keeps_page = False
        self._hearing = asyncio.Lock()
        self._busy = False
        """An attempt is under way: a control that can wait must not end it."""
        self._lost = False
        self._interrupted: str | None = None
        self._broken: BaseException | None = None

    @property
    def interrupting(self) -> bool:
        return self._interrupted is not None

    def interrupt(self, reason: str) -> None:
        """Stop cleanly; the run can be resumed in place."""
        self._interrupted = reason
        self._halt.set()

    async def drive(self, *, keeps_page: bool = False) -> RunState:
        """Until the run ends, waits for somebody, or the driver must stop. Raises LeaseLost, RecoupError.

        `keeps_page`: the browser stays open while the run waits for a person, for the next driver in this process."""
        self._driving, self._keeps_page = True, keeps_page
        await self._desk.attempts.page.take_up(self.state.epoch)
        return await self._attended(self._work)

    async def decline(self, words: str) -> RunState:
        """This delivery cannot be made here and now: it is spent, and the next one may be made elsewhere."""

        async def say_so() -> None:
            await self._take_over()
            await self._handle_controls()
            if self._going():
                await decline(self._desk, words)

        return await self._attended(say_so)

    async def give_back(self, words: str) -> RunState:
        """This machine is in trouble: nothing was begun and nothing is spent, and another one may take the run."""

        async def say_so() -> None:
            await self._take_over()
            await self._handle_controls()
            if self._going():
                await self._give_back(words, trouble=True)

        return await self._attended(say_so)

    async def answer(self) -> RunState:
        """Deal with the controls that wait, and nothing else; for a sender where no driver lives."""
        return await self._attended(self._answer)

    async def _attended(self, work: Callable[[], Awaitable[None]]) -> RunState:
        desk = self._desk
        marker = await desk.world.ledger.change_marker()  # the work begins with a look at the controls
        background = [
            asyncio.create_task(keep_lease(desk.world, desk.recorder.lease, desk.lifeline, self._lose)),
            asyncio.create_task(watch_controls(desk.world, desk.job.run_id, self._hear, marker)),
        ]
        for task in background:
            task.add_done_callback(self._background_ended)
        detach = desk.lifeline.attach(desk.recorder.extend)
        try:
            await work()
        except LeaseLost as error:
            raise await explained_loss(desk.world, desk.recorder.lease, error) from error
        except Exception as error:
            # The disk may be full, the store damaged, or this program wrong: leave the run resumable if that can
            # still be written, and let the error be seen.
            problem = self._explained(error)
            if isinstance(problem, RecoupError):
                problem.run_id = desk.job.run_id
            with contextlib.suppress(LedgerError):
                await self._give_back(str(problem) or type(problem).__name__, trouble=is_trouble(problem))
            if problem is error:
                raise
            raise problem from error
        finally:
            detach()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            if self._driving or is_over(self.state):
                await desk.attempts.page.release(
                    self.state, keeps=self._keeps_page and desk.recorder.released
                )
        return self.state

    def _explained(self, error: Exception) -> Exception:
        """What the system or the interpreter refused, as an error of the machine."""
        if isinstance(error, OSError):
            return StateError.of(error)
        machine = self._desk.world.machine
        lack = machine.behind(error) if machine is not None else None
        return error if lack is None else MachineTrouble(lack)

    async def _work(self) -> None:
        await self._take_over()
        if self._going():
            await record_loss(self._desk)
        await self._handle_controls()
        if self._going() and not await self._surroundings.stop_the_first_delivery(self._vouched):
            await self._enter()
        while self._going():
            if self._halt.is_set():
                await self._halted()
                continue
            index = known_good_prefix_length(self.state)
            if self.state.paused and (index < len(self.state.steps) or self.state.always_pending):
                await self._stand_by()
            elif self.state.always_pending:
                await self._always(self.state.always_pending[0])
            elif index == len(self.state.steps):
                await self._succeed()
            else:
                await self._advance(self._desk.job.plan.steps[index], self.state.steps[index])

    async def _take_over(self) -> None:
        if self._replaced is None:
            return
        if (
            self._replaced == self._desk.recorder.lease.owner
        ):  # we could not renew it in time: nobody was lost
            await self._desk.world.census.clear(self._desk.job.run_id, None)
        else:
            await take_over(self._desk, self._replaced)

    async def _answer(self) -> None:
        await self._take_over()
        await self._handle_controls()
        if not self._desk.recorder.released:
            await self._desk.world.ledger.release(self._desk.recorder.lease)

    def _going(self) -> bool:
        drivable = self.state.status in _DRIVABLE or is_redelivery(self.state)
        return drivable and not self._desk.recorder.released

    async def _enter(self) -> None:
        if not self.state.begun:
            return await begin(self._desk, self._very_first)
        told_to_stop = self.state.interrupted
        why = self.state.reason if told_to_stop else "the driver was lost"
        before, owner = self.state.owner, self._desk.recorder.lease.owner
        rebooted = before is not None and before.host == owner.host and before.boot_id != owner.boot_id
        await resume(self._desk)
        for record in self.state.steps:
            if record.open is not None and self._going():
                await self._take_up(record, why, told_to_stop)
        if self._going():
            await adopt(self._desk, rebooted=rebooted)
        return None

    async def _take_up(self, record: StepRecord, why: str, told_to_stop: bool) -> None:
        """An attempt that a former driver left open. One that was ended because its driver was told to stop costs
        nothing, unless it must not be repeated."""
        step = self._desk.job.plan.steps[record.index]
        conclusion = await lost_attempt(self._desk, record, why)
        if isinstance(conclusion, Failed) and told_to_stop and step.repeat is Repeat.SAFE:
            kind = FailureKind.DRIVER_LOST
            await self._desk.recorder.record(not_concluded(record, kind, why, not_begun=False, spared=True))
        elif conclusion is not None:
            await self._settle(step, record, conclusion)

    async def _advance(self, step: Step, record: StepRecord) -> None:
        """Whatever stands next between the run and the end of this step: a wait, a restore, a rebuild, an attempt."""
        if record.open is None and not await self._waited(record):
            return
        if record.open is None and await self._surroundings.stop_the_run():
            return
        left_s = self._desk.run_seconds_left()
        if left_s <= 0:
            await out_of_time(self._desk, step, record)
        elif record.to_settle and record.open is None and await settle_first(self._desk, step, record):
            return
        elif self.state.restore_pending:
            await hard_reset(self._desk, step, record)
        elif self.state.rebuild_pending:
            index = self.state.rebuild_pending[0]
            again = self._desk.job.plan.steps[index]
            if await self._has_page_for(again) or not await self._walked_back(step, record):
                await self._rebuild(again, self.state.steps[index], left_s)
        elif record.given_up is not None:
            await self._after_giving_up(step, record, left_s)
        elif isinstance(step.action, ApproveAction) and record.open is None:
            # Nobody is asked about a page that is not what the steps before have proven.
            if self.state.gate_reached == record.index or not await self._walked_back(step, record):
                await self._at_gate(step, record)
        elif record.open is not None or not await self._walked_back(step, record):
            await self._attempt(step, record, left_s)

    async def _walked_back(self, step: Step, record: StepRecord) -> bool:
        """The page that the step continues on is lost or has changed: something else comes first."""
        desk = self._desk
        problem = await desk.attempts.page.problem(step, record, self.state)
        match problem:
            case None:
                return False
            case Replay():
                names = tuple(self.state.steps[index].step_id for index in problem.steps)
                about: dict[str, Any] = {"step_id": step.id, "step_index": record.index, "attempt": None}
                await desk.recorder.record(ev.PageLost(**about, reason=problem.reason, steps=names))
            case Question():
                records = [self.state.steps[index] for index in problem.steps]
                await desk.recorder.record(page_question(desk, records, problem.reason), release=True)
            case Unreachable():
                await self._fail_before_acting(step, record, problem.reason)
            case Changed():
                await invalidate_after_change(desk, problem.begins, problem.reason)
                if self._going() and desk.workspace is not None:
                    await restore(desk, problem.reason, current=True)
        return True

    async def _fail_before_acting(self, step: Step, record: StepRecord, why: str) -> None:
        """An attempt that could not even begin to act: its page cannot be opened now."""
        desk = self._desk
        try:
            arguments = desk.arguments(step)
        except TemplateError as error:
            return await cannot_start(desk, record, str(error))
        if await self._begin(step, record, await self._first(step, record, arguments)):
            await self._settle(step, record, await desk.attempts.unreachable(record, why, desk.policy(step)))
        return None

    async def _has_page_for(self, step: Step) -> bool:
        """A step in the browser that is performed again goes on from a page, which a former driver may have had."""
        page = self._desk.attempts.page
        if not isinstance(step.action, BrowserAction) or await page.has_page():
            return True
        if step.action.verb is BrowserVerb.GOTO:
            await page.bring_sign_in()
            return True
        return False

    async def _waited(self, record: StepRecord) -> bool:
        """Backoff, cooldown, news of lost commits. False: something came between."""
        left_s, settling_s = self._left_to_wait_s(record), self._settling_s(record)
        is_cooldown = record.strategy == Strategy.RETRY and left_s >= _SHOWN_WAIT_S
        if (is_cooldown or settling_s >= _SHOWN_WAIT_S) and not self._shown_as_waiting():
            await self._record_waiting(record, max(left_s, settling_s), settling=settling_s > left_s)
        left_s = max(left_s, settling_s)
        if left_s > 0 and await self._desk.world.clock.wait(self._halt, left_s):
            return False
        if self._shown_as_waiting():  # though the rest of the wait was short, or an operator has ended it
            await self._record_waited()
        return True

    def _left_to_wait_s(self, record: StepRecord) -> float:
        if record.healing_since is None:
            return 0.0
        delay_s = record.delay_ms / 1000
        return delay_s - elapsed_s(record.healing_since, self._desk.world.clock.now(), delay_s)

    def _settling_s(self, record: StepRecord) -> float:
        """Before a step that must not be repeated others may still come back and tell that it was performed."""
        step = self._desk.job.plan.steps[record.index]
        once = step.repeat is Repeat.NEVER and not isinstance(step.action, ApproveAction)
        return unsettled_s(self._desk.world) if once else 0.0

    def _shown_as_waiting(self) -> bool:
        """For a time: whoever waits for somebody holds no lease."""
        return self.state.status is RunStatus.WAITING

    # One attempt

    async def _attempt(self, step: Step, record: StepRecord, left_s: float) -> None:
        desk = self._desk
        try:
            if record.open is None and not desk.wanted(step):
                return await skip(self._desk, step, record)
            arguments = desk.arguments(step)
        except TemplateError as error:
            return await cannot_start(self._desk, record, str(error))
        if record.open is None:
            if isinstance(step.action, BrowserAction):
                await desk.attempts.browsing.take_back(self.state)
            start = await self._first(step, record, arguments)
            if self._halt.is_set() or not await self._begin(step, record, start) or self._halt.is_set():
                return None  # a control that came just now is heard first: it may be a pause
        policy = desk.capped(desk.policy(step), left_s)
        conclusion = await self._during(desk.attempts.perform(step, record, arguments, policy))
        return await self._settle(step, record, conclusion)

    async def _during(self, attempt: Awaitable[T]) -> T:
        self._busy = True
        try:
            return await attempt
        finally:
            self._busy = False

    async def _begin(self, step: Step, record: StepRecord, start: ev.AttemptStarted) -> bool:
        """Only if no control waits, and no linked run has begun it: the transaction itself looks."""
        recorder = self._desk.recorder
        begun = await recorder.record(tail=[start])
        if recorder.claimed_by is not None:
            await begun_elsewhere(self._desk, step, record, recorder.claimed_by)
        elif recorder.refusal is not None:
            await self._surroundings.block(recorder.refusal)
        elif not begun:
            self._halt.set()
        return begun

    async def _first(self, step: Step, record: StepRecord, arguments: Arguments) -> ev.AttemptStarted:
        """Before the first attempt the world checks are looked at, so that a later look means something."""
        desk, prechecks = self._desk, None
        if record.prechecks is None and world_checks(step):
            env = environment_of(desk.world, desk.job, step, arguments, record.attempts + 1, {})
            asked_in = env | arguments.expected.env
            prechecks = await desk.attempts.precheck(
                arguments.of(step), desk.workspace, asked_in, desk.policy(step)
            )
        return started(desk, step, record, arguments, self._pre_state(record), prechecks=prechecks)

    def _pre_state(self, record: StepRecord) -> str | None:
        if self._desk.job.workspaces is None:
            return None
        if record.pre_state is not None and record.verdict is Verdict.FAILED:
            return record.pre_state
        return last_checkpoint(self.state)[1].tree

    async def _settle(self, step: Step, record: StepRecord, conclusion: Conclusion) -> None:
        await self._surroundings.look()
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
            case Interrupted():
                await self._halted()
                await self._stopped_for_nothing(step, record)

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

    async def _stopped_for_nothing(self, step: Step, record: StepRecord) -> None:
        """What the attempt was ended for was refused in the end. It had begun, so it is not simply performed again."""
        if record.open is None or not record.open.launched or not self._going():
            return
        conclusion = await lost_attempt(self._desk, record, "the attempt was ended for a control")
        if conclusion is not None:
            await self._settle(step, record, conclusion)

    async def _pass(self, step: Step, record: StepRecord, passed: Passed) -> None:
        desk = self._desk
        await write_papers(desk, step, record, passed)
        attempt = record.open.attempt if record.open else record.attempts
        on_trial = self.state.trial_workspace is not None
        facts = passed_facts(desk, step, record, passed, "rescue" if passed.handlers else "main")
        success = self._success(step, record, facts)
        browsing, proven = desk.attempts.browsing, passed.verdict is Verdict.PASSED
        about_target, targets = browsing.facts(step, record, passed.seen, passed.evidence, proven=proven)
        await desk.recorder.record(
            *(*facts, *about_target, *success),
            results=[passed_result(desk, step, record)],
            targets=targets,
            tail=self._next_start(record, passed),
            release=bool(success),
        )
        browsing.remember(targets)
        if desk.outside(step):
            desk.job.files.forget_output(record.index, attempt)
        if on_trial:
            assert desk.job.workspaces is not None and self.state.workspace is not None
            await desk.job.workspaces.swap(self.state.workspace, desk.job.policy.workspaces_kept)

    def _very_first(self) -> Sequence[ev.AttemptStarted]:
        """The start of the first step, if it may launch at once: it shares a commit with the start of the run."""
        step, record = self._desk.job.plan.steps[0], self.state.steps[0]
        if self._halt.is_set() or not self._surroundings.seen or not self._may_launch_at_once(step):
            return ()
        if record.to_settle:
            return ()
        try:
            arguments = self._desk.arguments(step)
        except TemplateError:
            return ()
        return (started(self._desk, step, record, arguments, None),)

    def _may_launch_at_once(self, step: Step) -> bool:
        """Nothing is to be looked at first, and nothing is waited for."""
        if step.repeat is Repeat.NEVER and unsettled_s(self._desk.world) > 0:
            return False
        return not (isinstance(step.action, ApproveAction) or step.when is not None or world_checks(step))

    def _next_start(self, record: StepRecord, passed: Passed) -> Sequence[ev.Payload]:
        """The start of the next step, if it may launch at once: then the two share one commit."""
        index, desk = record.index + 1, self._desk
        if index == len(self.state.steps) or self._halt.is_set() or self.state.paused:
            return ()
        if self._surroundings.refusal is not None or not self._surroundings.seen:
            return ()
        step, following = desk.job.plan.steps[index], self.state.steps[index]
        if desk.job.plan.steps[record.index].always or not self._may_launch_at_once(step):
            return ()
        if is_good(following) or following.healing_since or following.to_settle:
            return ()
        if isinstance(step.action, BrowserAction) and passed.seen is None:
            return ()  # its page may have been lost meanwhile
        try:
            arguments = desk.arguments(step, fresh_outputs(record.step_id, passed))
        except TemplateError:
            return ()
        pre_state = passed.snapshot.tree if passed.snapshot else self._pre_state(following)
        page = passed.seen.page if passed.seen else None
        return (started(desk, step, following, arguments, pre_state, page=page),)

    async def _fail(self, step: Step, record: StepRecord, failed: Failed) -> None:
        desk, policy, now = self._desk, self._desk.policy(step), self._desk.world.clock.now()
        state = await self._step_state(step, record, failed.failure)
        decision = decide(state, failed.failure, policy, now)
        if isinstance(decision, GiveUp | Escalate):
            failed = await self._with_case(record, failed, decision.reason, policy)
        facts = failed_facts(desk, step, record, state, failed, decision)
        if desk.outside(step):
            desk.job.files.write_attempt_state(
                record.index, state.attempt, desk.world.redactor.seal(facts[0])
            )
        first, *following = facts
        browsing = desk.attempts.browsing
        about_target, targets = browsing.rejected(step, record, failed.seen, failed.evidence)
        await desk.recorder.record(
            *(first, *about_target, *following),
            results=failed_results(desk, step, record, failed, decision),
            targets=targets,
            release=any(isinstance(fact, _ENDS) for fact in facts),
            at=now,
        )
        browsing.remember(targets)
        await browsing.take_back(self.state)
        if failed.failure.outcome_known and desk.outside(step):
            desk.job.files.forget_output(record.index, state.attempt)

    async def _with_case(self, record: StepRecord, failed: Failed, why: str, policy: Policy) -> Failed:
        """The step has failed for good: what is needed to look into it is kept, and cited by the event."""
        desk = self._desk
        if desk.world.cases is None:
            return failed
        digest = desk.recorder.digest_of(policy)
        about = (self.state, record, failed.failure, why, digest, policy.evidence_bytes_max)
        handle = await desk.world.cases.store_case(*about, evidence=failed.evidence)
        if handle is None:
            return failed
        return msgspec.structs.replace(failed, evidence=(*failed.evidence, handle))

    async def _step_state(self, step: Step, record: StepRecord, failure: Failure) -> StepState:
        policy = self._desk.policy(step)
        workflow = await self._desk.world.ledger.workflow_state(self.state.workflow)
        tokens = tokens_left(policy, workflow.tokens_spent)
        return step_state(self.state, record, failure.cls, policy, tokens)

    async def _rebuild(self, step: Step, record: StepRecord, left_s: float) -> None:
        """Perform a passed step again in the restored workspace, for what a checkpoint does not hold."""
        desk, arguments = self._desk, self._desk.arguments(step)
        if not await self._waited(record):
            return
        start = started(desk, step, record, arguments, self._pre_state(record), phase="rebuild")
        if not await self._begin(step, record, start):
            return
        policy = desk.capped(desk.policy(step), left_s)
        conclusion = await self._during(desk.attempts.perform(step, record, arguments, policy))
        if isinstance(conclusion, Passed):
            await desk.recorder.record(*passed_facts(desk, step, record, conclusion, phase="rebuild"))
        else:
            await self._settle(step, record, conclusion)

    # Handlers and gates

    async def _after_giving_up(self, step: Step, record: StepRecord, left_s: float) -> None:
        if step.rescue and not record.rescue_tried:
            return await self._rescue(step, record, left_s)
        given_up = record.given_up
        assert given_up is not None
        reason = f"step {step.id}: {record.failure_summary} ({given_up.reason})"
        ends = run_ends(self._desk, record, msgspec.structs.replace(given_up, reason=reason))
        await self._desk.recorder.record(*ends, results=[given_up_result(self._desk, record)], release=True)
        return None

    async def _rescue(self, step: Step, record: StepRecord, left_s: float) -> None:
        desk = self._desk
        arguments = desk.arguments(step)
        start = started(desk, step, record, arguments, self._pre_state(record), phase="rescue")
        if not await self._begin(step, record, start):
            return
        policy = desk.capped(desk.policy(step), left_s)
        conclusion = await self._during(desk.attempts.rescue(step, record, arguments, policy))
        if isinstance(conclusion, Failed):
            await desk.recorder.record(not_rescued(desk, step, record, conclusion))
        else:
            await self._settle(step, record, conclusion)

    async def _always(self, index: int) -> None:
        """Whatever it comes to changes nothing about the step; what it changed in the workspace is kept."""
        desk, step, record = self._desk, self._desk.job.plan.steps[index], self.state.steps[index]
        if record.open is None and await self._surroundings.stop_the_run():
            return
        arguments = desk.arguments(step)
        start = started(desk, step, record, arguments, self._pre_state(record), phase="always")
        if record.open is None and not await self._begin(step, record, start):
            return
        handled = await self._during(desk.attempts.always(step, record, desk.policy(step)))
        if handled is None:
            await self._halted()
        else:
            kept, ruin = await self._kept(record)
            await desk.recorder.record(*always_facts(desk, step, record, handled, kept))
            if ruin is not None:
                await restore(
                    desk, f"always of {step.id} left a workspace that cannot be used: {ruin}", current=True
                )

    async def _kept(self, record: StepRecord) -> tuple[Kept | None, str | None]:
        """What handlers of a step that is done have left, or why that cannot be stored."""
        desk = self._desk
        try:
            kept = await desk.attempts.kept(record) if is_good(record) else None
        except WorkspaceRuined as error:
            return None, error.message
        gone = desk.workspace is not None and not desk.attempts.has_folder()
        return kept, f"{desk.attempts.folder()} is gone" if gone else None

    async def _at_gate(self, step: Step, record: StepRecord) -> None:
        """The run waits for an operator's yes or no, in nobody's hands."""
        desk = self._desk
        try:
            if not desk.wanted(step):
                return await skip(self._desk, step, record)
            action = desk.arguments(step).action
        except TemplateError as error:
            return await cannot_start(self._desk, record, str(error))
        assert isinstance(action, ApproveAction)
        how = " or: ".join(gate_commands(desk.job.run_id))
        reason = f"{step.id} waits for an approval: {action.message} (run: {how})"
        waiting = ev.RunWaiting(reason=reason, step_id=step.id, waiting_for="approval")
        if self.state.gate_reached != record.index:
            await desk.attempts.page.keep_for_gate(step, record, self.state)
        await desk.recorder.record(waiting, release=True)
        return None

    async def _stand_by(self) -> None:
        """An operator paused the run: it is in nobody's hands until they resume it."""
        waiting = ev.RunWaiting(reason="paused: resume to go on", waiting_for="operator")
        if self._desk.paused_by is not None:
            waiting = held_by(self._desk.paused_by)
        await self._desk.recorder.record(waiting, release=True)

    # Ends and interruptions

    async def _succeed(self) -> None:
        verdicts = [record.verdict for record in self.state.steps]
        await self._desk.recorder.record(run_succeeded(verdicts), release=True)

    def _success(self, step: Step, record: StepRecord, facts: Sequence[ev.Payload]) -> Sequence[ev.Payload]:
        """The end of the run, where nothing can come between it and its last step: then the two share one commit."""
        state = self.state
        if state.prefix_length != record.index or record.index + 1 != len(state.steps):
            return ()
        if self._halt.is_set() or state.paused or state.trial_workspace is not None:
            return ()
        if step.always or state.always_pending or state.rebuild_pending or state.restore_pending:
            return ()
        ended = [fact.verdict for fact in facts if isinstance(fact, ev.AttemptFinished)]
        verdicts = [*(one.verdict for one in state.steps[:-1]), *(Verdict(verdict) for verdict in ended)]
        return (run_succeeded(verdicts),) if len(verdicts) == len(state.steps) else ()

    async def _record_waiting(self, record: StepRecord, left_s: float, *, settling: bool) -> None:
        until = self._desk.world.clock.now().plus_s(left_s)
        restarted = f"the database server was just started: {record.step_id} waits for news of lost commits"
        await self._desk.recorder.record(
            ev.RunWaiting(
                reason=restarted if settling else f"cooldown of {record.step_id}",
                until=until.iso(),
                step_id=record.step_id,
                waiting_for="time",
            )
        )

    async def _record_waited(self) -> None:
        await self._desk.recorder.record(
            ev.RunResumed(
                delivery=self.state.delivery,
                epoch=self._desk.epoch,
                owner=self._desk.recorder.lease.owner,
                reason="the wait is over",
                worker=self._desk.world.worker,
            )
        )

    async def _halted(self) -> None:
        """Controls first: a cancel beats an interruption, and both beat the next attempt."""
        if self._lost:
            run_id = self._desk.job.run_id
            raise LeaseLost(
                f"the lease of run {run_id} is lost, or could not be renewed in time",
                hint=f"See whose: recoup show {run_id}. If nobody drives it: recoup resume {run_id}",
            )
        if self._broken is not None:
            raise self._broken
        self._halt.clear()
        await self._handle_controls()
        if self._interrupted is not None and self._going():
            await self._give_back(self._interrupted)

    async def _give_back(self, reason: str, *, trouble: bool = False) -> None:
        if not self._desk.recorder.released:
            interrupted = ev.RunInterrupted(reason=reason, epoch=self._desk.epoch, machine_trouble=trouble)
            await self._desk.recorder.record(interrupted, release=True)

    async def _handle_controls(self, *, beside_an_attempt: bool = False) -> None:
        async with self._hearing:
            for control in await self._desk.world.ledger.pending_controls(self._desk.job.run_id):
                if beside_an_attempt and self._ends_an_attempt(control):
                    self._halt.set()  # it is carried out, and those after it, when the attempt has ended
                    return
                if not self._desk.recorder.released:
                    await carry_out(self._desk, control, driving=self._driving)

    def _ends_an_attempt(self, control: Control) -> bool:
        """Asked anew for each: one that was carried out before it may have made it possible."""
        return pre_empts(control) and refusal(self.state, control, self._desk.job.policy) is None

    async def _hear(self, _controls: list[Control]) -> None:
        """During an attempt what can be answered is answered at once; what must end the attempt ends it."""
        if not self._busy:
            self._halt.set()
        elif self._going():
            await self._handle_controls(beside_an_attempt=True)

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        """Without heartbeat or controls the driver must not go on as if nothing were wrong."""
        if not task.cancelled() and task.exception() is not None:
            self._broken = task.exception()
            self._halt.set()

    def _lose(self) -> None:
        self._lost = True
        self._halt.set()
