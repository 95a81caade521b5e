"""What comes to a driver from outside while it works: controls, an interruption, the loss of its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from recoup.engine.desk import Desk
from recoup.engine.entry import is_going
from recoup.engine.operators import carry_out
from recoup.errors import LeaseLost
from recoup.kernel.controls import pre_empts, refusal
from recoup.model import events as ev
from recoup.model.storage import Control

T = TypeVar("T")


class Interventions:
    """Notes what comes, ends what is under way if it must, and carries it out when nothing is."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.goes_on = False
        """Work goes on in the same hands after a control."""
        self.interruption: str | None = None
        """Why the driver was told to stop."""
        self._is_busy = False
        """An attempt is under way: a control that can wait must not end it."""
        self._is_lost = False
        self._fault: BaseException | None = None
        self._turn = asyncio.Lock()

    # As they come

    def interrupt(self, reason: str) -> None:
        self.interruption = reason
        self._desk.halt.set()

    def lose(self) -> None:
        """The lease is another driver's, or has run out."""
        self._is_lost = True
        self._desk.halt.set()

    def background_ended(self, task: asyncio.Task[None]) -> None:
        """Without heartbeat or controls the driver must not go on as if nothing were wrong."""
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()
            self._desk.halt.set()

    async def hear(self, _controls: list[Control]) -> None:
        """During an attempt what can be answered is answered at once; what must end the attempt ends it."""
        if not self._is_busy:
            self._desk.halt.set()
        elif is_going(self._desk):
            await self.carry_out(beside_an_attempt=True)

    async def during(self, attempt: Awaitable[T]) -> T:
        self._is_busy = True
        try:
            return await attempt
        finally:
            self._is_busy = False

    # When nothing is under way

    async def heed(self) -> None:
        """Controls first: a cancel beats an interruption, and both beat the next attempt."""
        if self._is_lost:
            run_id = self._desk.job.run_id
            raise LeaseLost(
                f"the lease of run {run_id} is lost, or could not be renewed in time",
                hint=f"See whose: recoup show {run_id}. If nobody drives it: recoup resume {run_id}",
            )
        if self._fault is not None:
            raise self._fault
        self._desk.halt.clear()
        await self.carry_out()
        if self.interruption is not None and is_going(self._desk):
            await self.give_back(self.interruption)

    async def carry_out(self, *, beside_an_attempt: bool = False) -> None:
        """The controls that wait."""
        desk = self._desk
        async with self._turn:
            for control in await desk.world.ledger.pending_controls(desk.job.run_id):
                if beside_an_attempt and self._ends_an_attempt(control):
                    desk.halt.set()  # it is carried out, and those after it, when the attempt has ended
                    return
                if not desk.recorder.released:
                    await carry_out(desk, control, driving=self.goes_on)

    def _ends_an_attempt(self, control: Control) -> bool:
        """Asked again for each control: an earlier one may have made it possible."""
        return pre_empts(control) and refusal(self._desk.state, control, self._desk.job.policy) is None

    async def give_back(self, reason: str, *, trouble: bool = False) -> None:
        """The run can be resumed in place."""
        desk = self._desk
        if not desk.recorder.released:
            interrupted = ev.RunInterrupted(reason=reason, epoch=desk.epoch, machine_trouble=trouble)
            await desk.recorder.record(interrupted, release=True)
