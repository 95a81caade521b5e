"""kill -9 of the driver at random instants: the same final ledger, and no finished step repeated."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.scenario.conftest import Cli, kill

from recoup.kernel.fold import fold
from recoup.kernel.prefix import is_good, ledger_document
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.ids import run_stream
from recoup.model.run import RunState, RunStatus

T = TypeVar("T")

STEPS = 6
PLAN = """
version: 1
name: reference
workspace: {git: ./repo}
defaults: {max_attempts: 20}
steps:
"""
STEP = """\
  - id: s%(n)d
    run: |
      echo "begin s%(n)d" >> "$JOURNAL"
      mkdir -p "$EFFECTS" && { set -C; echo effect > "$EFFECTS/$RECOUP_IDEMPOTENCY_KEY"; } 2>/dev/null || true
      echo "n=%(n)d" >> "$RECOUP_OUTPUT"
      echo %(n)d > .new; mv .new file-%(n)d; sleep 0.0%(n)d
    expect: [{file: file-%(n)d}]
"""


def plan_text() -> str:
    return PLAN + "".join(STEP % {"n": n} for n in range(STEPS))


def essence(ledger: dict[str, Any]) -> list[Any]:
    """What must not depend on kills: everything but ids, evidence and the number of attempts."""
    return [
        ledger["status"],
        ledger["knownGoodPrefixLength"],
        ledger["frontier"],
        [
            (
                s["stepId"],
                s["kind"],
                s["phase"],
                s["argsDigest"],
                s["preState"],
                s["verdict"],
                s["outputs"],
                s["checkpoint"],
            )
            for s in ledger["steps"]
        ],
    ]


class Trial:
    """One run of the reference plan, with kills. The ledger is read here; what is tested runs as processes."""

    def __init__(self, cli: Cli, plan: str, number: int) -> None:
        self.cli = cli
        self.plan = plan
        self.effects = cli.folder / f"effects-{number}"
        self.journal = cli.folder / f"journal-{number}"
        self.env = {"EFFECTS": str(self.effects), "JOURNAL": str(self.journal)}

    def run(self, seconds: float | None = None) -> str | None:
        """Start the plan, kill its driver after so many seconds; the run's id, or None if there is no run yet."""
        before = run_ids(self.cli)
        driver = self.cli.start("run", self.plan, "--quiet", env=self.env)
        try:
            assert driver.wait(seconds or 60) == 0, driver.stderr
        except subprocess.TimeoutExpired:
            kill(driver)
        made = run_ids(self.cli) - before
        return made.pop() if made else None

    def finish(self, run_id: str) -> list[Any]:
        """Resume to the end; finished steps must be left alone, and every effect be there once."""
        before = state_of(self.cli, run_id)
        finished = {step.step_id for step in before.steps if is_good(step)}
        begun = len(self.journal.read_text().splitlines()) if self.journal.exists() else 0
        if before.status is not RunStatus.SUCCEEDED:
            result = self.cli("resume", run_id, "--json", env=self.env)
            assert result.code == 0, result.err
        after = self.journal.read_text().splitlines()[begun:]
        assert not {line.removeprefix("begin ") for line in after} & finished, "a finished step was repeated"
        made = sorted(path.name for path in self.effects.iterdir())
        assert made == sorted(f"{run_id}.s{n}" for n in range(STEPS))
        return essence(msgspec.to_builtins(ledger_document(state_of(self.cli, run_id))))


def run_ids(cli: Cli) -> set[str]:
    if not (cli.home / "ledger.db").exists():
        return set()
    return {name.removeprefix("run:") for name in asked(cli, lambda ledger: ledger.streams("run:"))}


def state_of(cli: Cli, run_id: str) -> RunState:
    return fold(run_id, asked(cli, lambda ledger: ledger.read(run_stream(run_id))))


def asked(cli: Cli, question: Callable[[SqliteLedger], Awaitable[T]]) -> T:
    async def ask() -> T:
        ledger = SqliteLedger(cli.home / "ledger.db")
        try:
            return await question(ledger)
        finally:
            await ledger.close()

    return asyncio.run(ask())


def wait_for_the_end_of_the_lease(cli: Cli, run_id: str) -> None:
    """Of a driver that does not renew it."""
    while True:
        row = asked(cli, lambda ledger: ledger.lease(run_id))
        assert row is not None
        left_s = row.renewed_at.boot_us / 1e6 + row.ttl_s - time.clock_gettime(time.CLOCK_BOOTTIME)
        if left_s < 0:
            return
        time.sleep(left_s + 0.01)


def kill_and_resume(cli: Cli, count: int, seed: int) -> None:
    chance = random.Random(seed)
    plan = cli.plan(plan_text())
    began = time.monotonic()
    reference = Trial(cli, plan, 0)
    run_id = reference.run()
    takes = time.monotonic() - began
    assert run_id is not None
    wanted = reference.finish(run_id)
    for number in range(1, count + 1):
        trial = Trial(cli, plan, number)
        killed = trial.run(chance.uniform(0.02, takes))
        if killed is not None:  # otherwise killed before there was a run: nothing half-done
            assert trial.finish(killed) == wanted, f"kill {number} of seed {seed}"


def test_kills_change_nothing(cli: Cli, repo: Path) -> None:
    kill_and_resume(cli, 10, seed=20261115)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_two_hundred_kills_change_nothing(cli: Cli, repo: Path, seed: int) -> None:
    kill_and_resume(cli, 55, seed)
