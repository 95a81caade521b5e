"""The pipes through which a step speaks to its driver."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from recoup.model.outcome import Order
from recoup.model.plan import RunAction
from recoup.model.policy import Policy
from recoup.runtimes.progress_line import ProgressPipe, Said


def order(folder: Path) -> Order:
    return Order(
        run_id="run",
        step_id="step",
        step_index=0,
        attempt=1,
        action=RunAction("true"),
        cwd=str(folder),
        policy=Policy(),
        env={"RECOUP_OUTPUT": str(folder / "output")},
    )


async def test_the_last_line_of_progress_is_shown_also_at_the_end(tmp_path: Path) -> None:
    shown: list[Said] = []
    first = asyncio.Event()

    def show(said: Said) -> None:
        shown.append(said)
        first.set()

    with ProgressPipe(order(tmp_path), show) as progress:
        step = os.open(progress.path, os.O_WRONLY)
        os.write(step, b"1/2 half of it\n")
        await asyncio.wait_for(first.wait(), 30)
        os.write(step, b"2/2 all of it\n")
        os.close(step)
    assert shown == [Said("half of it", 1, 2), Said("all of it", 2, 2)]
