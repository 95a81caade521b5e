"""F3 and F4: whatever write, sync or opening fails, once or from then on, nothing is executed that the ledger does not know,
nothing is lost that it does, and the run goes on when the trouble is over."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
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
  - {id: one, run: "echo one >> $JOURNAL; echo 1 > .new; mv .new one", expect: [{file: one}]}
  - {id: two, run: "echo two >> $JOURNAL; cat one > two; echo n=2 >> $RECOUP_OUTPUT"}
"""
# The driver's own thread writes the database and most files; `-f` adds its other threads, git and keepers.
FAULTS = {
    "the database is full": ("pwrite64", "ENOSPC", ()),
    "the quota is spent": ("pwrite64", "EDQUOT", ()),
    "the disk cannot write": ("pwrite64", "EIO", ()),
    "the disk cannot sync the database": ("fdatasync", "EIO", ()),
    "the disk cannot sync a file": ("fsync", "EIO", ("-f",)),
    "no file can be put in its place": ("rename", "ENOSPC", ("-f",)),
    "the disk is read-only by now": ("mkdir", "EROFS", ("-f",)),
    "no descriptor is left": ("openat", "EMFILE", ()),
}
SAMPLE = [
    ("the database is full", 60, "+"),
    ("the disk cannot sync the database", 6, ""),
    ("the disk cannot sync a file", 9, ""),
    ("the disk is read-only by now", 12, "+"),
]
FIRST = {"openat": 400}
"""Before it has begun, Python itself reads its library; what fails there is not ours to tell."""
STRIDES = {"pwrite64": 7, "openat": 23}

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


class Trial:
    def __init__(self, cli: Cli, plan: str) -> None:
        self.cli = cli
        self.plan = plan
        self.journal = cli.folder / "journal"
        cli.env["JOURNAL"] = str(self.journal)

    def reference(self) -> list[Any]:
        assert self.cli("run", self.plan).code == 0
        return essence(self.cli.ledger())

    def calls(self, fault: str) -> int:
        """How often the call is made by whoever makes it most: so far strace counts."""
        call, _, follow = FAULTS[fault]
        told = self.cli.folder / "calls"
        shutil.rmtree(self.cli.home)
        argv = ["strace", "-qq", "-o", str(told), *follow, "-e", f"trace={call}"]
        argv += self.cli.argv("run", self.plan, "--quiet")
        subprocess.run(argv, check=True, capture_output=True, cwd=self.cli.folder, env=self.cli.environ())
        lines = [line for line in told.read_text().splitlines() if f"{call}(" in line]
        return max(Counter(line.split()[0] if follow else "" for line in lines).values())

    def troubled(self, fault: str, number: int, lasting: str) -> None:
        call, error, follow = FAULTS[fault]
        shutil.rmtree(self.cli.home)
        self.journal.unlink(missing_ok=True)
        inject = f"inject={call}:error={error}:when={number}{lasting}"
        argv = ["strace", "-qq", "-o", "/dev/null", *follow, "-e", f"trace={call}", "-e", inject]
        done = subprocess.run(
            [*argv, *self.cli.argv("run", self.plan, "--quiet")],
            capture_output=True,
            text=True,
            cwd=self.cli.folder,
            env=self.cli.environ(),
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == 0 or done.stderr.strip(), "it stopped without a word"

    def goes_on(self) -> list[Any]:
        """Without the trouble. And whatever was executed had been recorded before."""
        runs = self.cli("runs", "--json").json
        if not runs:
            assert not self.journal.exists(), "a step was executed that nobody recorded"
            return self.reference()
        run_id = runs[0]["runId"]
        assert runs[0]["status"] not in ("failed", "dead_letter"), (
            "no fault of the machine ends a run for good"
        )
        launched = [
            e["payload"]["stepId"]
            for e in self.cli("events", run_id, "--json").lines
            if "launched" in e["type"]
        ]
        executed = self.journal.read_text().split() if self.journal.exists() else []
        assert all(executed.count(step) <= launched.count(step) for step in set(executed)), (
            executed,
            launched,
        )
        if runs[0]["status"] != "succeeded":
            result = self.cli("resume", run_id, "--json")
            assert result.code == 0, result.out + result.err
        return essence(self.cli.ledger())


def test_a_run_fails_closed_and_goes_on_when_the_trouble_is_over(cli: Cli, repo: Path) -> None:
    trial = Trial(cli, cli.plan(PLAN))
    wanted = trial.reference()
    for fault, number, lasting in SAMPLE:
        trial.troubled(fault, number, lasting)
        assert trial.goes_on() == wanted, fault


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("lasting", ["", "+"], ids=["once", "from then on"])
@pytest.mark.parametrize("fault", FAULTS)
def test_whichever_call_fails_the_run_fails_closed_and_goes_on(
    cli: Cli, repo: Path, fault: str, lasting: str
) -> None:
    trial = Trial(cli, cli.plan(PLAN))
    wanted = trial.reference()
    call = FAULTS[fault][0]
    numbers = range(FIRST.get(call, 1), trial.calls(fault) + 1, STRIDES.get(call, 1))
    assert numbers, "the sweep reached nothing"
    for number in numbers:
        trial.troubled(fault, number, lasting)
        assert trial.goes_on() == wanted, f"{call} {number}{lasting}"
