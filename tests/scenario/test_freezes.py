"""F6: a driver frozen at any instant for longer than its lease, and replaced. Awake again it changes nothing: no event, no
heartbeat, no checkpoint, no answer to a control, no file of the workspace."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.conftest import Cli
from tests.scenario.test_kills import essence, run_ids, state_of

from recoup.model.run import RunStatus

STEPS = 5
PLAN = """
version: 1
name: frozen
workspace: {git: ./repo}
defaults: {max_attempts: 20}
steps:
"""
STEP = """\
  - {id: s%(n)d, run: "sleep 0.1; echo %(n)d > .new; mv .new file-%(n)d", expect: [{file: file-%(n)d}]}
"""


def plan_text() -> str:
    return PLAN + "".join(STEP % {"n": n} for n in range(STEPS))


def frozen_after(cli: Cli, plan: str, seconds: float) -> tuple[subprocess.Popen[str], str] | None:
    """The driver that stands still so long after there was a run, and that run; None if it was over by then."""
    before = run_ids(cli)
    driver = cli.start("run", plan, "--quiet")
    while not (made := run_ids(cli) - before):
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.01)
    time.sleep(seconds)
    driver.send_signal(signal.SIGSTOP)
    (run_id,) = made
    if state_of(cli, run_id).status is not RunStatus.SUCCEEDED:
        return driver, run_id
    driver.send_signal(signal.SIGCONT)
    driver.communicate(timeout=60)
    return None


def replaced(cli: Cli, run_id: str) -> None:
    """As soon as its lease has run out."""
    deadline = time.monotonic() + 60
    while (result := cli("resume", run_id, "--json")).code == 2:
        assert time.monotonic() < deadline, result.err
        time.sleep(0.2)
    assert result.code == 0, result.out + result.err


def everything(cli: Cli, run_id: str) -> dict[str, Any]:
    """What the driver that was replaced must leave alone."""
    run = cli.run_dir(run_id)
    files = {
        str(path.relative_to(run)): (path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in run.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }
    events = [(event["seq"], event["type"]) for event in cli("events", run_id, "--json").lines]
    return {"files": files, "events": events, "pointer": (run / "workspace").readlink()}


def freeze_and_replace(cli: Cli, times: int, seed: int) -> None:
    cli.env |= {"RECOUP_LEASE_S": "2", "RECOUP_HEARTBEAT_S": "0.4"}
    chance = random.Random(seed)
    plan = cli.plan(plan_text())
    began = time.monotonic()
    assert cli.start("run", plan, "--quiet").wait(60) == 0
    takes_s = time.monotonic() - began
    wanted = essence(cli.ledger())
    frozen = 0
    for number in range(times):
        found = frozen_after(cli, plan, chance.uniform(0, 0.6 * takes_s))
        if found is None:
            continue
        driver, run_id = found
        try:
            replaced(cli, run_id)
            before = everything(cli, run_id)
        finally:
            driver.send_signal(signal.SIGCONT)
        driver.communicate(timeout=60)
        assert everything(cli, run_id) == before, f"freeze {number} of seed {seed}"
        assert essence(cli.ledger(run_id)) == wanted
        frozen += 1
    assert frozen, "none was frozen in the midst of its run"
    assert cli("show", "last", "--json").json["status"] == RunStatus.SUCCEEDED


def test_a_driver_that_was_frozen_and_replaced_changes_nothing_when_it_wakes(cli: Cli, repo: Path) -> None:
    freeze_and_replace(cli, 3, seed=6)


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(4))
def test_drivers_frozen_at_many_instants_change_nothing_when_they_wake(
    cli: Cli, repo: Path, seed: int
) -> None:
    freeze_and_replace(cli, 40, seed)
