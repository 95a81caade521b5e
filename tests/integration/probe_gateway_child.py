"""A probe in a process of its own, whose resource fails at once: for tests that kill it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from recoup.clock import SystemClock
from recoup.model.probe import Budget, Phase
from recoup.testing.probe import ProbeHouse, process


async def main(root: Path, url: str) -> None:
    house = ProbeHouse(
        root,
        process("api", budget=Budget(max_retries=0)),
        clock=SystemClock(),
        scripted=True,
        gateway=(url, os.environ["TOKEN"]),
    )
    async with house.running():
        await house.until(lambda: house.phase("api") == Phase.RUNNING)
        house.holders["api"].fail()
        await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
