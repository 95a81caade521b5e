"""What people do with probes from another process: look, tell, give a budget back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from recoup.engine.claim import Held, claim
from recoup.errors import NotFound, Refusal, UsageError
from recoup.kernel.probe_documents import probe_document
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.ids import probe_stream, refusals_stream
from recoup.model.probe import Command, CommandKind, ProbeState
from recoup.model.storage import Append, Draft, LeaseRow, StreamAppend
from recoup.probe import facts
from recoup.probe.gateway.cursor import read_cursor
from recoup.probe.recorder import ProbeRecorder
from recoup.probe.supervisor import EVENTS_PAGE, control_of, probe_folder, read_probe
from recoup.probe.world import ProbeWorld
from recoup.streams import pages

ANSWER_S: Final = 30.0
LOOK_S: Final = 0.1
PROBES_SHOWN_MAX: Final = 20
_PREFIX: Final = probe_stream("")


class Operators:
    """The probes of this ledger, from outside."""

    def __init__(self, world: ProbeWorld) -> None:
        self._world = world

    async def names(self) -> list[str]:
        return sorted(name.removeprefix(_PREFIX) for name in await self._world.ledger.streams(_PREFIX))

    async def find(self, name: str | None) -> str:
        """The one that is meant: by its name, or the only one there is. Raises NotFound."""
        known = await self.names()
        if name is None and len(known) == 1:
            return known[0]
        if name is not None and name in known:
            return name
        shown = ", ".join(known[:PROBES_SHOWN_MAX])
        if not known:
            raise NotFound("no probe has run here yet", hint="Start one with: recoup probe run probe.yaml")
        words = "there are several probes" if name is None else f"there is no probe {name!r}"
        raise NotFound(words, hint=f"Name one with --probe: {shown}")

    async def document(self, probe_id: str) -> dict[str, Any]:
        state, lease = await self.state(probe_id), await self._lease(probe_id)
        running = lease is not None and self._holds(lease)
        pid = lease.owner.pid if lease and lease.owner and running else None
        document = probe_document(state, self._world.clock.now(), running=running, pid=pid)
        return {**document, "gateway": self._gateway(state)}

    async def state(self, probe_id: str) -> ProbeState:
        return await read_probe(self._world.ledger, probe_id)

    async def events(self, probe_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Of the probe, behind a sequence; from the beginning also what was refused before it could run."""
        if after == 0:
            for event in await self._world.ledger.read(refusals_stream(probe_id), limit=EVENTS_PAGE):
                yield event
        async for page in pages(self._world.ledger.read, probe_stream(probe_id), after, EVENTS_PAGE):
            for event in page:
                yield event

    async def tell(self, probe_id: str, command: Command) -> dict[str, Any]:
        """What became of it. Raises UsageError when no such probe runs, and it cannot be done without."""
        lease = await self._lease(probe_id)
        if lease is None or not self._holds(lease):
            return await self._without_probe(probe_id, command)
        await self._world.ledger.send_control(control_of(probe_id, command, self._world.clock.now()))
        for _ in range(int(ANSWER_S / LOOK_S)):
            control = await self._world.ledger.control(command.command_id)
            if control is not None and control.outcome is not None:
                return await self._answer(probe_id, command, control.outcome)
            await self._world.clock.wait(asyncio.Event(), LOOK_S)
        raise UsageError(
            f"probe {probe_id} has not answered within {ANSWER_S:g} s",
            hint="It will still carry it out, once: see `recoup probe events`.",
        )

    async def record_refusals(self, probe_id: str, source: str, refused: Sequence[Refusal]) -> None:
        """A file asked for what no probe may do: that is a fact, though nothing was run."""
        now = self._world.clock.now()
        drafts = [
            ev.ActionRefused(
                event_id=f"refused:{probe_id}:{now.wall_us}:{number}",
                timestamp_unix=now.wall_us / 1e6,
                asked=one.asked,
                rule=one.rule,
                reason=one.reason,
                source=source,
            )
            for number, one in enumerate(refused)
        ]
        sealed = tuple(Draft(fact.TYPE, self._world.redactor.seal(fact)) for fact in drafts)
        stream = StreamAppend(refusals_stream(probe_id), sealed)
        await self._world.ledger.append(Append(at=now, streams=(stream,)))

    async def _without_probe(self, probe_id: str, command: Command) -> dict[str, Any]:
        """A budget can be given back while nobody looks after anything; nothing else can be done then."""
        if command.kind != CommandKind.RESET_BUDGET:
            raise UsageError(
                f"probe {probe_id} is not running: there is nobody to tell",
                hint="Start it with: recoup probe run FILE",
            )
        taken = await claim(self._world, probe_stream(probe_id))
        if isinstance(taken, Held):
            return await self.tell(probe_id, command)  # it has just started
        try:
            state = await self.state(probe_id)
            if command.resource_id not in state.resources:
                known = ", ".join(state.resources)
                raise NotFound(
                    f"probe {probe_id} has no resource {command.resource_id!r}", hint=f"It has {known}."
                )
            recorder = ProbeRecorder(self._world, state, taken.lease)
            handled = facts.handled(command, "accepted", command.reason)
            await recorder.record(facts.given_back(command), handled)
        finally:
            await self._world.ledger.release(taken.lease)
        return await self._answer(probe_id, command, "accepted")

    async def _answer(self, probe_id: str, command: Command, outcome: str) -> dict[str, Any]:
        handled = None
        async for event in self.events(probe_id):
            payload = event.payload
            if isinstance(payload, ev.CommandHandled) and payload.command_id == command.command_id:
                handled = payload
        return {
            "command_id": command.command_id,
            "outcome": outcome,
            "rule": handled.rule if handled else None,
            "reason": handled.reason if handled else "",
        }

    def _gateway(self, state: ProbeState) -> dict[str, Any] | None:
        """How far it has followed; None: there is none, or it was never told anything."""
        cursor = read_cursor(probe_folder(self._world.home, state.probe_id))
        if cursor is None:
            return None
        return {**msgspec.to_builtins(cursor), "behind": max(0, state.seq - cursor.acknowledged_seq)}

    async def _lease(self, probe_id: str) -> LeaseRow | None:
        return await self._world.ledger.lease(probe_stream(probe_id))

    def _holds(self, lease: LeaseRow) -> bool:
        return lease.owner is not None and self._world.census.is_alive(lease.owner) is not False
