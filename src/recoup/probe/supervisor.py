"""One probe, from the claim of its lease to the last process that it stopped."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from recoup.engine.claim import Held, claim
from recoup.engine.controls import watch_controls
from recoup.engine.lease import LeaseLifeline, keep_lease
from recoup.errors import LeaseLost, UsageError
from recoup.kernel.canonical import digest
from recoup.kernel.probe_fold import advance_probe
from recoup.kernel.probe_rules import is_name, refuse_command
from recoup.model import events as ev
from recoup.model.ids import Lease, ProcessIdentity, probe_stream
from recoup.model.instant import Instant
from recoup.model.probe import Command, Phase, ProbeConfig, ProbeState, Refused, Resource, Rule
from recoup.model.storage import Control, ControlAck
from recoup.notifiers.registry import digested
from recoup.ports import Ledger, Lifeline
from recoup.probe import facts
from recoup.probe.checks import checker_of
from recoup.probe.checks.output import OutputChecker
from recoup.probe.kinds import holder_of
from recoup.probe.looker import Looker, in_mode
from recoup.probe.minder import Minder
from recoup.probe.outboxes.courier import Courier
from recoup.probe.ports import Commanded, Holder, Link, Outbox, OutputListener, Site, mark_of
from recoup.probe.recorder import ProbeRecorder
from recoup.probe.world import ProbeWorld
from recoup.streams import pages

EVENTS_PAGE: Final = 5_000
KEEPERS_END_S: Final = 15.0
LOOK_S: Final = 0.05
LET_GO_S: Final = 5.0


async def read_probe(ledger: Ledger, probe_id: str) -> ProbeState:
    """What the ledger knows of it."""
    state = ProbeState(probe_id=probe_id)
    async for page in pages(ledger.read, probe_stream(probe_id), size=EVENTS_PAGE):
        for event in page:
            advance_probe(state, event.payload, event.at, event.seq)
    return state


def config_digest(config: ProbeConfig) -> str:
    said = msgspec.structs.replace(config, hand_over=digested(config.hand_over))
    return digest(msgspec.to_builtins(said))


class Probe:
    """Looks after the resources of one file until it is told to stop."""

    def __init__(
        self,
        world: ProbeWorld,
        config: ProbeConfig,
        outboxes: Callable[[Lifeline], Sequence[Outbox]] = lambda _lifeline: (),
        holder_of: Callable[[Site], Holder] = holder_of,
        link: Callable[[ProbeRecorder, Commanded], Link | None] = lambda _recorder, _commanded: None,
    ) -> None:
        self._world = world
        self._config = config
        self._outboxes = outboxes
        self._holder_of = holder_of
        self._link_of = link
        self._link: Link | None = None
        self._stream = probe_stream(config.id)
        self._minders: dict[str, Minder] = {}
        self._dependents = _dependents(config.resources)
        self._lost = asyncio.Event()
        self._stopping = False
        self._instance = ""
        self._recorder: ProbeRecorder | None = None
        self.started = asyncio.Event()
        """Every resource is being looked after."""

    @property
    def state(self) -> ProbeState:
        return self._written.state

    @property
    def _written(self) -> ProbeRecorder:
        assert self._recorder is not None, "it has not started"
        return self._recorder

    @property
    def minders(self) -> dict[str, Minder]:
        return self._minders

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`. Raises UsageError when this probe is running already, LeaseLost when another one took over."""
        lease = await self._claimed()
        lifeline = LeaseLifeline(lease.deadline_boot_s)
        try:
            # The lease is renewed from the first moment: to prove an earlier probe's processes dead takes its time.
            async with asyncio.TaskGroup() as beside:
                holding = beside.create_task(self._hold(lease, lifeline))
                try:
                    await self._run_held(lease, lifeline, stop)
                finally:
                    holding.cancel()
        except BaseExceptionGroup as group:
            raise _first(group) from None

    def lose(self) -> None:
        """As when the lease is lost: everything ends at once."""
        self._lost.set()

    async def tell(self, command: Command, acks: Sequence[ControlAck] = ()) -> str | None:
        """Carried out once, however often it is told. The outcome, where it is known already."""
        known = self.state.commands.get(command.command_id)
        if known is not None:
            if acks:
                await self._record(acks=[ControlAck(ack.control_id, known, ack.epoch) for ack in acks])
            return known
        resources = {resource.id: resource for resource in self._config.resources}
        refused = refuse_command(self.state, resources, command, self._world.clock.now())
        if refused is None:
            self._minders[command.resource_id].tell(command, acks)
            return None
        await self.refuse(command, refused, acks)
        return "refused"

    async def refuse(self, command: Command, refused: Refused, acks: Sequence[ControlAck] = ()) -> None:
        """By name of the rule, on the record, and the sender is told."""
        if not is_name(command.command_id):
            command = replace(command, command_id="", fault_class=None)
        handled = facts.handled(
            command, "refused", refused.reason, refused.rule, known=command.resource_id in self._minders
        )
        denied = _denied(command, refused.rule, refused.reason)
        negative = [ControlAck(ack.control_id, "refused", ack.epoch) for ack in acks]
        await self._record(*denied, handled, acks=negative)

    # What resources see of each other

    def needs_stand(self, resource: Resource) -> str | None:
        if self._stopping:
            return "the probe"
        return next((need for need in resource.needs if not self._minders[need].stands), None)

    def needs_shake(self, resource: Resource) -> bool:
        needs = [self._minders[need] for need in resource.needs]
        return any(not need.stands or self.needs_shake(need.resource) for need in needs)

    async def put_down_dependents(self, resource: Resource) -> None:
        reason = f"{resource.id}, which it needs, is acted on"
        await self._put_down(self._dependents[resource.id], reason, Phase.WAITING)

    def changed(self, resource: Resource) -> None:
        for name in self._dependents[resource.id]:
            self._minders[name].wake()

    # The life of a probe

    async def _claimed(self) -> Lease:
        taken = await claim(self._world, self._stream)
        if isinstance(taken, Held):
            who = f"process {taken.by.owner.pid}" if taken.by.owner else "somebody"
            raise UsageError(
                f"probe {self._config.id} is running already: {who} holds it",
                hint=f"Look at it with: recoup probe status --probe {self._config.id}",
            )
        return taken.lease

    async def _hold(self, lease: Lease, lifeline: LeaseLifeline) -> None:
        def extended(_deadline_boot_s: float) -> None:
            self._world.alive()

        detach = lifeline.attach(extended)
        try:
            await keep_lease(self._world, lease, lifeline, self.lose)
        finally:
            detach()

    async def _run_held(self, lease: Lease, lifeline: LeaseLifeline, stop: asyncio.Event) -> None:
        state = await read_probe(self._world.ledger, self._config.id)
        if lease.replaced is not None and state.instance:
            await self._clear(state)
        self._instance = state.instance or secrets.token_hex(8)
        self._recorder = ProbeRecorder(self._world, state, lease)
        self._link = self._link_of(self._recorder, self)
        reason = "" if lease.replaced is None else "the one before it was lost"
        await self._record(
            ev.ProbeStarted(
                owner=lease.owner,
                config_digest=config_digest(self._config),
                resources=len(self._config.resources),
                instance=self._instance,
                reason=reason,
            )
        )
        lookers = self._make_minders(lifeline)
        try:
            await self._mind_all(lookers, lifeline, stop)
        except BaseException:
            await self._let_go()
            raise
        await self._wind_up(lease)

    async def _clear(self, state: ProbeState) -> None:
        """An earlier probe was lost: all that it kept is dead before anything is started again."""
        census, never = self._world.census, asyncio.Event()
        keepers = [known.keeper for known in state.resources.values() if known.keeper is not None]
        for _ in range(int(KEEPERS_END_S / LOOK_S)):
            keepers = [keeper for keeper in keepers if census.is_alive(keeper)]
            if not keepers:
                break
            await self._world.clock.wait(never, LOOK_S)
        mark = mark_of(self._config.id, state.instance)
        await census.clear(mark, keepers[0] if keepers else None)

    def _make_minders(self, lifeline: LeaseLifeline) -> list[Looker]:
        lookers = []
        for resource in self._config.resources:
            minder, of_it = self._minder(resource, lifeline)
            self._minders[resource.id] = minder
            lookers += of_it
        return lookers

    def _minder(self, resource: Resource, lifeline: LeaseLifeline) -> tuple[Minder, list[Looker]]:
        listeners: list[OutputListener] = []
        site = self._site(resource, lifeline, listeners)
        holder = self._holder_of(site)
        lookers = [] if holder.own_check is None else [Looker(self._world, holder.own_check, holder.look)]
        for check in resource.checks:
            checker = checker_of(check, site)
            if checker is not None:
                look = in_mode(checker.look, check.only_in, site)
                lookers.append(Looker(self._world, check, look, checker.begin))
            if isinstance(checker, OutputChecker):
                checker.is_ready = lookers[-1].look_soon
        return Minder(self._world, self._written, resource, holder, lookers, self), lookers

    def _site(self, resource: Resource, lifeline: LeaseLifeline, listeners: list[OutputListener]) -> Site:
        def heard(stream: str, chunk: bytes) -> None:
            for listener in listeners:
                listener(stream, chunk)

        return Site(
            world=self._world,
            probe_id=self._config.id,
            instance=self._instance,
            resource=resource,
            folder=Path(self._config.folder),
            files=probe_folder(self._world.home, self._config.id) / "resources" / resource.id,
            lifeline=lifeline,
            fault=lambda fault: self._minders[resource.id].fault(fault),
            launched=partial(self._launched, resource.id),
            listen=listeners.append,
            heard=heard,
            mode=lambda: self._minders[resource.id].state.mode,
        )

    async def _launched(self, resource_id: str, keeper: ProcessIdentity) -> None:
        await self._record(ev.ProcessLaunched(resource_id=resource_id, keeper=keeper))

    async def _mind_all(
        self, lookers: Iterable[Looker], lifeline: LeaseLifeline, stop: asyncio.Event
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(looker.keep_looking()) for looker in lookers]
            beside.append(tasks.create_task(self._hear_controls()))
            outboxes = list(self._outboxes(lifeline))
            if self._link is not None:
                outboxes.append(self._link)
                beside.append(tasks.create_task(self._link.keep()))
            courier = Courier(self._world, self._written, outboxes)
            beside.append(tasks.create_task(courier.carry()))
            minding = [tasks.create_task(minder.mind()) for minder in self._minders.values()]
            beside.append(tasks.create_task(self._end_when_lost()))
            self.started.set()
            await stop.wait()
            await self._put_all_down()
            await asyncio.wait(minding) if minding else None
            for task in beside:
                task.cancel()

    async def _end_when_lost(self) -> None:
        await self._lost.wait()
        raise LeaseLost(
            f"probe {self._config.id} lost its lease: it was silent for too long, or another one took over",
            hint="Start it again; a service manager does so by itself.",
        )

    async def _put_all_down(self) -> None:
        self._stopping = True
        names = [resource.id for resource in reversed(in_order(self._config.resources))]
        await self._put_down(names, "the probe stops", Phase.STOPPED)

    async def _put_down(self, names: Sequence[str], reason: str, phase: Phase) -> None:
        """All at once, but each after those of them that rest on it. `names`: in such an order."""
        downs: dict[str, asyncio.Task[None]] = {}

        async def down(name: str, resting: Sequence[asyncio.Task[None]]) -> None:
            await asyncio.gather(*resting)
            await self._minders[name].put_down(reason, phase)

        async with asyncio.TaskGroup() as tasks:
            for name in names:
                resting = [downs[other] for other in self._dependents[name] if other in downs]
                downs[name] = tasks.create_task(down(name, resting))

    async def _let_go(self) -> None:
        """In a hurry: keepers kill what nobody holds any more, at the latest when this process ends."""
        letting = [asyncio.create_task(minder.let_go()) for minder in self._minders.values()]
        if letting:
            _, late = await asyncio.wait(letting, timeout=LET_GO_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*letting, return_exceptions=True)

    async def _wind_up(self, lease: Lease) -> None:
        await self._record(ev.ProbeStopped(reason="told to stop"))
        if self._link is not None:
            await self._link.farewell()
        await self._world.ledger.release(lease)

    # Being told

    async def _hear_controls(self) -> None:
        await watch_controls(self._world, self._stream, self._arrived, None)

    async def _arrived(self, controls: Sequence[Control]) -> None:
        for control in controls:
            ack = ControlAck(control.id, "accepted", self.state.epoch)
            await self.tell(command_of(control), [ack])

    async def _record(self, *facts: ev.ProbePayload, acks: Sequence[ControlAck] = ()) -> None:
        await self._written.record(*facts, acks=acks)


