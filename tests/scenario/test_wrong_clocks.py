"""Workers whose wall clock is an hour off: the database's clock decides for all of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.conftest import Cli
from tests.scenario.fleets import QUICK, eventually

from recoup.testing.postgres import PostgresServer

PLAN = """
    version: 1
    name: timely
    steps:
      - {id: only, run: 'true'}
"""

pytestmark = pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not installed")


@pytest.fixture
def fleet(cli: Cli, postgres: PostgresServer) -> Cli:
    cli.env |= {"RECOUP_DATABASE": postgres.prepared_database(), **QUICK}
    return cli


@contextmanager
def worker_with_clock(cli: Cli, home: Path, off: str) -> Iterator[None]:
    """A worker whose machine shows another time; its boot clock is right."""
    env = cli.environ({"RECOUP_HOME": str(home), "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    command = ["faketime", "-f", off, *cli.argv("worker", "--json")]
    with (home.parent / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=env, cwd=cli.folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def submitted(cli: Cli, *words: str) -> str:
    done = cli("submit", cli.plan(PLAN), *words)
    assert done.code == 0, done.err
    return done.out.strip()


def status(cli: Cli, run_id: str) -> Any:
    return cli("show", run_id, "--json").json["status"]


def test_a_worker_that_is_an_hour_behind_drives_a_scheduled_run_when_it_is_due(
    fleet: Cli, tmp_path: Path
) -> None:
    with worker_with_clock(fleet, tmp_path / "behind", "-1h"):
        run_id = submitted(fleet, "--at", "2s")
        assert eventually(lambda: status(fleet, run_id) == "succeeded", 90)
        (listed,) = fleet("workers", "--json").json
        assert -3700 < listed["clockAheadS"] < -3500
        assert listed["clockWrong"] is True
        assert "s behind" in fleet("workers").out


def test_a_worker_that_is_ahead_begins_no_scheduled_run_too_early(fleet: Cli, tmp_path: Path) -> None:
    later, soon = submitted(fleet, "--at", "1h"), ""
    with worker_with_clock(fleet, tmp_path / "ahead", "+2h"):
        soon = submitted(fleet)
        assert eventually(lambda: status(fleet, soon) == "succeeded", 90)
        assert status(fleet, later) == "queued"
    events = fleet("events", soon, "--json").lines
    assert [event["at"] for event in events] == sorted(event["at"] for event in events), (
        "the submission and the worker use one clock"
    )


def test_the_doctor_says_how_far_the_clock_is_off(fleet: Cli) -> None:
    asked = ["faketime", "-f", "+30m", *fleet.argv("doctor", "--json")]
    env = fleet.environ({"FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    done = subprocess.run(asked, env=env, cwd=fleet.folder, capture_output=True, text=True, check=False)
    (clock,) = [one for one in json.loads(done.stdout)["findings"] if one["name"] == "clock"]
    assert clock["ok"] is False
    assert "1800 s ahead" in clock["detail"]
