"""One resource: what happened to it, what the kernel says about it, what is done.

Everything that happens is put into an inbox and dealt with one after the other by one task, so that nothing is decided
on a state that another decision is about to change. What is known is in the ledger; how the resource looks is in the
`Outlook`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from msgspec.structs import replace

from recoup.errors import LeaseLost, LedgerError
from recoup.kernel.probe import MANUAL, decide_fault, due_in_s, gives_back, retries_used, spent_limit
from recoup.kernel.probe_rules import may_be_acted_on
from recoup.model import events as ev
from recoup.model.instant import Instant
from recoup.model.probe import (
    Action,
    ChannelKind,
    Command,
    CommandKind,
    Downgrade,
    Escalate,
    Fault,
    Finish,
    Health,
    Leave,
    Phase,
    Planned,
    Resource,
    ResourceState,
    Retry,
    Step,
)
from recoup.model.storage import ControlAck
from recoup.probe import facts
from recoup.probe.looker import Looker
from recoup.probe.outlook import Outlook
from recoup.probe.ports import Done, Holder
from recoup.probe.recorder import NEW, ProbeRecorder
from recoup.probe.world import ProbeWorld

ACTION_S: Final = 300.0
"""The longest that an action may take, whatever limits of its own it has."""
LEDGER_PAUSE_S: Final = 1.0
PAUSE_MIN_S: Final = 0.01
FAULTS_MAX: Final = 10_000
"""That wait to be dealt with. More of them say nothing new; orders and commands are never left out for them."""

_WELL: Final = (Health.HEALTHY, Health.DEGRADED)


class Neighbours(Protocol):
    """The other resources, as one of them sees them."""

    def needs_stand(self, resource: Resource) -> str | None:
        """None: all that it needs is there. Otherwise which is not."""
        ...

    def needs_shake(self, resource: Resource) -> bool:
        """Something that it needs is in trouble: whatever is wrong with it now may come from there."""
        ...

    async def put_down_dependents(self, resource: Resource) -> None: ...

    def changed(self, resource: Resource) -> None:
        """Tell those that need it."""
        ...


@dataclass(slots=True)
class _PutDown:
    reason: str
    phase: Phase
    done: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class _Told:
    command: Command
    acks: Sequence[ControlAck]


_Message = Fault | _PutDown | _Told


class Minder:
    """Looks after one resource until it is put down for good."""

    def __init__(
        self,
        world: ProbeWorld,
        recorder: ProbeRecorder,
        resource: Resource,
        holder: Holder,
        lookers: Sequence[Looker],
        neighbours: Neighbours,
    ) -> None:
        self._world = world
        self._recorder = recorder
        self.resource = resource
        self._holder = holder
        self._neighbours = neighbours
        self._inbox: deque[_Message] = deque()
        self._wake = asyncio.Event()
        self._outlook = Outlook(world.clock, lookers, holder.settle_s, self._wake.set)
        self._up = False
        self._completed = False
        self._halted = False
        self._cause: Fault | None = None
        """Why the channel was just downgraded: what goes wrong until it is proven has the same cause."""

    # What others see

    @property
    def state(self) -> ResourceState:
        known = self._recorder.state.resources
        if self.resource.id not in known:
            known[self.resource.id] = ResourceState(resource_id=self.resource.id)
        return known[self.resource.id]

    @property
    def stands(self) -> bool:
        """Others may rest on it. What has done its work and ended stands too."""
        return self.state.phase is Phase.RUNNING or self._completed

    @property
    def health(self) -> Health:
        """As it looks now."""
        if not self._up:
            return Health.UNKNOWN if self.state.phase in (Phase.WAITING, Phase.STOPPED) else Health.UNHEALTHY
        health = self._outlook.health
        return Health.DEGRADED if health is Health.HEALTHY and self.state.mode else health

    def fault(self, fault: Fault) -> None:
        if len(self._inbox) < FAULTS_MAX:
            self._put(fault)

    def tell(self, command: Command, acks: Sequence[ControlAck] = ()) -> None:
        self._put(_Told(command, acks))

    async def put_down(self, reason: str, phase: Phase) -> None:
        """Returns when nothing of it is left. With `STOPPED`: for good."""
        order = _PutDown(reason, phase)
        self._put(order)
        await order.done.wait()

    def wake(self) -> None:
        self._wake.set()

    def _put(self, message: _Message) -> None:
        self._inbox.append(message)
        self._wake.set()

    # The loop

    async def mind(self) -> None:
        while not await self._took_up():
            await self._world.clock.wait(asyncio.Event(), LEDGER_PAUSE_S)
        while not self._halted:
            pause_s = await self._turn()
            if not self._inbox and not self._halted:
                await self._world.clock.wait(self._wake, pause_s)
            self._wake.clear()

    async def let_go(self) -> None:
        """The lease is lost: whatever is there must end, also what was just being started, and nothing can be recorded
        any more."""
        self._outlook.rest()
        self._up = False
        await self._limited(self._holder.stop())

    async def _turn(self) -> float | None:
        """Deal with one thing; how long the next one takes at most."""
        message = self._inbox.popleft() if self._inbox else None
        try:
            await (self._go_on() if message is None else self._hear(message))
        except LeaseLost:
            raise
        except LedgerError:
            # Nothing is done that could not be recorded; the same thing comes again.
            if message is not None and not self._halted:
                self._inbox.appendleft(message)
                await self._world.clock.wait(asyncio.Event(), LEDGER_PAUSE_S)
            return LEDGER_PAUSE_S
        next_s = self._next_s()
        return None if next_s is None else max(next_s, PAUSE_MIN_S)

    async def _hear(self, message: _Message) -> None:
        match message:
            case Fault():
                await self._hear_fault(message)
            case _Told():
                await self._obey(message)
            case _PutDown():
                await self._lay_down(message)

    async def _go_on(self) -> None:
        """Whatever is due."""
        match self.state.phase:
            case Phase.WAITING if self._neighbours.needs_stand(self.resource) is None:
                await self._start()
            case Phase.RECOVERING if self.state.planned is not None:
                await self._go_on_planned(self.state.planned)
            case Phase.STARTING | Phase.RECOVERING if self._outlook.proving:
                await self._go_on_proving()
            case Phase.FAILED if self._up and self.health in _WELL:
                await self._run("it is healthy again, without an action")
            case Phase.RUNNING:
                await self._go_on_running()

    def _next_s(self) -> float | None:
        now, period_s = self._world.clock.now(), self.resource.start_period_s
        due = [due_in_s(self.state, now), self._outlook.settles_in_s(now)]
        due += [self._outlook.proof_due_in_s(period_s, now), self._gives_back_in_s()]
        return min((one for one in due if one is not None), default=None)

    def _gives_back_in_s(self) -> float | None:
        reset_s = self.resource.budget.healthy_reset_s
        if self.state.phase is not Phase.RUNNING or not gives_back(self.state, self.resource, reset_s):
            return None
        healthy_s = self._outlook.healthy_s(reset_s)
        return reset_s - healthy_s if healthy_s else None

    # Beginning

    async def _took_up(self) -> bool:
        """From what the ledger says of it. A deadline that an earlier probe has set stands; what it had begun and not
        ended is used up; what it had handed over stays so. False: the ledger is not there."""
        state = self.state
        try:
            if state.attempted is not None:
                reason = "the probe was lost before the result of its action was known"
                lost = Fault(
                    fault_class=state.attempted.fault.fault_class, reason=reason, error_code="probe_lost"
                )
                await self._handle(lost)
            elif state.phase is not Phase.FAILED and state.planned is None:
                missing = self._neighbours.needs_stand(self.resource)
                reason = f"needs {missing}" if missing else "the probe starts"
                await self._record(facts.entered(state, Phase.WAITING, reason, correlation_id=NEW))
        except LeaseLost:
            raise
        except LedgerError:
            return False
        return True

    async def _start(self) -> None:
        await self._record(facts.entered(self.state, Phase.STARTING, "what it needs is there"))
        await self._do(self._holder.start())

    # Faults

    async def _hear_fault(self, fault: Fault) -> None:
        if not self._up:
            return  # about something that was put down
        if self._cause is not None:
            fault = replace(fault, fault_class=self._cause.fault_class)
        self._outlook.report(fault)
        await self._consider(fault)

    async def _consider(self, fault: Fault) -> None:
        """Act on it, unless that is under way, was refused, or would treat the wrong one."""
        if self.state.planned is not None or self.state.phase in (Phase.FAILED, Phase.STOPPED):
            return
        if self.state.attempted is None and self._neighbours.needs_shake(self.resource):
            return
        await self._handle(fault)

    async def _handle(self, fault: Fault) -> None:
        state = self.state
        step = decide_fault(
            *(self._recorder.state, state, self.resource, fault, self._world.clock.now()),
            chance=self._world.chance(),
        )
        told: list[ev.ProbePayload] = [*facts.failed(state, fault), *self._consequences(step, fault)]
        if state.phase is not Phase.RECOVERING:
            told[0] = replace(told[0], correlation_id=NEW)
        await self._record(*told)
        self._outlook.proving = False
        if isinstance(step, Finish):
            self._completed = True
            await self._put_away()
        self._neighbours.changed(self.resource)
        if isinstance(step, Downgrade):
            self._cause = step.fault
            await self._do(self._holder.downgrade(step.to_mode))

    def _consequences(self, step: Step, fault: Fault) -> Sequence[ev.ProbePayload]:
        state = self.state
        into = () if state.phase is Phase.RECOVERING else (facts.faulty(state, Phase.RECOVERING, fault),)
        match step:
            case Retry():
                return [*into, facts.planned(state, step)]
            case Downgrade():
                return [facts.downgraded(state, step), *into]
            case Escalate():
                escalated = facts.escalated(state, self._recorder.state.probe_id, step)
                return [escalated, facts.faulty(state, Phase.FAILED, fault)]
            case Leave():
                return [facts.faulty(state, Phase.FAILED, fault, step.reason)]
            case Finish():
                return [facts.entered(state, Phase.STOPPED, fault.reason)]

    # Acting

    async def _go_on_planned(self, planned: Planned) -> None:
        if self._up and self.health is Health.HEALTHY:
            await self._run("it is healthy again, without an action")
        elif due_in_s(self.state, self._world.clock.now()) == 0:
            missing = self._neighbours.needs_stand(self.resource)
            if missing is None:
                await self._act(planned.action, planned.fault, planned.retry_count, planned.backoff_s)
            else:
                await self._put_away()
                await self._record(facts.entered(self.state, Phase.WAITING, f"needs {missing}"))

    async def _act(
        self,
        action: Action,
        fault: Fault,
        retry_count: int,
        backoff_s: float,
        told: _Told | None = None,
    ) -> None:
        command = told.command if told else None
        before: list[ev.ProbePayload] = []
        if command is not None:
            before.append(facts.handled(command, "accepted", command.reason))
        if self.state.phase is not Phase.RECOVERING:
            before.append(facts.faulty(self.state, Phase.RECOVERING, fault, correlation_id=NEW))
        fact = facts.attempted(self.state, action, fault, retry_count, backoff_s, command)
        await self._record(*before, fact, acks=told.acks if told else ())
        self._neighbours.changed(self.resource)
        await self._neighbours.put_down_dependents(self.resource)
        await self._do(self._holder.act(action))

    async def _do(self, doing: Coroutine[Any, Any, Done]) -> None:
        """Start it, act on it, or put it into another mode; from then on the checks speak. What came before is passed
        by, and so is what the old one still says while it goes."""
        self._up = self._completed = False
        self._outlook.begin()
        self._inbox = deque(one for one in self._inbox if not isinstance(one, Fault))
        done = await self._limited(doing)
        self._up = True
        self._outlook.watch()
        if not done.ok:
            fault_class = self._mended(done.fault_class or "not_started")
            self._put(Fault(fault_class=fault_class, reason=done.reason, error_code=done.error_code))

    async def _limited(self, doing: Coroutine[Any, Any, Done]) -> Done:
        """Nothing takes for ever, whatever its own limits are."""
        try:
            async with asyncio.timeout(ACTION_S):
                return await doing
        except TimeoutError:
            return Done(ok=False, reason=f"it took longer than {ACTION_S:g} s", error_code="timeout")

    def _mended(self, otherwise: str) -> str:
        """The class of what goes wrong before health is proven: that of what was being mended."""
        fault = self.state.attempted.fault if self.state.attempted else self._cause
        return fault.fault_class if fault else otherwise

    # Proving, and running

    async def _go_on_proving(self) -> None:
        if self.health in _WELL:
            reason, attempt = "the checks say that it is healthy", self.state.attempted
            before = () if attempt is None else (facts.succeeded(self.state, attempt, reason),)
            await self._run(reason, *before)
        elif self._outlook.proof_due_in_s(self.resource.start_period_s, self._world.clock.now()) == 0:
            await self._give_up_proving()

    async def _give_up_proving(self) -> None:
        if self.state.attempted is None and self._neighbours.needs_shake(self.resource):
            self._outlook.prolong()
            return
        fault = self._outlook.unproven(self.resource.start_period_s)
        await self._handle(replace(fault, fault_class=self._mended(fault.fault_class)))

    async def _run(self, reason: str, *before: ev.ProbePayload) -> None:
        await self._record(*before, facts.entered(self.state, Phase.RUNNING, reason, self.health))
        self._outlook.proven()
        self._cause = None
        self._neighbours.changed(self.resource)

    async def _go_on_running(self) -> None:
        fault = self._outlook.fault
        if fault is not None:
            await self._consider(fault)
            return
        reset_s = self.resource.budget.healthy_reset_s
        if gives_back(self.state, self.resource, self._outlook.healthy_s(reset_s)):
            reason = f"healthy for {reset_s:g} s"
            await self._record(ev.BudgetReset(resource_id=self.resource.id, automatic=True, reason=reason))

    # Being told

    async def _obey(self, told: _Told) -> None:
        if told.command.command_id in self._recorder.state.commands:
            return  # it was told again before it could be answered
        match told.command.kind:
            case CommandKind.ACT:
                await self._obey_act(told)
            case CommandKind.RESET_BUDGET:
                await self._obey_reset(told)
            case CommandKind.RESTORE_MODE:
                await self._obey_restore(told)

    async def _obey_act(self, told: _Told) -> None:
        state, now, command = self.state, self._world.clock.now(), told.command
        fault_class = command.fault_class or state.fault_class or MANUAL
        refused = self._refusal(fault_class, now)
        if refused is not None:
            rule, reason = refused
            acks = [replace(ack, outcome="refused") for ack in told.acks]
            await self._record(facts.handled(command, "refused", reason, rule), acks=acks)
            return
        count = retries_used(self._recorder.state, state, fault_class, self.resource.budget, now) + 1
        fault = Fault(fault_class=fault_class, reason=command.reason)
        await self._act(Action(command.action or ""), fault, count, 0, told)

    def _refusal(self, fault_class: str, now: Instant) -> tuple[str, str] | None:
        """By which rule, and in what words; None: it may be acted on."""
        state = self.state
        if not may_be_acted_on(state.phase):
            return "phase", f"it is {state.phase}: {state.reason}"
        if state.attempted is not None:
            return "phase", "an action is under way: wait for its result"
        limit = spent_limit(self._recorder.state, state, fault_class, self.resource.budget, now)
        if limit is None:
            return None
        return "budget", f"the budget is spent ({limit}): give it back first with `recoup probe reset-budget`"

    async def _obey_reset(self, told: _Told) -> None:
        command = told.command
        fact = facts.given_back(command)
        await self._record(fact, facts.handled(command, "accepted", command.reason), acks=told.acks)

    async def _obey_restore(self, told: _Told) -> None:
        kind, command, state = self.resource.kind, told.command, self.state
        assert isinstance(kind, ChannelKind), "only channels are downgraded"
        restored = facts.restored(state, kind.mode, command)
        into = facts.entered(state, Phase.RECOVERING, command.reason, correlation_id=NEW)
        handled = facts.handled(command, "accepted", command.reason)
        await self._record(handled, restored, into, acks=told.acks)
        await self._do(self._holder.downgrade(kind.mode))

    # Putting down

    async def _lay_down(self, order: _PutDown) -> None:
        final = order.phase is Phase.STOPPED
        try:
            if final or self.state.phase is not Phase.FAILED:  # which is left alone
                await self._put_away()
                await self._record_down(order)
        finally:
            self._halted = final
            order.done.set()
        self._neighbours.changed(self.resource)

    async def _record_down(self, order: _PutDown) -> None:
        """What was handed over stays so, and an action that waits for its time will find it."""
        state = self.state
        if state.phase in (order.phase, Phase.STOPPED, Phase.FAILED) or state.planned is not None:
            return
        superseded = Fault(fault_class="", reason=order.reason, error_code="superseded")
        await self._record(*facts.failed(state, superseded), facts.entered(state, order.phase, order.reason))

    async def _put_away(self) -> None:
        """Nothing of it is left."""
        self._outlook.rest()
        if self._up:
            self._up = False
            await self._limited(self._holder.stop())

    async def _record(self, *told: ev.ProbePayload, acks: Sequence[ControlAck] = ()) -> None:
        await self._recorder.record(*told, acks=acks)
