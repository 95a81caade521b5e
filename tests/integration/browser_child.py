"""A driver with an open browser, to be killed or frozen: says who is who, then clicks when it is told to."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.integration.browser_house import BrowserHouse, TestHooks, boot_s, button

from recoup.processes.process_table import descendants, process_table


async def main() -> None:
    folder, url, lease_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    house = BrowserHouse(folder)
    house.hooks = TestHooks(600)
    await house.done("goto", value=url)
    house.hooks.lifeline.extend(boot_s() + lease_s)
    keeper = house.hooks.keepers[-1]
    pids = [process.pid for process in descendants(process_table(), os.getpid())]
    words = Path(f"/proc/{keeper.pid}/cmdline").read_bytes().decode().split("\0")
    folders = [word.partition("=")[2] for word in words if word.startswith("--user-data-dir=")]
    folders.append(words[words.index("--") + 1])
    said = {"guard": keeper.pid, "pids": pids, "runId": house.run_id, "folders": folders}
    print(json.dumps(said), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    outcome = await house.do("click", button("Approve", near="INV-1001"))
    print(json.dumps({"kind": outcome.kind}), flush=True)


asyncio.run(main())
