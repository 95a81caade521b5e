"""One resource: what happened to it, what the kernel says about it, what is done.

Everything that happens is put into an inbox and dealt with one after the other by one task, so that nothing is decided
on a state that another decision is about to change. What is known is in the ledger; what is only in memory (the last
signs of checks, whether the holder is up) begins anew with a new probe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from msgspec.structs import replace

from recoup.errors import LeaseLost, LedgerError
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.probe import MANUAL, decide_fault, due_in_s, gives_back, retries_used, spent_limit
from recoup.kernel.probe_health import Sign, Tally, counted, fault_of, health_of
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
)
from recoup.model.storage import ControlAck
from recoup.probe import facts
from recoup.probe.looker import Looker
from recoup.probe.ports import Done, Holder
from recoup.probe.recorder import NEW, ProbeRecorder
from recoup.probe.world import ProbeWorld

ACTION_S: Final = 300.0
"""The longest that an action may take, whatever limits of its own it has."""
LEDGER_PAUSE_S: Final = 1.0
PAUSE_MIN_S: Final = 0.01
INBOX_MAX: Final = 10_000


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
        self._resource = resource
        self._holder = holder
        self._lookers = lookers
        self._neighbours = neighbours
        self._inbox: deque[_Message] = deque(maxlen=INBOX_MAX)
        self._wake = asyncio.Event()
        self._tallies = [Tally() for _ in lookers]
        self._reported: Fault | None = None
        """What the holder itself said is wrong, since it was last started or acted on."""
        self._up = False
        self._begun: Instant | None = None
        self._proving = False
        """It was started or acted on, and has yet to show that it is healthy."""
        self._healthy_since: Instant | None = None
        self._cause: Fault | None = None
        """Why the channel was just downgraded: what goes wrong until it is proven has the same cause."""
        self._halted = False
        for number, looker in enumerate(lookers):
            looker.report_to(partial(self._take_sign, number))

    # What others see

    @property
    def state(self) -> ResourceState:
        known = self._recorder.state.resources
        if self._resource.id not in known:
            known[self._resource.id] = ResourceState(resource_id=self._resource.id)
        return known[self._resource.id]

    @property
    def resource(self) -> Resource:
        return self._resource

    @property
    def stands(self) -> bool:
        """Others may rest on it. What has done its work and ended stands too."""
        return self.state.phase is Phase.RUNNING or self._is_completed

    @property
    def is_up(self) -> bool:
        return self._up

    @property
    def health(self) -> Health:
        """As the checks see it now."""
        if not self._up:
            return Health.UNKNOWN if self.state.phase in (Phase.WAITING, Phase.STOPPED) else Health.UNHEALTHY
        if self._reported is not None:
            return Health.UNHEALTHY
        health = health_of(self._tallies)
        if health is Health.HEALTHY and not self._has_settled():
            return Health.UNKNOWN
        return Health.DEGRADED if health is Health.HEALTHY and self.state.mode else health

    def fault(self, fault: Fault) -> None:
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

    # The loop

    async def mind(self) -> None:
        await self._take_up()
        while not self._halted:
            pause_s = await self._turn()
            if not self._inbox and not self._halted:
                await self._world.clock.wait(self._wake, pause_s)
            self._wake.clear()

    async def let_go(self) -> None:
        """The lease is lost: whatever is there must end, and nothing can be recorded any more."""
        for looker in self._lookers:
            looker.rest()
        if self._up:
            self._up = False
            await self._holder.stop()

    async def _turn(self) -> float | None:
        """Deal with one thing; how long the next one takes at most."""
        message = self._inbox.popleft() if self._inbox else None
        try:
            if message is not None:
                await self._hear(message)
            else:
                await self._go_on()
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
        missing = self._neighbours.needs_stand(self._resource)
        match self.state.phase:
            case Phase.WAITING if missing is None:
                await self._start()
            case Phase.RECOVERING if self.state.planned is not None:
                await self._go_on_planned(self.state.planned)
            case Phase.STARTING | Phase.RECOVERING if self._proving:
                await self._go_on_proving()
            case Phase.FAILED if self._up and self.health in (Health.HEALTHY, Health.DEGRADED):
                await self._runs("it is healthy again, without an action")
            case Phase.RUNNING:
                await self._go_on_running()

    def _next_s(self) -> float | None:
        now = self._world.clock.now()
        due = [due_in_s(self.state, now), self._settles_in_s(now), self._proof_due_in_s(now)]
        if self.state.phase is Phase.RUNNING and self._healthy_since is not None and self.state.used:
            healthy_s = elapsed_s(self._healthy_since, now, self._resource.budget.healthy_reset_s)
            if healthy_s < self._resource.budget.healthy_reset_s:
                due.append(self._resource.budget.healthy_reset_s - healthy_s)
        return min((one for one in due if one is not None), default=None)

    # Beginning

    async def _take_up(self) -> None:
        """From what the ledger says of it. A deadline that an earlier probe has set stands; what it had begun and not
        ended is used up; what it had handed over stays so."""
        try:
            await self._take_up_known()
        except LeaseLost:
            raise
        except LedgerError:
            await self._world.clock.wait(asyncio.Event(), LEDGER_PAUSE_S)
            await self._take_up()

    async def _take_up_known(self) -> None:
        state = self.state
        if state.attempted is not None:
            lost = Fault(
                fault_class=state.attempted.fault.fault_class,
                reason="the probe was lost before the result of its action was known",
                error_code="probe_lost",
            )
            await self._handle(lost)
        elif state.phase not in (Phase.FAILED, Phase.RECOVERING) or (
            state.phase is Phase.RECOVERING and state.planned is None
        ):
            missing = self._neighbours.needs_stand(self._resource)
            reason = f"needs {missing}" if missing else "the probe starts"
            await self._record(facts.entered(self.state, Phase.WAITING, reason, correlation_id=NEW))

    async def _start(self) -> None:
        self._begin()
        await self._record(facts.entered(self.state, Phase.STARTING, "what it needs is there"))
        self._up, self._proving = True, True
        self._watch(await self._limited(self._holder.start()))

    # Faults

    async def _hear_fault(self, fault: Fault) -> None:
        if not self._up:
            return  # about something that was put down
        if self._cause is not None:
            fault = replace(fault, fault_class=self._cause.fault_class)
        self._reported = fault
        self._healthy_since = None
        await self._consider(fault)

    async def _consider(self, fault: Fault) -> None:
        """Act on it, unless that is under way, was refused, or would treat the wrong one."""
        if self.state.planned is not None or self.state.phase in (Phase.FAILED, Phase.STOPPED):
            return
        if self.state.attempted is None and self._neighbours.needs_shake(self._resource):
            return
        await self._handle(fault)

    async def _handle(self, fault: Fault) -> None:
        now, state = self._world.clock.now(), self.state
        step = decide_fault(
            *(self._recorder.state, state, self._resource, fault, now), chance=self._world.chance()
        )
        failed = facts.failed(state, fault)
        self._proving = False
        match step:
            case Retry():
                await self._record(*failed, *self._into(Phase.RECOVERING, fault), facts.planned(state, step))
            case Downgrade():
                await self._downgrade(step, failed)
            case Escalate():
                await self._record(
                    *failed,
                    facts.escalated(state, self._recorder.state.probe_id, step),
                    facts.faulty(self.state, Phase.FAILED, fault),
                )
            case Leave():
                await self._record(*failed, facts.faulty(self.state, Phase.FAILED, fault, step.reason))
            case Finish():
                self._rest()
                await self._record(
                    *failed, facts.entered(self.state, Phase.STOPPED, fault.reason, Health.UNKNOWN)
                )
        self._neighbours.changed(self._resource)

    async def _downgrade(self, step: Downgrade, failed: Sequence[ev.ProbePayload]) -> None:
        fact = facts.downgraded(self.state, step)
        await self._record(*failed, fact, *self._into(Phase.RECOVERING, step.fault))
        self._cause = step.fault
        await self._in_mode(step.to_mode)

    async def _in_mode(self, mode: str) -> None:
        self._begin()
        done = await self._limited(self._holder.downgrade(mode))
        self._up, self._proving = True, True
        self._watch(done)

    # Acting

    async def _go_on_planned(self, planned: Planned) -> None:
        if self._up and self.health is Health.HEALTHY:
            await self._runs("it is healthy again, without an action")
        elif due_in_s(self.state, self._world.clock.now()) == 0:
            missing = self._neighbours.needs_stand(self._resource)
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
        fact = facts.attempted(self.state, action, fault, retry_count, backoff_s, command)
        into = self._into(Phase.RECOVERING, fault) if command else ()
        handled = (facts.handled(command, "accepted", command.reason),) if command else ()
        await self._record(*handled, *into, fact, acks=told.acks if told else ())
        self._neighbours.changed(self._resource)
        await self._neighbours.put_down_dependents(self._resource)
        self._rest()
        self._begin()
        done = await self._limited(self._holder.act(action))
        self._up, self._proving = True, True
        self._watch(done)

    async def _limited(self, doing: Coroutine[Any, Any, Done]) -> Done:
        """Nothing takes for ever, whatever its own limits are."""
        try:
            async with asyncio.timeout(ACTION_S):
                return await doing
        except TimeoutError:
            return Done(ok=False, reason=f"it took longer than {ACTION_S:g} s", error_code="timeout")

    def _watch(self, done: Done) -> None:
        """It was started or acted on. From here on the checks speak, unless there is nothing to look at."""
        if done.ok:
            for looker in self._lookers:
                looker.watch()
            return
        fault_class = self._fault_class("not_started")
        self._put(Fault(fault_class=fault_class, reason=done.reason, error_code=done.error_code))

    def _fault_class(self, otherwise: str) -> str:
        """Of what goes wrong before health is proven: that of what was being mended."""
        mended = self.state.attempted.fault if self.state.attempted else self._cause
        return mended.fault_class if mended else otherwise

    # Proving

    async def _go_on_proving(self) -> None:
        if self.health in (Health.HEALTHY, Health.DEGRADED):
            await self._prove()
        elif self._proof_due_in_s(self._world.clock.now()) == 0:
            await self._give_up_proving()

    async def _give_up_proving(self) -> None:
        if self.state.attempted is None and self._neighbours.needs_shake(self._resource):
            self._begun = self._world.clock.now()  # its time begins when what it needs is well
            return
        await self._handle(self._unproven())

    async def _prove(self) -> None:
        attempted, reason = self.state.attempted, "the checks say that it is healthy"
        if attempted is None:
            await self._runs(reason)
            return
        await self._runs(reason, facts.succeeded(self.state, attempted, reason))

    def _unproven(self) -> Fault:
        """It had its time to become healthy."""
        unproven = [
            (looker.check, tally.last)
            for looker, tally in zip(self._lookers, self._tallies, strict=True)
            if tally.good is not True
        ]
        check, last = unproven[0] if unproven else (None, None)
        own = (last and last.fault_class) or (check.FAULT_CLASS if check else "not_started")
        words = last.reason if last and last.reason else "no check has said so"
        reason = f"not healthy within {self._resource.start_period_s:g} s: {words}"
        return Fault(fault_class=self._fault_class(own), reason=reason, error_code="not_healthy")

    async def _runs(self, reason: str, *before: ev.ProbePayload) -> None:
        self._proving, self._cause = False, None
        self._healthy_since = self._world.clock.now()
        await self._record(*before, facts.entered(self.state, Phase.RUNNING, reason, self.health))
        self._neighbours.changed(self._resource)

    # Running

    async def _go_on_running(self) -> None:
        faults = [
            fault
            for looker, tally in zip(self._lookers, self._tallies, strict=True)
            if (fault := fault_of(tally, looker.check)) is not None
        ]
        if self._reported is not None or faults:
            self._healthy_since = None
            await self._consider(self._reported or faults[0])
            return
        now, state = self._world.clock.now(), self.state
        if self._healthy_since is None and health_of(self._tallies) is Health.HEALTHY:
            self._healthy_since = now
        if self._healthy_since is None:
            return
        healthy_s = elapsed_s(self._healthy_since, now, self._resource.budget.healthy_reset_s)
        if gives_back(state, self._resource, healthy_s):
            reason = f"healthy for {self._resource.budget.healthy_reset_s:g} s"
            await self._record(ev.BudgetReset(resource_id=self._resource.id, automatic=True, reason=reason))

    def _take_sign(self, number: int, sign: Sign) -> None:
        looker = self._lookers[number]
        self._tallies[number] = counted(self._tallies[number], sign, looker.check, starting=self._proving)
        if not sign.good:
            self._healthy_since = None
        self._wake.set()

    # Being told

    async def _obey(self, told: _Told) -> None:
        match told.command.kind:
            case CommandKind.ACT:
                await self._obey_act(told)
            case CommandKind.RESET_BUDGET:
                await self._obey_reset(told)
            case CommandKind.RESTORE_MODE:
                await self._obey_restore(told)

    async def _obey_act(self, told: _Told) -> None:
        state, now, command = self.state, self._world.clock.now(), told.command
        known = state.planned or state.attempted
        fault_class = command.fault_class or (known.fault.fault_class if known else MANUAL)
        refused = self._refusal(fault_class, now)
        if refused is not None:
            await self._record(
                facts.handled(command, "refused", refused[1], refused[0]), acks=_refused(told.acks)
            )
            return
        count = retries_used(self._recorder.state, state, fault_class, self._resource.budget, now) + 1
        fault = Fault(fault_class=fault_class, reason=command.reason)
        await self._act(Action(command.action or ""), fault, count, 0, told)

    def _refusal(self, fault_class: str, now: Instant) -> tuple[str, str] | None:
        state = self.state
        if not may_be_acted_on(state.phase):
            return "phase", f"it is {state.phase}: {state.reason}"
        if state.attempted is not None:
            return "phase", "an action is under way: wait for its result"
        limit = spent_limit(self._recorder.state, state, fault_class, self._resource.budget, now)
        if limit is None:
            return None
        return "budget", f"the budget is spent ({limit}): give it back first with `recoup probe reset-budget`"

    async def _obey_reset(self, told: _Told) -> None:
        command = told.command
        fact = ev.BudgetReset(
            resource_id=self._resource.id,
            fault_class=command.fault_class,
            automatic=False,
            reason=command.reason,
            actor=command.actor,
        )
        await self._record(fact, facts.handled(command, "accepted", command.reason), acks=told.acks)

    async def _obey_restore(self, told: _Told) -> None:
        kind, command = self._resource.kind, told.command
        assert isinstance(kind, ChannelKind), "only channels are downgraded"
        fact = ev.ChannelRestored(
            resource_id=self._resource.id,
            from_mode=self.state.mode or "",
            to_mode=kind.mode,
            reason=command.reason,
            actor=command.actor,
        )
        phase = facts.entered(self.state, Phase.RECOVERING, command.reason)
        await self._record(fact, phase, facts.handled(command, "accepted", command.reason), acks=told.acks)
        await self._in_mode(kind.mode)

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
        self._neighbours.changed(self._resource)

    async def _record_down(self, order: _PutDown) -> None:
        """What was handed over stays so, and an action that waits for its time will find it."""
        phase = self.state.phase
        if phase in (order.phase, Phase.STOPPED, Phase.FAILED) or self.state.planned is not None:
            return
        superseded = Fault(fault_class="", reason=order.reason, error_code="superseded")
        ended = facts.failed(self.state, superseded)
        await self._record(*ended, facts.entered(self.state, order.phase, order.reason))

    async def _put_away(self) -> None:
        was_up = self._up
        self._rest()
        if was_up:
            await self._limited(self._holder.stop())

    def _rest(self) -> None:
        for looker in self._lookers:
            looker.rest()
        self._up = self._proving = False
        self._healthy_since = None

    def _put(self, message: _Message) -> None:
        self._inbox.append(message)
        self._wake.set()

    def _begin(self) -> None:
        self._tallies = [Tally() for _ in self._lookers]
        self._reported = None
        self._begun = self._world.clock.now()
        # Whatever was reported before is about what is no more.
        self._inbox = deque((one for one in self._inbox if not isinstance(one, Fault)), maxlen=INBOX_MAX)

    # Times

    @property
    def _is_completed(self) -> bool:
        return self.state.phase is Phase.STOPPED and not self._halted and self._reported is not None

    def _has_settled(self) -> bool:
        return self._settles_in_s(self._world.clock.now()) in (None, 0)

    def _settles_in_s(self, now: Instant) -> float | None:
        if not self._proving or self._begun is None:
            return None
        return max(0.0, self._holder.settle_s - elapsed_s(self._begun, now, self._holder.settle_s)) or None

    def _proof_due_in_s(self, now: Instant) -> float | None:
        if not self._proving or self._begun is None:
            return None
        period_s = max(self._resource.start_period_s, self._holder.settle_s)
        return max(0.0, period_s - elapsed_s(self._begun, now, period_s))

    # Facts

    async def _record(self, *facts: ev.ProbePayload, acks: Sequence[ControlAck] = ()) -> None:
        await self._recorder.record(*facts, acks=acks)

    def _into(self, phase: Phase, fault: Fault) -> tuple[ev.PhaseChanged, ...]:
        """Where it is not there already; a new fault begins."""
        return (
            () if self.state.phase is phase else (facts.faulty(self.state, phase, fault, correlation_id=NEW),)
        )


def _refused(acks: Sequence[ControlAck]) -> Sequence[ControlAck]:
    return [ControlAck(ack.control_id, "refused", ack.epoch) for ack in acks]
