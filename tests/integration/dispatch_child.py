"""A process that takes hints: `QUEUE=WHERE dispatch_child.py HOLD_S MODE`. Says `+ RUN TIME` and `- RUN TIME`, both before the
ending that others can see; goes on until its input ends. MODE hold: takes once and keeps silent. MODE sweep: hints `new` whenever
there is no such hint, and says `? new TIME`."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from pathlib import Path

from recoup.clock import SystemClock
from recoup.dispatch.opening import open_dispatch
from recoup.errors import DispatchError
from recoup.model.dispatch import Hint
from recoup.ports import Dispatch


def say(sign: str, run_id: str) -> None:
    sys.stdout.write(f"{sign} {run_id} {time.monotonic_ns()}\n")
    sys.stdout.flush()


async def work(dispatch: Dispatch) -> None:
    while True:
        try:
            taken = await dispatch.take(["default"], frozenset(), 5)
            for each in taken:
                say("+", each.hint.run_id)
            for each in taken:
                await asyncio.sleep(random.random() * 0.002)
                say("-", each.hint.run_id)
                await dispatch.done(each)
            if not taken:
                await dispatch.wait(60)
        except DispatchError as error:
            say("!", str(error).replace(" ", "_").replace("\n", "_"))


async def sweep(dispatch: Dispatch) -> None:
    while True:
        if not await dispatch.hinted(["new"]):
            await dispatch.hint([Hint("new")])
            say("?", "new")
        await asyncio.sleep(0.02)


async def main() -> None:
    where, (hold_s, mode) = os.environ["QUEUE"], sys.argv[1:]
    dispatch = await open_dispatch(
        where if "://" in where else Path(where), SystemClock(), hold_s=float(hold_s)
    )
    if mode == "hold":
        for each in await dispatch.take(["default"], frozenset(), 1):
            say("+", each.hint.run_id)
        await asyncio.to_thread(sys.stdin.read)
        return
    working = asyncio.create_task(sweep(dispatch) if mode == "sweep" else work(dispatch))
    say("ready", "-")
    await asyncio.to_thread(sys.stdin.read)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await dispatch.close()


asyncio.run(main())
