"""A probe that is killed at random instants, and processes that flap for hours: real ones, in `make soak`."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from recoup.clock import SystemClock
from recoup.ledger.sqlite import SqliteLedger
from recoup.model import events as ev
from recoup.model.ids import probe_stream
from recoup.model.probe import Budget, CommandCheck
from recoup.testing.probe import ProbeHouse, process

RECOUP = (sys.executable, "-m", "recoup.cli.main", "probe")
KILLS = 200
TIMEOUTS = 1_000
pytestmark = pytest.mark.soak

_SAY = 'echo "$$ $(cut -d" " -f22 /proc/$$/stat)" >>'
"""The shell's id and the time of its start, in the words of `Process`."""
FILE = f"""
    version: 1
    budget: {{delays_s: [200ms, 400ms], max_retries: 100, day_max: 1000}}
    resources:
      - id: steady
        process: {{command: [sh, -c, '{_SAY} steady; exec sleep 1000'], settle: 50ms}}
      - id: flaps
        process: {{command: [sh, -c, '{_SAY} flaps; setsid sleep 1000 & sleep 0.4; exit 1'], settle: 50ms}}
      - id: rests
        process: {{command: [sh, -c, '{_SAY} rests; exec sleep 1000'], settle: 50ms}}
        needs: [steady]
"""


class Process(NamedTuple):
    """Numbers are used again, soon on a busy machine, also by this test: a process has a time of its start, too."""

    pid: int
    started: int


def alive(process: Process) -> bool:
    try:
        words = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return False
    return words[0] not in "ZX" and int(words[19]) == process.started


def marked(home: str) -> list[int]:
    """The processes that belong to probes of this state folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
                environ = (folder / "environ").read_bytes()
            except OSError:
                continue
            is_ours = b"RECOUP_RUN_ID=probe:" in environ and f"SOAK={home}".encode() in environ
            if state not in "ZX" and is_ours:
                found.append(int(folder.name))
    return found


@pytest.mark.timeout(3600)
def test_a_probe_killed_at_random_instants_leaves_no_orphan_and_no_second_copy(tmp_path: Path) -> None:
    (tmp_path / "dev.yaml").write_text(textwrap.dedent(FILE))
    home = str(tmp_path / "home")
    environ = {**os.environ, "RECOUP_HOME": home, "SOAK": home}
    chance = random.Random(4)
    for number in range(KILLS):
        running = subprocess.Popen(
            [*RECOUP, "run", "dev.yaml", "--quiet"],
            cwd=tmp_path,
            env=environ,
        )
        time.sleep(chance.uniform(0.3, 3.0))
        copies = Counter(
            name for name in ("steady", "rests") for one in processes_in(tmp_path / name) if alive(one)
        )
        assert max(copies.values(), default=0) <= 1, f"two copies before kill {number}: {copies}"
        running.send_signal(signal.SIGKILL)
        running.wait()
        end_s = time.monotonic() + 15
        while marked(home) and time.monotonic() < end_s:
            time.sleep(0.05)
        assert not marked(home), f"orphans after kill {number}"
    asyncio.run(histories_hold(tmp_path / "home"))


async def histories_hold(home: Path) -> None:
    """Of each resource: no action without its attempt, no attempt without a result but the last."""
    ledger = SqliteLedger(home / "ledger.db")
    events = await ledger.read(probe_stream("dev"), limit=1_000_000)
    await ledger.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    open_attempt: dict[str, bool] = {}
    for event in events:
        payload = event.payload
        if isinstance(payload, ev.RecoveryAttempted):
            assert not open_attempt.get(payload.resource_id), "an attempt began while another had no result"
            open_attempt[payload.resource_id] = True
        elif isinstance(payload, ev.RecoverySucceeded | ev.RecoveryFailed):
            assert open_attempt.get(payload.resource_id), "a result of nothing"
            open_attempt[payload.resource_id] = False
    epochs = [one.payload.lease_epoch for one in events if isinstance(one.payload, ev.ProbeStarted)]
    assert epochs == sorted(set(epochs))


def processes_in(file: Path) -> list[Process]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [Process(*map(int, line.split())) for line in lines if len(line.split()) == 2]


@pytest.mark.timeout(3600)
async def test_a_thousand_timeouts_with_children_in_sessions_of_their_own_leave_nobody(
    tmp_path: Path,
) -> None:
    """Each look starts a tree that outlasts its limit: a child in its own session, which ignores SIGTERM."""
    pids = tmp_path / "pids"
    script = f"setsid sh -c 'trap \"\" TERM; {_SAY} {pids}; sleep 1000' & sleep 1000"
    check = CommandCheck(command=("sh", "-c", script), every_s=0.01, timeout_s=0.25, failures=1000)
    resources = [
        process(f"r{number}", checks=(check,), start_period_s=100_000, budget=Budget()) for number in range(8)
    ]
    async with ProbeHouse(tmp_path, *resources, clock=SystemClock()).running() as house:
        await house.until(lambda: len(processes_in(pids)) >= TIMEOUTS, patience_s=3000)
    every = processes_in(pids)
    left = [one for one in every if alive(one)]
    assert not left, f"{len(left)} of {len(every)} are left"


@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not installed (Debian: faketime)")
def test_a_process_that_flaps_every_eleven_minutes_is_handed_over_within_a_day(tmp_path: Path) -> None:
    """Thirty times as fast as the clock on the wall: a second here is half a minute there."""
    text = """
        version: 1
        resources:
          - id: flaps
            process: {command: [sleep, "660"]}
            start_period: 5m
    """
    (tmp_path / "dev.yaml").write_text(textwrap.dedent(text))
    environ = {**os.environ, "RECOUP_HOME": str(tmp_path / "home"), "RECOUP_LEASE_S": "3600"}
    environ["RECOUP_HEARTBEAT_S"] = "300"
    running = subprocess.Popen(
        ["faketime", "-f", "+0 x30", *RECOUP, "run", "dev.yaml", "--json"],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    lines = []
    try:
        for text in running.stdout or ():
            lines.append(json.loads(text))
            if lines[-1]["type"] == "Escalated":
                break
    finally:
        os.killpg(running.pid, signal.SIGTERM)  # faketime itself hands nothing on
        running.communicate(timeout=60)
    attempts = [line for line in lines if line["type"] == "RecoveryAttempted"]
    assert lines[-1]["limit"] == "day_max" and len(attempts) == 12
    assert {line["retry_count"] for line in attempts} == {1}
