"""Operators' wishes on their way to a driver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from recoup.errors import LedgerError
from recoup.model.storage import Control
from recoup.ports import Holding


async def watch_controls(
    world: Holding, run_id: str, arrived: Callable[[list[Control]], Awaitable[None]], marker: int | None
) -> None:
    """Call `arrived` with the controls that wait, whenever there are any, until cancelled. `marker`: as it was before
    somebody else looked."""
    never = asyncio.Event()
    while True:
        try:
            current = await world.ledger.change_marker()
            if current != marker:
                marker = current
                waiting = await world.ledger.pending_controls(run_id)
                if waiting:
                    await arrived(waiting)
        except LedgerError:
            marker = None  # look again when the database is back; the heartbeat decides whether we may go on
        await world.clock.wait(never, world.control_poll_s)
