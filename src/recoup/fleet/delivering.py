"""One run in the hands of a worker: whether it may be driven now, and when it is worth another look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from recoup.engine.breaking import blocked_words, kept_out
from recoup.engine.claim import Claimed, Crowded, Held, claim_within, or_released
from recoup.engine.driver import Driver
from recoup.engine.verification import TROUBLES_MAX
from recoup.engine.world import World
from recoup.errors import LeaseLost, LedgerError, RecoupError, SettingsError, is_trouble
from recoup.kernel.backoff import due_in_s
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.position import is_over, waits_for_a_person
from recoup.model.instant import Instant
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Crowd, SeenWorker

CROWDED_S = 0.5
CROWDED_MAX_S = 30.0
"""How soon a run is looked at again that found no room; twice as long each time."""
FULL_S = 0.2
REFUSALS_MAX = 5
DUE_MAX_S = 300.0
"""A run whose time has not come is looked at again by then: our clock may be the one that is wrong."""
_REMEMBERED_MAX = 10_000
OPEN_S = 0.25
"""How long it is taken for granted that a workflow which let one run go on lets others."""
_OPEN_MAX = 1_000
CLOSED_S = 30.0
"""So long at most, one whose workflow lets nothing run: an operator may change their mind."""


PAGE_FREE_S = 30.0
"""How long a run that may continue is left to a worker that has its page open, answers, and has a place free."""
PAGE_BUSY_S = 3.0
"""The same for one that has no place free."""
PAGE_AGAIN_S = 0.5


class Left(msgspec.Struct, frozen=True):
    """How a run was left."""

    again_in_s: float | None
    """When it is worth another look. None: never, unless somebody does something about it."""
    words: str
    state: RunState | None = None
    quiet: bool = False
    """Not worth a word: it would be said again and again."""
    trouble: str = ""
    """Why this machine could not drive it. The run has spent nothing, and another worker may take it at once."""
    stuck: bool = False
    """Waiting does not help: a person or another worker must act first."""


class RunSource(Protocol):
    """What a worker needs to drive any run."""

    async def known_state(self, run_id: str) -> RunState | None:
        """None: there is no such run."""
        ...

    async def policy_of(self, state: RunState) -> Policy: ...

    async def driver_of(self, state: RunState, taken: Claimed) -> Driver: ...

    def decliner_of(self, state: RunState, policy: Policy, taken: Claimed) -> Driver:
        """For a run that cannot be driven here: it needs nothing but the ledger."""
        ...

    async def report_if_due(self, state: RunState) -> list[str]: ...


class Deliveries(msgspec.Struct, frozen=True):
    """Drives any run for a worker, or says when to look again."""

    world: World
    runs: RunSource
    _full: dict[tuple[Crowd, ...], Instant] = msgspec.field(default_factory=dict)
    """When a run of all these crowds last found no room. Nobody says which of them was full."""
    _waits: dict[str, float] = msgspec.field(default_factory=dict)
    """How long a run that found no room was put off last."""
    _refusals: dict[str, int] = msgspec.field(default_factory=dict)
    """How often a run could not be driven here, for a reason that is ours."""
    _open: dict[tuple[str, str], Instant] = msgspec.field(default_factory=dict)
    """When a workflow last let a run go on, by the policy of that run."""

    async def deliver(self, run_id: str, on_driver: Callable[[Driver], None]) -> Left:
        """Drive it as far as it goes. Raises LeaseLost, LedgerError: then nothing is known."""
        state = await self.runs.known_state(run_id)
        if state is None:
            return Left(None, "there is no such run")
        policy = await self.runs.policy_of(state)
        early = (
            self._too_early(state) or await self._page_elsewhere(state) or await self._kept_out(state, policy)
        )
        if early is not None:
            return early
        crowds = crowds_of(state, policy)
        taken = await self._claimed_within(run_id, crowds)
        if isinstance(taken, Crowded):
            return self._crowded(state)
        self._waits.pop(run_id, None)
        if isinstance(taken, Held):
            return Left(None, "another worker drives it", state)
        return await self._drive(state, taken, policy, on_driver)

    async def _claimed_within(self, run_id: str, crowds: tuple[Crowd, ...]) -> Claimed | Held | Crowded:
        """Where there was no room a moment ago nobody asks again: thousands may wait for it."""
        now = self.world.clock.now()
        if crowds in self._full and elapsed_s(self._full[crowds], now, FULL_S) < FULL_S:
            return Crowded()
        taken = await claim_within(self.world, run_id, crowds)
        if isinstance(taken, Crowded):
            if len(self._full) >= _REMEMBERED_MAX:
                self._full.clear()
            self._full[crowds] = now
        return taken

    def _crowded(self, state: RunState) -> Left:
        if len(self._waits) >= _REMEMBERED_MAX:
            self._waits.clear()
        wait_s = min(CROWDED_MAX_S, self._waits.get(state.run_id, CROWDED_S / 2) * 2)
        self._waits[state.run_id] = wait_s
        return Left(wait_s, "as many runs as may be driven at once are", state, quiet=True)

    async def _drive(
        self, state: RunState, taken: Claimed, policy: Policy, on_driver: Callable[[Driver], None]
    ) -> Left:
        async with or_released(self.world.ledger, taken.lease):
            if taken.lease.epoch > 1:  # others had it, and one may have had it since we looked
                now = await self.runs.known_state(state.run_id)
                assert now is not None, "what was claimed is there"
                if now.seq != state.seq and self._too_early(now) is not None:
                    await self.world.ledger.release(taken.lease)
                    return Left(0.0, "it has changed", now)
                state = now
            try:
                driver = await self.runs.driver_of(state, taken)
            except (LeaseLost, LedgerError):
                raise
            except SettingsError as error:
                return await self._not_here(state, policy, taken, error)
            except Exception as error:  # noqa: BLE001 whatever keeps a run from this machine: the run says so
                return await self._not_begun(state, policy, taken, error)
        on_driver(driver)
        try:
            state = await driver.drive(stays=True)
        except (LeaseLost, LedgerError):
            raise
        except Exception as error:  # noqa: BLE001 the driver has given the run back
            return await self._stopped(driver.state, policy, error)
        return await self._left(state)

    async def _not_begun(self, state: RunState, policy: Policy, taken: Claimed, error: Exception) -> Left:
        """No driver could be made for it here."""
        if not await self._is_the_machine(state.driver.troubles + 1, error):
            return await self._declined(state, policy, taken, error)
        state = await self.runs.decliner_of(state, policy, taken).give_back(_words(error))
        return Left(0.0, f"not driven here: {_words(error)}", state, trouble=_words(error))

    async def _stopped(self, state: RunState, policy: Policy, error: Exception) -> Left:
        """Its driver raised an error, and has given the run back if it could."""
        if await self._is_the_machine(state.driver.troubles, error):
            return Left(0.0, f"{state.status}: {_words(error)}", state, trouble=_words(error))
        return await self._in_trouble(state.run_id, policy, error)

    async def _is_the_machine(self, troubles: int, error: Exception) -> bool:
        """Whether the machine is at fault. A run that meets such trouble again and again while this machine is well has
        to pay for it, or it would be taken for ever. `troubles`: how often, with this one."""
        machine = self.world.machine
        if not is_trouble(error) and (machine is None or machine.behind(error) is None):
            return False
        return troubles <= TROUBLES_MAX or (machine is not None and await machine.trouble() is not None)

    async def _in_trouble(self, run_id: str, policy: Policy, error: Exception) -> Left:
        """This program is wrong, or the run meets trouble wherever it goes: the delivery counts, so that the run does
        not come again and again."""
        taken = await claim_within(self.world, run_id, ())
        state = await self.runs.known_state(run_id)
        if not isinstance(taken, Claimed) or state is None:
            return Left(None, f"another worker drives it since: {_words(error)}")
        async with or_released(self.world.ledger, taken.lease):
            return await self._declined(state, policy, taken, error)

    async def _not_here(self, state: RunState, policy: Policy, taken: Claimed, error: SettingsError) -> Left:
        """This worker is not set up for it; another one may be. Only when none has come does the run pay for it."""
        times = self._refusals.pop(state.run_id, 0) + 1
        if times > REFUSALS_MAX:
            return await self._declined(state, policy, taken, error)
        if len(self._refusals) >= _REMEMBERED_MAX:
            self._refusals.clear()
        self._refusals[state.run_id] = times
        await self.world.ledger.release(taken.lease)
        return Left(float(2**times), f"it cannot be driven here: {_words(error)}", state)

    async def _declined(self, state: RunState, policy: Policy, taken: Claimed, error: Exception) -> Left:
        state = await self.runs.decliner_of(state, policy, taken).decline(_words(error))
        return await self._left(state)

    async def _left(self, state: RunState) -> Left:
        said = await self.runs.report_if_due(state)
        again_in_s = None if is_over(state) or waits_for_a_person(state) else self._again_in_s(state)
        words = "; ".join([f"{state.status}: {state.reason}", *said])
        return Left(again_in_s, words, state, stuck=state.status is RunStatus.BLOCKED)

    def _again_in_s(self, state: RunState) -> float:
        if state.status is RunStatus.BLOCKED:
            return CLOSED_S
        return due_in_s(state, self.world.clock.now())

    def _too_early(self, state: RunState) -> Left | None:
        if is_over(state):
            return Left(None, f"it is over: {state.status}", state)
        if waits_for_a_person(state):
            return Left(None, f"it waits for a person: {state.reason}", state)
        due_s = due_in_s(state, self.world.clock.now())
        return Left(min(due_s, DUE_MAX_S), f"it is due in {due_s:.0f} s", state) if due_s > 0 else None

    async def _page_elsewhere(self, state: RunState) -> Left | None:
        """A worker that keeps the browser of the run open is first to continue it, after a person has answered."""
        released, now = state.clocks.updated_at, self.world.clock.now()
        if state.hold.waiting_for != "driver" or released is None:
            return None
        if not any(record.results.page for record in state.steps):
            return None
        if state.driver.owner == self.world.census.own_identity():
            return None
        waited_s = elapsed_s(released, now, PAGE_FREE_S)
        if waited_s >= PAGE_FREE_S:
            return None
        holders = [one for one in await self.world.ledger.workers(now) if self._keeps_page(one, state.run_id)]
        limit_s = PAGE_FREE_S if any(map(_has_place, holders)) else PAGE_BUSY_S
        if not holders or waited_s >= limit_s:
            return None
        return Left(PAGE_AGAIN_S, "another worker has its page open", state, quiet=True)

    def _keeps_page(self, seen: SeenWorker, run_id: str) -> bool:
        """One that has died, or has not answered for a lease, has lost the page with its browser."""
        if (
            seen.unreadable
            or run_id not in seen.worker.waiting_pages
            or seen.silent_s >= self.world.lease_ttl_s
        ):
            return False
        return self.world.census.is_alive(seen.worker.identity) is not False

    async def leave_others(self) -> None:
        """Close what stays open for runs that have ended, or that others have driven since."""
        for make in self.world.kinds.values():
            kind = make()
            for run_id, epoch in kind.waiting().items():
                state = await self.runs.known_state(run_id)
                if state is None or is_over(state) or state.driver.epoch != epoch:
                    await kind.leave(run_id)

    async def _kept_out(self, state: RunState, policy: Policy) -> Left | None:
        now, key = self.world.clock.now(), (state.workflow, state.submission.policy_digest)
        if key in self._open and elapsed_s(self._open[key], now, OPEN_S) < OPEN_S:
            return None  # what has changed since is seen by the transaction that begins a step
        about = (state.workflow, state.run_id, policy, now)
        refusal = await kept_out(self.world.ledger, self.world.redactor, *about)
        if refusal is None:
            if len(self._open) >= _OPEN_MAX:
                self._open.clear()
            self._open[key] = now
            return None
        self._open.pop(key, None)
        again_s = CLOSED_S if refusal.left_s is None else min(CLOSED_S, max(0.1, refusal.left_s))
        return Left(again_s, blocked_words(state.workflow, refusal, now), state, stuck=True)


def _has_place(seen: SeenWorker) -> bool:
    worker = seen.worker
    return not worker.draining and not worker.trouble and len(worker.runs) < worker.concurrency


def crowds_of(state: RunState, policy: Policy) -> tuple[Crowd, ...]:
    crowds = []
    if policy.workflow_concurrency_max:
        crowds.append(Crowd("workflow", state.workflow, policy.workflow_concurrency_max))
    if policy.queue_concurrency_max and state.queueing.queue:
        crowds.append(Crowd("queue", state.queueing.queue, policy.queue_concurrency_max))
    return tuple(crowds)


def _words(error: Exception) -> str:
    words = error.message if isinstance(error, RecoupError) else str(error)
    return words.strip() or type(error).__name__
