"""Runs are driven: claimed, taken up where they were left, and never while somebody else does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from recoup.damage import state_after
from recoup.engine.breaking import blocked_words, kept_out
from recoup.engine.claim import Claimed, Held, claim, claim_above, or_released
from recoup.engine.driver import Driver
from recoup.engine.entry import is_redelivery
from recoup.engine.generations import Generations
from recoup.engine.world import Watcher, World
from recoup.errors import (
    LedgerError,
    NotFound,
    RowUnreadable,
    SettingsError,
    StateError,
    UsageError,
    WaitsForOperator,
    WorkflowBlocked,
    about_run,
)
from recoup.fleet.delivering import Deliveries
from recoup.fleet.jobs import Jobs
from recoup.fleet.queued import hint_of
from recoup.kernel.commands import control_command
from recoup.kernel.controls import CONTROLS, wish
from recoup.kernel.controls.cancellation import CANCEL
from recoup.kernel.controls.hold import PAUSE, RESUME
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.position import is_over
from recoup.model.dispatch import Hint
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Control, LeaseRow

if TYPE_CHECKING:
    from recoup.kernel.preview import Preview

_POLICY_LOOK_S = 1.0


class Driving:
    """Of any run, by whoever may."""

    def __init__(
        self,
        world: World,
        jobs: Jobs,
        generations: Generations,
        hint: Callable[[Hint, float], Awaitable[str | None]],
        report_if_due: Callable[[RunState], Awaitable[list[str]]],
        wind_up: Callable[[RunState], Awaitable[list[str]]],
    ) -> None:
        self._world = world
        self._jobs = jobs
        self._records = jobs.records
        self._generations = generations
        self._hint = hint
        self._report_if_due = report_if_due
        self._wind_up = wind_up

    async def drive(
        self, run_id: str, watcher: Watcher, on_driver: Callable[[Driver], None] = lambda _driver: None
    ) -> RunState:
        """Drive a run until it ends, waits or is interrupted."""
        with about_run(run_id):
            driver = await self._driver(run_id, watcher)
            on_driver(driver)
            return await driver.drive()

    def deliveries(self) -> Deliveries:
        """For a worker: any run is driven, unless it waits for something."""
        return Deliveries(self._world, self)

    async def known_state(self, run_id: str) -> RunState | None:
        events = await self._records.events(run_id)
        return state_after(run_id, events) if events else None

    async def driver_of(self, state: RunState, taken: Claimed) -> Driver:
        """For a run whose workflow was just found to be open."""
        above = await self._above(taken)
        if above.lease != taken.lease:
            state = await self._records.state(state.run_id)
        job = await self._jobs.of(state, Watcher(), above.lease)
        return Driver(self._world, job, state, above.lease, above.replaced, mode_checked=True)

    def decliner_of(self, state: RunState, policy: Policy, taken: Claimed) -> Driver:
        job = self._jobs.without_secrets(state, policy)
        return Driver(self._world, job, state, taken.lease, taken.replaced)

    async def report_if_due(self, state: RunState) -> list[str]:
        return await self._report_if_due(state)

    async def carry_out(self, control: Control) -> RunState | None:
        """Carry out the controls of a run that nobody drives. None: somebody does, or did a moment ago."""
        taken = await self._claimed(control.run_id)
        if isinstance(taken, Held):
            return None
        with about_run(control.run_id):
            return await self._carried_out(control, taken)

    async def _carried_out(self, control: Control, taken: Claimed) -> RunState:
        async with or_released(self._world.ledger, taken.lease):
            state = await self._records.state(control.run_id)
            try:
                job = await self._jobs.of(state, Watcher(), taken.lease)
            except (SettingsError, NotFound, StateError):
                if CONTROLS[control.action].needs_secrets:
                    raise
                job = await self._jobs.bare(state)
            return await self._answered(Driver(self._world, job, state, taken.lease, taken.replaced))

    async def foresee(
        self, run_id: str, action: str, step_id: str | None = None, argument: str | None = None
    ) -> Preview:
        """What a control would do now. Nothing is sent."""
        from recoup.kernel.preview import preview

        state = await self._records.state(run_id)
        control = wish(state, action, step_id, argument)
        return preview(state, control, await self.policy_of(state), await self.is_driven(run_id))

    async def policy_of(self, state: RunState) -> Policy:
        """The one that everybody follows, as the run will from its next step on."""
        newest = await self._generations.current_within(_POLICY_LOOK_S)
        return newest or await self._records.policy(state.submission.policy_digest)

    async def shown_policy_of(self, state: RunState) -> Policy:
        """The same for people who look: where it cannot be read, the last one that could."""
        try:
            return await self.policy_of(state)
        except LedgerError:
            return (await self._generations.seen())[0]

    async def is_driven(self, run_id: str) -> bool:
        """Somebody holds its lease, and it has not run out; or nobody can know."""
        try:
            return await self._holding(run_id) is not None
        except RowUnreadable:
            return True

    async def must_not_be_driven(self, state: RunState) -> None:
        """Nobody changes what another run is to build on: not even one whose lease has run out, if it may live."""
        lease = None if state.status.is_terminal else await self._lease_of_the_living(state.run_id)
        if lease is None:
            return
        raise UsageError(
            self._held_words(state.run_id, lease),
            hint=f"Stop it first: {control_command(state.run_id, PAUSE.name)} (or {CANCEL.name})",
        )

    async def must_be_free(self, run_id: str) -> None:
        """Nobody holds it now: its driver gave it back, is dead, or let the lease run out."""
        lease = await self._holding(run_id)
        if lease is not None:
            resume = control_command(run_id, RESUME.name)
            hint = f"Watch it: recoup events {run_id} --follow. Take a pause back: {resume}"
            raise UsageError(self._held_words(run_id, lease), hint=hint)

    async def must_not_be_blocked(self, state: RunState) -> None:
        """The mode of its workflow lets it go on. Raises WorkflowBlocked."""
        await self._must_not_be_blocked(state, await self._records.policy(state.submission.policy_digest))

    async def _holding(self, run_id: str) -> LeaseRow | None:
        lease = await self._lease_of_the_living(run_id)
        if lease is None or elapsed_s(lease.renewed_at, self._world.clock.now(), lease.ttl_s) >= lease.ttl_s:
            return None
        return lease

    def _held_words(self, run_id: str, lease: LeaseRow) -> str:
        owner = lease.owner
        if owner is None:
            return f"run {run_id} is being driven by another driver"
        is_here = self._world.census.is_alive(owner) is not None
        where = "on this machine" if is_here else f"on {owner.host}"
        return f"run {run_id} is being driven by process {owner.pid} {where}"

    async def _lease_of_the_living(self, run_id: str) -> LeaseRow | None:
        """None: nobody has it, or whoever had it is proven dead."""
        lease = await self._world.ledger.lease(run_id)
        if lease is None or lease.owner is None or self._world.census.is_alive(lease.owner) is False:
            return None
        return lease

    async def _driver(self, run_id: str, watcher: Watcher) -> Driver:
        taken = await self._claimed(run_id)
        if isinstance(taken, Held):
            raise UsageError(
                self._held_words(run_id, taken.by), hint=f"Watch it: recoup events {run_id} --follow"
            )
        async with or_released(self._world.ledger, taken.lease):
            state = await self._records.state(run_id)
            _must_be_drivable(state)
            job = await self._jobs.of(state, watcher, taken.lease)
            driver = Driver(self._world, job, state, taken.lease, taken.replaced)
            try:
                await self._must_not_be_blocked(state, job.policy)
                await self._jobs.linked.must_not_repeat(state, job)
            except UsageError:
                # The lease is ours now: who comes next cannot see that an owner was lost.
                if taken.replaced is not None:
                    await self._answered(driver)
                raise
        return driver

    async def _claimed(self, run_id: str) -> Claimed | Held:
        taken = await claim(self._world, run_id)
        return taken if isinstance(taken, Held) else await self._above(taken)

    async def _above(self, taken: Claimed) -> Claimed:
        """All who have driven it here were before us, also those of whom the ledger does not know."""
        return await claim_above(self._world, taken, self._records.files(taken.lease.run_id).newest_epoch)

    async def _answered(self, driver: Driver) -> RunState:
        """A run may end by an answer too: by a wish, or because its driver was lost once too often."""
        before = driver.state.status
        state = await driver.answer()
        if state.status is not before:
            await self._wind_up(state)
        if (hint := hint_of(state)) is not None and not is_over(state):
            await self._hint(hint, 0)
        return state

    async def _must_not_be_blocked(self, state: RunState, policy: Policy) -> None:
        """A run that was never begun is begun as blocked; one that was stays as it is and spends no delivery."""
        if not state.begun:
            return
        now = self._world.clock.now()
        refusal = await kept_out(
            self._world.ledger, self._world.redactor, state.workflow, state.run_id, policy, now
        )
        if refusal is not None:
            raise WorkflowBlocked(
                blocked_words(state.workflow, refusal, now), hint=f"Then: recoup resume {state.run_id}"
            )


def _must_be_drivable(state: RunState) -> None:
    if is_redelivery(state) or not (state.status.is_terminal or state.status is RunStatus.ESCALATED):
        return
    if state.status is RunStatus.ESCALATED:
        raise WaitsForOperator(
            f"run {state.run_id} waits for an operator: {state.reason}",
            hint=f"See what to do: recoup show {state.run_id}",
        )
    raise UsageError(
        f"run {state.run_id} has ended: {state.status}",
        hint=f"Mend the cause, then go on in a new run: recoup resume {state.run_id}",
    )
