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
# The driver's own thread: every write of the database, and everything else that it writes itself.
DRIVER = ("pwrite64", "fdatasync", "write", "fsync", "ftruncate", "mkdir", "rename", "link", "unlink")
# Every thread and every child (each counts for itself): checkpoints, git, keepers.
EVERYBODY = ("fsync", "mkdir", "rename", "link", "symlink", "unlink")
MANY = {"pwrite64": 8, "fsync": 2, "mkdir": 2, "unlink": 2}
"""Calls of which there are many are swept in so many parts."""
# One call at a time: strace counts each by itself, so that of several the one made most often would hide the others.
SWEEPS = [
    pytest.param(call, follow, chunk, id=f"{call}{''.join(follow)}-{chunk}")
    for calls, follow in ((DRIVER, ()), (EVERYBODY, ("-f",)))
    for call in calls
    for chunk in range(MANY.get(call, 1))
]
CALLS_MAX = 1_000

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
    pytest.mark.timeout(3000),
]


def attempt(cli: Cli, call: str, follow: tuple[str, ...], number: int, plan: str) -> bool:
    """Run the plan, killed at the call with this number; True when it was never reached."""
    inject = f"inject={call}:signal=KILL:when={number}"
    argv = ["strace", "-qq", "-o", "/dev/null", *follow, "-e", f"trace={call}", "-e", inject]
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


@pytest.mark.parametrize(("call", "follow", "chunk"), SWEEPS)
def test_a_crash_at_any_call_changes_nothing(
    cli: Cli, repo: Path, call: str, follow: tuple[str, ...], chunk: int
) -> None:
    plan = cli.plan(PLAN)
    assert cli("run", plan).code == 0
    wanted = end(cli, plan)
    step, survived = MANY.get(call, 1), False
    for number in range(1 + chunk, CALLS_MAX, step):
        shutil.rmtree(cli.home)
        survived = attempt(cli, call, follow, number, plan)
        assert end(cli, plan) == wanted, f"{call} {number}"
        if survived:
            break
    assert survived, "the sweep never came to its end"
    assert number > 1 + chunk, "the sweep reached nothing"
