"""No browser outlives its driver, nor its driver's lease."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands
from tests.integration.browser_house import BrowserHouse, boot_s, needs_browser, site

from recoup.model.failure import FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.processes.guard import Guard
from recoup.processes.identity import identify
from recoup.processes.process_table import descendants, process_table
from recoup.processes.sweep import sweep_run
from recoup.testing.pages import Site

pytestmark = needs_browser
__all__ = ["site"]
ROOT = Path(__file__).parents[2]


@contextmanager
def driver(
    folder: Path, url: str, lease_s: float = 60
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    command = [sys.executable, "-m", "tests.integration.browser_child", str(folder), url, str(lease_s)]
    # A long path, as some systems have: sockets in it would not fit.
    env = {**os.environ, "TMPDIR": str(folder)}
    child = subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    said: dict[str, Any] = {}
    try:
        said = json.loads(child.stdout.readline())
        assert len(said["pids"]) > 4, "there are the library's driver, the guard and the browser's processes"
        yield child, said
    finally:
        child.kill()
        child.wait()
        for left in said.get("folders", ()):
            shutil.rmtree(left, ignore_errors=True)
        child.stdin.close()
        child.stdout.close()


def gone_within(pids: list[int], seconds: float) -> list[int]:
    """Those that are still there then."""
    end = time.monotonic() + seconds
    while (left := [pid for pid in pids if identify(pid) is not None]) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def test_a_driver_that_is_killed_takes_its_browser_with_it(tmp_path: Path, site: Site) -> None:
    with driver(tmp_path, site.url + "/invoices") as (child, said):
        child.send_signal(signal.SIGKILL)
        assert gone_within(said["pids"], 30) == []
        assert not Path(said["folders"][0]).exists(), "the profile, with its cookies"


@pytest.mark.asyncio
async def test_a_lease_that_is_renewed_while_the_browser_starts_is_followed(
    tmp_path: Path, site: Site
) -> None:
    """Starting may take longer than a lease: nobody may take the browser for one whose driver is lost."""
    guards: list[SlowGuard] = []

    class SlowGuard(Guard):
        def __init__(self, executable: str, run_id: str, deadline_boot_s: float) -> None:
            self.deadlines: list[float] = []
            super().__init__(executable, run_id, deadline_boot_s)
            guards.append(self)

        def extend(self, deadline_boot_s: float) -> None:
            self.deadlines.append(deadline_boot_s)
            super().extend(deadline_boot_s)

        async def ready(self) -> ProcessIdentity:
            later_boot_s = boot_s() + 600
            house.hooks.lifeline.extend(later_boot_s)
            assert self.deadlines[-1] == later_boot_s
            return await super().ready()

    house = BrowserHouse(tmp_path)
    house.runtime._make_guard = SlowGuard
    try:
        await house.done("goto", value=site.url + "/invoices")
    finally:
        await house.runtime.close()
    (guard,) = guards
    assert len(guard.deadlines) >= 3


@pytest.mark.asyncio
@pytest.mark.parametrize("is_open", [False, True], ids=["between runs", "with a browser open"])
async def test_a_run_after_the_automation_driver_was_killed_gets_another(
    tmp_path: Path, site: Site, is_open: bool
) -> None:
    """The system may kill it for its memory; what the library then says differs from version to version."""
    house = BrowserHouse(tmp_path)
    try:
        await house.done("goto", value=site.url + "/invoices")
        if not is_open:
            await house.runtime.leave(house.run_id)
        drivers = [pid for pid, one in process_table().items() if one.parent == os.getpid() and is_node(pid)]
        assert drivers
        for pid in drivers:
            os.kill(pid, signal.SIGKILL)
        while any(Path(f"/proc/{pid}").exists() for pid in drivers):
            await asyncio.sleep(0.02)
        if is_open:
            lost = await house.do("goto", value=site.url + "/invoices")
            assert lost.kind in (FailureKind.CONNECTION_LOST, FailureKind.BROWSER_CRASHED)
        house.begin()
        await house.done("goto", value=site.url + "/invoices")
    finally:
        await house.runtime.close()


def is_node(pid: int) -> bool:
    return b"run-driver" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_what_a_driver_and_its_guard_leave_when_killed_together_is_removed_by_the_next_run(
    tmp_path: Path, site: Site, commands: Commands
) -> None:
    with driver(tmp_path, site.url + "/invoices") as (child, said):
        together = [child.pid, said["guard"], *filter(is_node, said["pids"])]
        for signum in (signal.SIGSTOP, signal.SIGKILL):  # none of them may see another one die
            for pid in together:
                os.kill(pid, signum)
        assert gone_within(said["pids"], 30) == []
        assert all(Path(left).exists() for left in said["folders"])
        plan = tmp_path / "plan.yaml"
        plan.write_text("version: 1\nname: tiny\nsteps: [{id: one, run: 'true'}]\n")
        env = {"PATH": os.environ["PATH"], "RECOUP_HOME": str(tmp_path / "home")}
        assert commands.run("run", str(plan), env=env, cwd=tmp_path).returncode == 0
        assert not any(Path(left).exists() for left in said["folders"])


def test_a_browser_whose_guard_is_killed_dies_too(tmp_path: Path, site: Site) -> None:
    with driver(tmp_path, site.url + "/invoices") as (_child, said):
        below = [process.pid for process in descendants(process_table(), said["guard"])]
        assert below
        os.kill(said["guard"], signal.SIGKILL)
        assert gone_within(below, 30) == []


def test_a_frozen_driver_loses_its_browser_with_its_lease_and_does_not_click(
    tmp_path: Path, site: Site
) -> None:
    site.asked.clear()
    with driver(tmp_path, site.url + "/invoices", lease_s=8) as (child, said):
        child.send_signal(signal.SIGSTOP)
        assert gone_within([said["guard"]], 60) == []
        child.send_signal(signal.SIGCONT)
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        child.wait(60)
        assert '"kind": null' not in child.stdout.read()
    assert not site.posts("/approved")


@pytest.mark.asyncio
async def test_a_browser_that_was_left_behind_is_found_by_its_run(tmp_path: Path, site: Site) -> None:
    with driver(tmp_path, site.url + "/invoices") as (child, said):
        child.send_signal(signal.SIGSTOP)
        below = [process.pid for process in descendants(process_table(), said["guard"])]
        assert await sweep_run(said["runId"]) >= 1
        assert gone_within([said["guard"], *below], 30) == []