def probe_folder(home: Path, probe_id: str) -> Path:
    return home / "probes" / probe_id


def control_of(probe_id: str, command: Command, at: Instant) -> Control:
    """A command on its way through the ledger's inbox."""
    return Control(
        id=command.command_id,
        run_id=probe_stream(probe_id),
        action=command.kind,
        reason=command.reason,
        actor=command.actor,
        at=at,
        step_id=command.resource_id,
        argument=msgspec.json.encode(command).decode(),
    )


def command_of(control: Control) -> Command:
    return msgspec.json.decode(control.argument or "", type=Command)


def in_order(resources: Sequence[Resource]) -> list[Resource]:
    """Each after all that it needs."""
    known = {resource.id: resource for resource in resources}
    ordered: dict[str, Resource] = {}

    def add(resource: Resource) -> None:
        for need in resource.needs:
            if need not in ordered:
                add(known[need])
        ordered[resource.id] = resource

    for resource in resources:
        add(resource)
    return list(ordered.values())


def _dependents(resources: Sequence[Resource]) -> dict[str, list[str]]:
    """For each, all that rest on it, also through others: those that nothing rests on first."""
    ordered = in_order(resources)
    resting: dict[str, list[str]] = {resource.id: [] for resource in resources}
    below: dict[str, set[str]] = {}
    for resource in ordered:
        below[resource.id] = set(resource.needs).union(*(below[need] for need in resource.needs))
    for resource in reversed(ordered):
        for need in below[resource.id]:
            resting[need].append(resource.id)
    return resting


def _denied(command: Command, rule: str, reason: str) -> list[ev.ProbePayload]:
    """What a probe must not do is a fact of its own; a command that came too late is only handled."""
    if rule not in frozenset(Rule):
        return []
    asked = command.action or command.kind
    return [ev.ActionRefused(asked=asked, rule=rule, reason=reason, source=command.actor)]


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one that matters: of many that fell together, the first."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
