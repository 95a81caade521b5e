"""What a driver does for one step when it is the step's turn: an attempt, a rebuild, or its handlers."""

from __future__ import annotations

from recoup.engine.arguments import Arguments, environment_of
from recoup.engine.conclusion import Conclusion, Failed, Interrupted, Kept, Passed
from recoup.engine.desk import Desk
from recoup.engine.ending import begun_elsewhere, cannot_start, skip
from recoup.engine.entry import is_going, lost_attempt
from recoup.engine.facts import always_facts, not_rescued, passed_facts, started
from recoup.engine.interventions import Interventions
from recoup.engine.restoring import restore
from recoup.engine.settlement import Settlement
from recoup.engine.surroundings import Surroundings
from recoup.engine.unknown_outcome import world_checks
from recoup.engine.waits import waited
from recoup.engine.work_folder import is_folder
from recoup.errors import WorkspaceRuined
from recoup.kernel.prefix import is_good
from recoup.kernel.template import TemplateError
from recoup.model import events as ev
from recoup.model.plan import Step
from recoup.model.run import StepRecord
from recoup.steps.hooks import CannotBegin


class StepTurns:
    """Of the steps of one run."""

    def __init__(
        self, desk: Desk, interventions: Interventions, surroundings: Surroundings, settlement: Settlement
    ) -> None:
        self._desk = desk
        self._interventions = interventions
        self._surroundings = surroundings
        self._settlement = settlement

    async def attempt(self, step: Step, record: StepRecord, left_s: float) -> None:
        desk = self._desk
        try:
            if record.open is None and not desk.wanted(step):
                return await skip(desk, step, record)
            arguments = desk.arguments(step)
        except TemplateError as error:
            return await cannot_start(desk, record, str(error))
        if record.open is None:
            await desk.kinds.of(step).reconsider()
            start = await self._first(step, record, arguments)
            if desk.halt.is_set() or not await self._begin(step, record, start) or desk.halt.is_set():
                return None  # a control that came just now is heard first: it may be a pause
            record = desk.current(record)
        policy = desk.capped(desk.policy(step), left_s)
        performed = desk.attempts.perform(step, record, arguments, policy)
        return await self.settle(step, record, await self._interventions.during(performed))

    async def fail_before_acting(self, step: Step, record: StepRecord, why: CannotBegin) -> None:
        desk = self._desk
        try:
            arguments = desk.arguments(step)
        except TemplateError as error:
            return await cannot_start(desk, record, str(error))
        if await self._begin(step, record, await self._first(step, record, arguments)):
            failed = await desk.attempts.not_begun(desk.current(record), why, desk.policy(step))
            await self.settle(step, record, failed)
        return None

    async def rebuild(self, step: Step, record: StepRecord, left_s: float) -> None:
        """Perform a passed step again in the restored workspace, for what a checkpoint does not hold."""
        desk, arguments = self._desk, self._desk.arguments(step)
        if not await waited(desk, record):
            return
        if not await self._begin_phase(step, record, arguments, "rebuild"):
            return
        record = desk.current(record)
        policy = desk.capped(desk.policy(step), left_s)
        performed = desk.attempts.perform(step, record, arguments, policy)
        conclusion = await self._interventions.during(performed)
        if isinstance(conclusion, Passed):
            await desk.recorder.record(*passed_facts(desk, step, record, conclusion, phase="rebuild"))
        else:
            await self.settle(step, record, conclusion)

    async def rescue(self, step: Step, record: StepRecord, left_s: float) -> None:
        """Every attempt has failed: the step's handlers may recover it."""
        desk = self._desk
        arguments = desk.arguments(step)
        if not await self._begin_phase(step, record, arguments, "rescue"):
            return
        record = desk.current(record)
        policy = desk.capped(desk.policy(step), left_s)
        rescued = desk.attempts.rescue(step, record, arguments, policy)
        conclusion = await self._interventions.during(rescued)
        if isinstance(conclusion, Failed):
            await desk.recorder.record(not_rescued(desk, step, record, conclusion))
        else:
            await self.settle(step, record, conclusion)

    async def always(self, step: Step, record: StepRecord) -> None:
        """Whatever it comes to changes nothing about the step; what it changed in the workspace is kept."""
        desk = self._desk
        if record.open is None and await self._surroundings.stop_the_run():
            return None
        arguments = desk.arguments(step)
        if record.open is None and not await self._begin_phase(step, record, arguments, "always"):
            return None
        record = desk.current(record)
        performed = desk.attempts.always(step, record, desk.policy(step))
        handled = await self._interventions.during(performed)
        if handled is None:
            return await self._interventions.heed()
        kept, ruin = await self._kept(record)
        await desk.recorder.record(*always_facts(desk, step, record, handled, kept))
        if ruin is not None:
            why = f"always of {step.id} left a workspace that cannot be used: {ruin}"
            await restore(desk, why, current=True)
        return None

    async def _kept(self, record: StepRecord) -> tuple[Kept | None, str | None]:
        """What handlers of a step that is done have left, or why that cannot be stored."""
        desk = self._desk
        try:
            kept = await desk.folder.kept(record) if is_good(record) else None
        except WorkspaceRuined as error:
            return None, error.message
        gone = desk.workspace is not None and not is_folder(desk.folder.current)
        return kept, f"{desk.folder.current} is gone" if gone else None

    async def settle(self, step: Step, record: StepRecord, conclusion: Conclusion) -> None:
        await self._surroundings.look()
        if not isinstance(conclusion, Interrupted):
            return await self._settlement.settle(step, self._desk.current(record), conclusion)
        await self._interventions.heed()
        record = self._desk.current(record)
        if record.open is None or not record.open.launched or not is_going(self._desk):
            return None
        # What the attempt was ended for was refused in the end. It had begun, so it is not simply performed again.
        lost = await lost_attempt(self._desk, record, "the attempt was ended for a control")
        return None if lost is None else await self.settle(step, record, lost)

    async def _begin_phase(self, step: Step, record: StepRecord, arguments: Arguments, phase: str) -> bool:
        desk = self._desk
        start = started(desk, step, record, arguments, desk.pre_state(record), phase=phase)
        return await self._begin(step, record, start)

    async def _begin(self, step: Step, record: StepRecord, start: ev.AttemptStarted) -> bool:
        """Only if no control waits, and no linked run has begun it: the transaction itself looks."""
        recorder = self._desk.recorder
        begun = await recorder.record(tail=[start])
        if recorder.claimed_by is not None:
            await begun_elsewhere(self._desk, step, record, recorder.claimed_by)
        elif recorder.refusal is not None:
            await self._surroundings.block(recorder.refusal)
        elif not begun:
            self._desk.halt.set()
        return begun

    async def _first(self, step: Step, record: StepRecord, arguments: Arguments) -> ev.AttemptStarted:
        """Before the first attempt the world checks are looked at, so that a later look means something."""
        desk, prechecks = self._desk, None
        if record.beginning.prechecks is None and world_checks(step):
            env = environment_of(desk.world, desk.job, step, arguments, record.spent.attempts + 1, {})
            asked_in = env | arguments.expected.env
            prechecks = await desk.attempts.unknown.precheck(
                arguments.of(step), desk.workspace, asked_in, desk.policy(step)
            )
        return started(desk, step, record, arguments, desk.pre_state(record), prechecks=prechecks)
