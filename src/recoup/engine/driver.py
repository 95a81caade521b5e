"""Drives one run under one lease: folds, asks the kernel, does it, records it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import msgspec

from recoup.engine.conclusion import Failed
from recoup.engine.controls import watch_controls
from recoup.engine.desk import Desk
from recoup.engine.ending import cannot_start, out_of_time, settle_first, skip
from recoup.engine.entry import begin, decline, is_going, lost_attempt, resume, take_over
from recoup.engine.facts import given_up_result, not_concluded, run_ends, run_succeeded
from recoup.engine.interventions import Interventions
from recoup.engine.lease import explained_loss, keep_lease
from recoup.engine.losses import record_loss
from recoup.engine.operators import held_by
from recoup.engine.restoring import adopt, hard_reset, restore, undo
from recoup.engine.settlement import Settlement
from recoup.engine.shared_commits import SharedCommits
from recoup.engine.step_turns import StepTurns
from recoup.engine.surroundings import Surroundings
from recoup.engine.waits import waited
from recoup.engine.world import Job, World
from recoup.errors import LeaseLost, LedgerError, MachineTrouble, RecoupError, StateError, is_trouble
from recoup.kernel.commands import gate_commands
from recoup.kernel.position import is_over
from recoup.kernel.prefix import known_good_prefix_length
from recoup.kernel.template import TemplateError
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.plan import ApproveAction, Repeat, Step, is_gate
from recoup.model.run import RunState, StepRecord
from recoup.steps.hooks import CannotBegin, FactsFirst, Undone


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
        mode_checked: bool = False,
    ) -> None:
        """`mode_checked`: the caller has just seen that the mode of the run's workflow lets runs go on."""
        self._mode_checked = mode_checked
        self._replaced = replaced
        self._desk = desk = Desk(world, job, state, lease)
        self._interventions = Interventions(desk)
        self._surroundings = Surroundings(desk)
        self._shared = SharedCommits(desk, self._surroundings)
        settlement = Settlement(desk, self._shared)
        self._turns = StepTurns(desk, self._interventions, self._surroundings, settlement)

    @property
    def state(self) -> RunState:
        """After the last fact that was recorded."""
        return self._desk.state

    @property
    def interrupting(self) -> bool:
        return self._interventions.interruption is not None

    def interrupt(self, reason: str) -> None:
        """Stop cleanly; the run can be resumed in place."""
        self._interventions.interrupt(reason)

    async def drive(self, *, stays: bool = False) -> RunState:
        """Until the run ends, waits for somebody, or the driver must stop. Raises LeaseLost, RecoupError.

        `stays`: this process stays, and may drive the run again after it has waited for a person. What its steps need
        open stays open for that long."""
        self._interventions.goes_on = True
        for hooks in self._desk.kinds.all():
            await hooks.take_up()
        return await self._attended(self._work, stays=stays)

    async def decline(self, words: str) -> RunState:
        """This delivery cannot be made here and now: it is spent, and the next one may be made elsewhere."""

        async def say_so() -> None:
            await self._take_over()
            await self._interventions.carry_out()
            if is_going(self._desk):
                await decline(self._desk, words)

        return await self._attended(say_so)

    async def give_back(self, words: str) -> RunState:
        """This machine is in trouble: nothing was begun and nothing is spent, and another one may take the run."""

        async def say_so() -> None:
            await self._take_over()
            await self._interventions.carry_out()
            if is_going(self._desk):
                await self._interventions.give_back(words, trouble=True)

        return await self._attended(say_so)

    async def answer(self) -> RunState:
        """Deal with the controls that wait, and nothing else; for a sender where no driver lives."""
        return await self._attended(self._answer)

    async def _attended(self, work: Callable[[], Awaitable[None]], *, stays: bool = False) -> RunState:
        """The work, with heartbeat and controls beside it."""
        desk, interventions = self._desk, self._interventions
        world, run_id = desk.world, desk.job.run_id
        marker = await world.ledger.change_marker()  # the work begins with a look at the controls
        background = [
            asyncio.create_task(keep_lease(world, desk.recorder.lease, desk.lifeline, interventions.lose)),
            asyncio.create_task(watch_controls(world, run_id, interventions.hear, marker)),
        ]
        for task in background:
            task.add_done_callback(interventions.background_ended)
        detach = desk.lifeline.attach(desk.recorder.extend)
        try:
            await work()
        except LeaseLost as error:
            raise await explained_loss(world, desk.recorder.lease, error) from error
        except Exception as error:
            # The disk may be full, the store damaged, or this program wrong: leave the run resumable if that can
            # still be written, and let the error be seen.
            problem = self._explained(error)
            if isinstance(problem, RecoupError):
                problem.run_id = run_id
            with contextlib.suppress(LedgerError):
                words = str(problem) or type(problem).__name__
                await interventions.give_back(words, trouble=is_trouble(problem))
            if problem is error:
                raise
            raise problem from error
        finally:
            detach()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            if interventions.goes_on or is_over(self.state):
                for hooks in desk.kinds.all():
                    await hooks.release(stays=stays and desk.recorder.released)
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
        if is_going(self._desk):
            await record_loss(self._desk)
        await self._interventions.carry_out()
        if is_going(self._desk) and not await self._surroundings.stop_the_first_delivery(self._mode_checked):
            await self._enter()
        while is_going(self._desk):
            if self._desk.halt.is_set():
                await self._interventions.heed()
                continue
            index = known_good_prefix_length(self.state)
            if self.state.hold.paused and (
                index < len(self.state.steps) or self.state.progress.always_pending
            ):
                await self._stand_by()
            elif self.state.progress.always_pending:
                record = self.state.steps[self.state.progress.always_pending[0]]
                await self._turns.always(self._desk.step(record), record)
            elif index == len(self.state.steps):
                await self._succeed()
            else:
                record = self.state.steps[index]
                await self._advance(self._desk.step(record), record)

    async def _take_over(self) -> None:
        desk = self._desk
        if self._replaced is None:
            return
        if self._replaced == desk.recorder.lease.owner:  # we could not renew it in time: nobody was lost
            await desk.world.census.clear(desk.job.run_id, None)
        else:
            await take_over(desk, self._replaced)

    async def _answer(self) -> None:
        await self._take_over()
        await self._interventions.carry_out()
        recorder = self._desk.recorder
        if not recorder.released:
            await self._desk.world.ledger.release(recorder.lease)

    async def _enter(self) -> None:
        if not self.state.begun:
            return await begin(self._desk, self._shared.very_first)
        told_to_stop = self.state.driver.interrupted
        why = self.state.reason if told_to_stop else "the driver was lost"
        before, owner = self.state.driver.owner, self._desk.recorder.lease.owner
        rebooted = before is not None and before.host == owner.host and before.boot_id != owner.boot_id
        await resume(self._desk)
        for index in range(len(self.state.steps)):
            record = self.state.steps[index]
            if record.open is not None and is_going(self._desk):
                await self._take_up(record, why, told_to_stop)
        if is_going(self._desk):
            await adopt(self._desk, rebooted=rebooted)
        return None

    async def _take_up(self, record: StepRecord, why: str, told_to_stop: bool) -> None:
        """An attempt that a former driver left open. One that was ended because its driver was told to stop costs
        nothing, unless it must not be repeated."""
        step = self._desk.step(record)
        conclusion = await lost_attempt(self._desk, record, why)
        if isinstance(conclusion, Failed) and told_to_stop and step.repeat is Repeat.SAFE:
            kind = FailureKind.DRIVER_LOST
            await self._desk.recorder.record(not_concluded(record, kind, why, not_begun=False, spared=True))
        elif conclusion is not None:
            await self._turns.settle(step, record, conclusion)

    async def _advance(self, step: Step, record: StepRecord) -> None:
        """Whatever stands next between the run and the end of this step: a wait, a restore, a rebuild, an attempt."""
        desk = self._desk
        if record.open is None and not await waited(desk, record):
            return
        if record.open is None and await self._surroundings.stop_the_run():
            return
        left_s = desk.run_seconds_left()
        if left_s <= 0:
            await out_of_time(desk, step, record)
        elif record.doubt.to_settle and record.open is None and await settle_first(desk, step, record):
            return
        elif self.state.workspaces.restore_pending:
            await hard_reset(desk, step, record)
        elif self.state.progress.rebuild_pending:
            lost = self.state.steps[self.state.progress.rebuild_pending[0]]
            again = desk.step(lost)
            if await desk.kinds.of(again).is_ready(again) or not await self._held_up(step, record):
                await self._turns.rebuild(again, lost, left_s)
        elif record.recovery.given_up is not None:
            await self._after_giving_up(step, record, left_s)
        elif is_gate(step.action) and record.open is None:
            # Nobody is asked about what is not as the steps before have proven it.
            if self.state.progress.gate_reached == record.index or not await self._held_up(step, record):
                await self._at_gate(step, record)
        elif record.open is not None or not await self._held_up(step, record):
            await self._turns.attempt(step, record, left_s)

    async def _held_up(self, step: Step, record: StepRecord) -> bool:
        """What the step builds on is lost or has changed: something else comes first."""
        desk = self._desk
        match await desk.kinds.obstacle(step, record):
            case None:
                return False
            case FactsFirst(facts, release):
                await desk.recorder.record(*facts, release=release)
            case CannotBegin() as why:
                await self._turns.fail_before_acting(step, record, why)
            case Undone() as undone:
                await undo(desk, undone)
                if is_going(desk) and desk.workspace is not None:
                    await restore(desk, undone.reason, current=True)
        return True

    async def _after_giving_up(self, step: Step, record: StepRecord, left_s: float) -> None:
        if step.rescue and not record.recovery.rescue_tried:
            return await self._turns.rescue(step, record, left_s)
        desk, given_up = self._desk, record.recovery.given_up
        assert given_up is not None
        reason = f"step {step.id}: {record.failure.summary} ({given_up.reason})"
        ends = run_ends(desk, record, msgspec.structs.replace(given_up, reason=reason))
        await desk.recorder.record(*ends, results=[given_up_result(desk, record)], release=True)
        return None

    async def _at_gate(self, step: Step, record: StepRecord) -> None:
        """The run waits for an operator's yes or no, in nobody's hands."""
        desk = self._desk
        try:
            if not desk.wanted(step):
                return await skip(desk, step, record)
            action = desk.arguments(step).action
        except TemplateError as error:
            return await cannot_start(desk, record, str(error))
        assert isinstance(action, ApproveAction)
        how = " or: ".join(gate_commands(desk.job.run_id))
        reason = f"{step.id} waits for an approval: {action.message} (run: {how})"
        waiting = ev.RunWaiting(reason=reason, step_id=step.id, waiting_for="approval")
        if self.state.progress.gate_reached != record.index:
            for hooks in desk.kinds.all():
                await hooks.gate_reached(step, record)
        await desk.recorder.record(waiting, release=True)
        return None

    async def _stand_by(self) -> None:
        """An operator paused the run: it is in nobody's hands until they resume it."""
        waiting = ev.RunWaiting(reason="paused: resume to go on", waiting_for="operator")
        if self._desk.paused_by is not None:
            waiting = held_by(self._desk.paused_by)
        await self._desk.recorder.record(waiting, release=True)

    async def _succeed(self) -> None:
        verdicts = [record.verdict for record in self.state.steps]
        await self._desk.recorder.record(run_succeeded(verdicts), release=True)
