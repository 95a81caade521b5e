"""Asks the gateway what it wants, and hands it on: each command once, however often it is sent.

A command is sent again until the event that says what became of it has reached the gateway. So nothing is noted here:
a probe that is lost before it recorded anything is sent the command again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from recoup.errors import LeaseLost, LedgerError
from recoup.kernel.probe_gateway import Unreadable, again_s, pause_s, read_command
from recoup.model.probe_wire import COMMANDS_PATH, Commands
from recoup.probe.gateway.client import GatewayClient, Unreachable
from recoup.probe.ports import Commanded
from recoup.probe.recorder import ProbeRecorder
from recoup.probe.world import ProbeWorld

WAIT_S: Final = 20.0


class Listener:
    def __init__(
        self, world: ProbeWorld, recorder: ProbeRecorder, client: GatewayClient, commanded: Commanded
    ) -> None:
        self._world = world
        self._recorder = recorder
        self._client = client
        self._commanded = commanded
        self._under_way: set[str] = set()
        self._failed = self._in_vain = 0

    async def listen(self) -> None:
        """Until cancelled. Raises LeaseLost."""
        while True:
            pause = await self._turn()
            if pause:
                await self._world.clock.wait(asyncio.Event(), pause)

    async def _turn(self) -> float:
        """One question; how long to wait before the next one."""
        try:
            heard = await self._ask()
            new = [await self._hand_on(said) for said in heard]
        except LeaseLost:
            raise
        except (Unreachable, Unreadable, LedgerError):
            self._failed += 1
            return pause_s(self._failed, self._world.chance())
        self._failed = 0
        self._in_vain = 0 if any(new) else self._in_vain + 1
        return again_s(self._in_vain)

    async def _ask(self) -> Sequence[Mapping[str, Any]]:
        state = self._recorder.state
        who = {"probe_id": state.probe_id, "lease_epoch": str(self._recorder.lease.epoch)}
        answer = await self._client.get(COMMANDS_PATH, {**who, "wait_s": f"{WAIT_S:g}"}, WAIT_S)
        if answer.status != 200:
            raise Unreachable(f"{self._client.shown} answers {answer.status}")
        try:
            return msgspec.json.decode(answer.body, type=Commands).commands
        except msgspec.DecodeError as error:
            raise Unreadable(str(error)) from None

    async def _hand_on(self, said: Mapping[str, Any]) -> bool:
        """Whether it is new. One without an id cannot be answered: those behind it must not wait for it."""
        try:
            command, refused = read_command(said)
        except Unreadable:
            return False
        known = self._recorder.state.commands
        self._under_way -= known.keys()
        if self._world.redactor.found_in(f"{command.command_id} {command.fault_class or ''}".encode()):
            return False  # names stand in the ledger as they are
        if command.command_id in known or command.command_id in self._under_way:
            return False
        if refused is None:
            await self._commanded.tell(command)
        else:
            await self._commanded.refuse(command, refused)
        self._under_way.add(command.command_id)
        return True
