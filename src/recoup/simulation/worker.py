"""Processes that drive runs and can be killed between any two calls of the ledger, frozen, and refused for a while."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import msgspec

from recoup.engine.breaking import kept_out
from recoup.engine.claim import Claimed, claim
from recoup.engine.driver import Driver
from recoup.engine.generations import Generations
from recoup.engine.world import EarlierRun, Job, World
from recoup.errors import LedgerBusy
from recoup.fleet.linked import LinkedRuns
from recoup.kernel.backoff import delivery_backoff_s
from recoup.kernel.fold import fold
from recoup.kernel.position import is_over, waits_for_a_person
from recoup.model.events import Event
from recoup.model.ids import ProcessIdentity, run_stream
from recoup.model.policy import Policy, WrittenPolicy
from recoup.model.run import RunState, RunStatus
from recoup.ports import Ledger, Redactor
from recoup.simulation.scripted import NoSecrets, Papers, Shelf, StormInspector, StormRuntime, StormWorkspaces
from recoup.simulation.surface import Surface
from recoup.simulation.virtual_loop import VirtualClock
from recoup.streams import pages

LEASE_TTL_S = 30.0
HEARTBEAT_S = 10.0
CONTROL_POLL_S = 4.0
CALLS_MAX = 5_000
"""Of the ledger while one run is driven: no plan and no policy of a storm needs a tenth of it."""


class Killed(BaseException):
    """The process is gone: nothing catches this, and nothing is cleaned up."""


class Endless(BaseException):
    """A run is driven and driven and comes to no end."""


class Fate:
    """What becomes of one process: after how many calls it dies, until when it is frozen, which call is refused."""

    def __init__(self, clock: VirtualClock, now_us: Callable[[], int], died: Callable[[], None]) -> None:
        self._clock = clock
        self._now_us = now_us
        self._died = died
        self.calls = 0
        self._calls_max = math.inf
        self.dead = False
        self.dies_at: int | None = None
        self.dies_after_it = False
        self.busy_at: int | None = None
        self.frozen_until_us = 0

    def must_live(self) -> None:
        if self.dead:
            raise Killed

    @contextlib.contextmanager
    def bounded(self) -> Iterator[None]:
        """What is done meanwhile comes to an end, or is ended."""
        self._calls_max = self.calls + CALLS_MAX
        try:
            yield
        finally:
            self._calls_max = math.inf

    async def before(self) -> None:
        self.must_live()
        self.calls += 1
        if self.calls > self._calls_max:
            raise Endless
        if self.calls == self.dies_at and not self.dies_after_it:
            self.die()
        if self.calls == self.busy_at:
            raise LedgerBusy("no turn at the ledger in this storm", hint="Try again a little later.")
        while self._now_us() < self.frozen_until_us:
            await self._clock.sleep((self.frozen_until_us - self._now_us()) / 1e6)
            self.must_live()

    def after(self) -> None:
        self.must_live()
        if self.calls >= (self.dies_at or self.calls + 1):
            self.die()

    def die(self) -> None:
        self.end()
        raise Killed

    def end(self) -> None:
        """From now on every call of the process ends in nothing."""
        self.dead = True
        self._died()


class MortalLedger:
    """A ledger as one process sees it, as long as it lives."""

    def __init__(self, ledger: Ledger, fate: Fate) -> None:
        self._ledger = ledger
        self._fate = fate

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method, fate = getattr(self._ledger, name), self._fate
        if not inspect.iscoroutinefunction(method):
            return cast("Callable[..., Any]", method)  # it asks nobody

        async def call(*args: Any, **named: Any) -> Any:
            await fate.before()
            answer = await method(*args, **named)
            fate.after()
            return answer

        setattr(self, name, call)
        return call


class StormCensus:
    """Who lives is known to all: they are on one machine."""

    def __init__(self, own: ProcessIdentity, dead: set[ProcessIdentity]) -> None:
        self._own = own
        self._dead = dead

    def own_identity(self) -> ProcessIdentity:
        return self._own

    def is_alive(self, identity: ProcessIdentity) -> bool | None:
        return identity not in self._dead

    async def clear(self, run_id: str, keeper: ProcessIdentity | None) -> None:
        del run_id, keeper


class PolicyOnDisk:
    """A policy file that chance writes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._written: WrittenPolicy | None = None
        self._news = False

    def write(self, written: WrittenPolicy) -> None:
        self._written, self._news = written, True

    def look(self) -> WrittenPolicy | None:
        news, self._news = self._news, False
        return self._written if news else None

    def read(self) -> WrittenPolicy:
        return self._written or WrittenPolicy("", None, f"{self.name} was never written")


