"""Takes escalations to their outboxes, as often as it needs, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from recoup.errors import LeaseLost, LedgerError
from recoup.model import events as ev
from recoup.model.ids import probe_stream
from recoup.model.probe import OpenEscalation
from recoup.notifiers.kind import NotDelivered, Notification
from recoup.probe.ports import Outbox
from recoup.probe.recorder import ProbeRecorder
from recoup.probe.world import ProbeWorld

LOOK_S: Final = 0.5
RETRY_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)


class Courier:
    """What is delivered is in the ledger: a probe that is started again goes on where the last one was."""

    def __init__(
        self,
        world: ProbeWorld,
        recorder: ProbeRecorder,
        outboxes: Sequence[Outbox],
    ) -> None:
        self._world = world
        self._recorder = recorder
        self._outboxes = outboxes
        self._failed: dict[str, int] = {}
        self._noting = asyncio.Lock()

    async def carry(self) -> None:
        """Until cancelled. None waits for another: one that cannot be reached keeps nothing from the rest."""
        async with asyncio.TaskGroup() as tasks:
            for outbox in self._outboxes:
                tasks.create_task(self._keep_serving(outbox))

    async def _keep_serving(self, outbox: Outbox) -> None:
        never = asyncio.Event()
        while True:
            try:
                pause_s = await self._serve(outbox)
            except LeaseLost:
                raise
            except LedgerError:
                pause_s = RETRY_S[0]
            await self._world.clock.wait(never, pause_s)

    async def _serve(self, outbox: Outbox) -> float:
        """All that it has yet to be told; how long it is left alone then."""
        for waiting in list(self._recorder.state.open_escalations.values()):
            if outbox.name not in waiting.told and not await self._deliver(outbox, waiting):
                failed = self._failed[outbox.name] = self._failed.get(outbox.name, 0) + 1
                return RETRY_S[min(failed, len(RETRY_S)) - 1]
        self._failed.pop(outbox.name, None)
        return LOOK_S

    async def _deliver(self, outbox: Outbox, waiting: OpenEscalation) -> bool:
        notification = await self._notification(waiting)
        try:
            async with asyncio.timeout(outbox.timeout_s):
                await outbox.deliver(notification)
        except (NotDelivered, TimeoutError):
            return False
        async with self._noting:  # two at once would each believe that the other has yet to be told
            await self._note(notification, outbox)
        return True

    async def _note(self, notification: Notification, outbox: Outbox) -> None:
        known = self._recorder.state.open_escalations.get(notification.id)
        told = {*known.told, outbox.name} if known else set()
        fact = ev.EscalationDelivered(
            resource_id=notification.about,
            escalation_id=notification.id,
            outbox=outbox.name,
            complete=told >= {one.name for one in self._outboxes},
        )
        await self._recorder.record(fact)

    async def _notification(self, waiting: OpenEscalation) -> Notification:
        (event,) = await self._world.ledger.read(
            probe_stream(self._recorder.state.probe_id), after=waiting.seq - 1, limit=1
        )
        assert isinstance(event.payload, ev.ProbeEscalated)
        body = self._world.redactor.seal(event.payload)
        return Notification(waiting.escalation_id, event.payload.resource_id, body)
