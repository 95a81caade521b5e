"""A probe's two-way connection with its gateway."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from recoup.notifiers.kind import Notification
from recoup.probe.gateway.client import GatewayClient
from recoup.probe.gateway.listener import Listener
from recoup.probe.gateway.sender import Sender
from recoup.probe.ports import Commanded
from recoup.probe.recorder import ProbeRecorder
from recoup.probe.world import ProbeWorld

FAREWELL_S: Final = 3.0


class GatewayLink:
    """Events out, commands in, for as long as the probe holds its lease."""

    def __init__(
        self,
        world: ProbeWorld,
        recorder: ProbeRecorder,
        commanded: Commanded,
        client: GatewayClient,
        folder: Path,
    ) -> None:
        self._sender = Sender(world, recorder, client, folder)
        self._listener = Listener(world, recorder, client, commanded)

    @property
    def name(self) -> str:
        return self._sender.name

    @property
    def timeout_s(self) -> float:
        return self._sender.timeout_s

    async def keep(self) -> None:
        async with asyncio.TaskGroup() as both:
            both.create_task(self._sender.carry())
            both.create_task(self._listener.listen())

    async def deliver(self, notification: Notification) -> None:
        await self._sender.deliver(notification)

    async def farewell(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await self._sender.farewell()