class Left(NamedTuple):
    """How a run was left: how long to wait before it is worth another look (None: a person must), and whether it is
    over."""

    look_again_s: float | None
    over: bool = False
    closed: bool = False
    """Its workflow lets nothing run until then."""


class Process:
    """One process: an identity, a fate, and a world that ends with it."""

    def __init__(
        self, surface: Surface, ledger: Ledger, identity: ProcessIdentity, disk: PolicyOnDisk
    ) -> None:
        self._surface = surface
        self.identity = identity
        self.fate = Fate(surface.clock, lambda: surface.loop.now_us, lambda: surface.dead.add(identity))
        self.ledger = cast(Ledger, MortalLedger(ledger, self.fate))
        redactor: Redactor = surface.redactor
        self.world = World(
            clock=surface.clock,
            ledger=self.ledger,
            redactor=redactor,
            evidence=Shelf(),
            inspector=StormInspector(surface.truth),
            census=StormCensus(identity, surface.dead),
            runtimes={"run": self._runtime(inline=False), "python": self._runtime(inline=True)},
            environ={},
            generations=Generations(self.ledger, redactor, surface.clock, disk),
            lease_ttl_s=LEASE_TTL_S,
            heartbeat_s=HEARTBEAT_S,
            control_poll_s=CONTROL_POLL_S,
            escalation_id=surface.new_escalation_id,
        )
        papers = cast(Any, self._files)  # a folder of which nothing is read: no plan here holds a secret
        self._linked = LinkedRuns(self.world, self.events, papers, lambda _files: NoSecrets())

    async def drive(self, run_id: str) -> Left:
        """Drive it until it ends or waits."""
        with self.fate.bounded():
            return await self._drive(run_id)

    async def _drive(self, run_id: str) -> Left:
        taken = await claim(self.world, run_id)
        if not isinstance(taken, Claimed):
            return Left(LEASE_TTL_S / 2)
        state = await self.state(run_id)
        if is_over(state) or waits_for_a_person(state):
            await self.ledger.release(taken.lease)
            return left(state)
        job = await self._job(state)
        now = self._surface.clock.now()
        if (state.begun or state.status is RunStatus.BLOCKED) and (
            refusal := await kept_out(
                *(self.ledger, self.world.redactor, state.workflow, run_id, job.policy, now)
            )
        ):
            await self.ledger.release(taken.lease)
            return Left(max(1.0, refusal.left_s or 60.0), closed=True)
        state = await Driver(self.world, job, state, taken.lease, taken.replaced).drive()
        return left(state)

    async def answer(self, run_id: str) -> RunState | None:
        """Carry out what was asked of a run that nobody drives. None: somebody does."""
        taken = await claim(self.world, run_id)
        if not isinstance(taken, Claimed):
            return None
        state = await self.state(run_id)
        driver = Driver(self.world, await self._job(state), state, taken.lease, taken.replaced)
        return await driver.answer()

    async def state(self, run_id: str) -> RunState:
        return fold(run_id, await self.events(run_id))

    async def events(self, run_id: str) -> list[Event]:
        return [event async for page in pages(self.ledger.read, run_stream(run_id)) for event in page]

    async def _job(self, state: RunState) -> Job:
        body = await self.ledger.policy_body(state.submission.policy_digest)
        assert body is not None, f"run {state.run_id}: its policy is not in the ledger"
        begins_linked = state.lineage.reuse_from is not None and not state.begun
        return Job(
            run_id=state.run_id,
            plan=state.plan,
            policy=msgspec.json.decode(body, type=Policy),
            files=self._files(state.run_id),
            redactor=self._surface.redactor,
            secrets=NoSecrets(),
            workspaces=self._workspaces(state),
            earlier=await self._earlier(state) if begins_linked else None,
        )

    async def _earlier(self, state: RunState) -> EarlierRun | None:
        return await self._linked.earlier(state.lineage.reuse_from or "", state.plan, self._surface.redactor)

    def _files(self, run_id: str) -> Papers:
        return Papers(self._surface.root / run_id)

    def _workspaces(self, state: RunState) -> StormWorkspaces | None:
        return None if state.plan.workspace is None else self._surface.workspaces(state.run_id)

    def _runtime(self, *, inline: bool) -> StormRuntime:
        surface = self._surface
        return StormRuntime(
            inline=inline,
            clock=surface.clock,
            truth=surface.truth,
            seed=surface.seed,
            trouble=surface.trouble,
            touch=surface.touch,
            must_live=self.fate.must_live,
        )


def left(state: RunState) -> Left:
    if is_over(state) or waits_for_a_person(state):
        return Left(None, is_over(state))
    if state.status is RunStatus.FAILED:
        return Left(float(delivery_backoff_s(state.driver.delivery)))
    return Left(20.0 if state.status is RunStatus.BLOCKED else 0.0)
