"""F6: a driver frozen at any instant for longer than its lease, and replaced. Awake again it changes nothing: no event, no
heartbeat, no checkpoint, no answer to a control, no file of the workspace."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Started
from tests.scenario.conftest import Cli
from tests.scenario.test_kills import essence, run_ids, state_of

from recoup.errors import LedgerBusy
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


def begun(cli: Cli, plan: str) -> tuple[Started, str]:
    """A driver, and its run as soon as there is one."""
    before = run_ids(cli)
    driver = cli.start("run", plan, "--quiet")
    while not (made := run_ids(cli) - before):
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.01)
    return driver, made.pop()


def frozen_after(cli: Cli, plan: str, seconds: float) -> tuple[Started, str] | None:
    """The driver that stands still so long after there was a run, and that run; None if it was over by then."""
    driver, run_id = begun(cli, plan)
    time.sleep(seconds)
    driver.send_signal(signal.SIGSTOP)
    if not is_over(cli, run_id):
        return driver, run_id
    driver.send_signal(signal.SIGCONT)
    driver.communicate(timeout=60)
    return None


def is_over(cli: Cli, run_id: str) -> bool:
    try:
        return state_of(cli, run_id).status is RunStatus.SUCCEEDED
    except LedgerBusy:
        return False  # whoever drives it has the lock in its hand


def replaced(cli: Cli, run_id: str, driver: Started) -> bool:
    """As soon as its lease has run out. False: it was frozen with the lock of the database in its hand, which SQLite takes
    from nobody who lives: then nobody writes at all, and is told so."""
    deadline = time.monotonic() + 60
    while (result := cli("resume", run_id, "--json")).code == 2:
        assert time.monotonic() < deadline, result.err
        time.sleep(0.2)
    if result.code == 75 and (
        f"Process {driver.pid} holds it" in result.err or "stayed locked" in result.err
    ):
        return False
    assert result.code == 0, result.out + result.err
    return True


def everything(cli: Cli, run_id: str) -> dict[str, Any]:
    """What the driver that was replaced must leave alone. Pipes are its own: each has a new name."""
    run = cli.run_dir(run_id)
    files = {
        str(path.relative_to(run)): (path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in run.rglob("*")
        if (path.is_file() or path.is_symlink()) and not is_its_own(str(path.relative_to(run)))
    }
    events = [(event["seq"], event["type"]) for event in cli("events", run_id, "--json").lines]
    return {"files": files, "events": events, "pointer": (run / "workspace").readlink()}


def is_its_own(name: str) -> bool:
    """A checkpoint that no event cites may be added, or stored again: its parts are named by what they hold. The clock is
    a file that only has a time."""
    return name.startswith(("private/store.git/objects/", "private/manifests/", "private/clock"))


def freeze_and_replace(cli: Cli, times: int, seed: int) -> None:
    cli.env |= {"RECOUP_LEASE_S": "2", "RECOUP_HEARTBEAT_S": "0.4"}
    chance = random.Random(seed)
    plan = cli.plan(plan_text())
    reference, _ = begun(cli, plan)
    began = time.monotonic()
    assert reference.wait(60) == 0
    takes_s = time.monotonic() - began
    wanted = essence(cli.ledger())
    frozen = 0
    for number in range(times):
        found = frozen_after(cli, plan, chance.uniform(0, 0.8 * takes_s))
        if found is None:
            continue
        driver, run_id = found
        was_replaced = replaced(cli, run_id, driver)
        before = everything(cli, run_id) if was_replaced else {}
        driver.send_signal(signal.SIGCONT)
        driver.communicate(timeout=60)
        if was_replaced:
            after = everything(cli, run_id)
            changed = set(after["files"].items()) ^ set(before["files"].items())
            assert not changed, f"freeze {number} of seed {seed}: {sorted(changed)}"
            assert after == before
            frozen += 1
        elif not is_over(cli, run_id):
            assert replaced(cli, run_id, driver), "awake, it has let go"
        assert essence(cli.ledger(run_id)) == wanted
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
