"""F1: killed at every write, fsync, rename, link and unlink of a reference run, the run still comes to the same end."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.conftest import Cli
from tests.scenario.test_kills import essence

PLAN = """
version: 1
name: reference
workspace: {git: ./repo}
defaults: {max_attempts: 20}
steps:
  - {id: one, run: "echo 1 > .new; mv .new one", expect: [{file: one}]}
  - {id: two, run: "cat one > two; echo n=2 >> $RECOUP_OUTPUT"}
"""
SWEEPS = {
    # The driver's own thread: every write of the database, and everything else it writes itself.
    "driver": (("pwrite64", "fdatasync", "write", "fsync", "rename", "link", "unlink"), (), 230),
    # Every thread and every child: checkpoints, git, keepers.
    "files": (("fsync", "rename", "link", "symlink", "unlink"), ("-f",), 60),
}
CHUNKS = 8

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
    pytest.mark.timeout(3000),
]


def attempt(cli: Cli, calls: tuple[str, ...], follow: tuple[str, ...], number: int, plan: str) -> bool:
    """Run the plan, killed at the call with this number; True when it was never reached."""
    inject = f"inject={','.join(calls)}:signal=KILL:when={number}"
    argv = ["strace", "-qq", "-o", "/dev/null", *follow, "-e", f"trace={','.join(calls)}", "-e", inject]
    argv += cli.argv("run", plan, "--quiet")
    done = subprocess.run(argv, capture_output=True, cwd=cli.folder, env=cli.environ(), timeout=120)
    return done.returncode == 0


def end(cli: Cli, plan: str) -> list[Any]:
    """Resume what is there, or begin where nothing is."""
    runs = cli("runs", "--json")
    assert runs.code == 0, runs.err
    if not runs.json:
        assert cli("run", plan).code == 0
    elif runs.json[0]["status"] != "succeeded":
        result = cli("resume", runs.json[0]["runId"], "--json")
        assert result.code == 0, result.out + result.err
    assert len(cli("runs", "--json").json) == 1
    return essence(cli.ledger())


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_crash_at_any_call_changes_nothing(cli: Cli, repo: Path, sweep: str, chunk: int) -> None:
    calls, follow, most = SWEEPS[sweep]
    plan = cli.plan(PLAN)
    assert cli("run", plan).code == 0
    wanted = end(cli, plan)
    killed = 0
    for number in range(1 + chunk, most + 1, CHUNKS):
        shutil.rmtree(cli.home)
        survived = attempt(cli, calls, follow, number, plan)
        killed += not survived
        assert end(cli, plan) == wanted, f"{sweep}: call {number}"
    assert killed >= 3, "the sweep reached nothing"
