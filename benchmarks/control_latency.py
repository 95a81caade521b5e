"""Latency of an operator's control from another process during a long step: sent, acted on, answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from benchmarks.report import Figure, of_rounds

PLAN = """
version: 1
name: long
steps:
  - {id: a, run: "touch begun; sleep 600"}
"""
ACTIONS = ("pause", "resume", "retry_step", "pause", "resume", "retry_step", "pause", "cancel")


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        waits, ends = measure(Path(name))
    return [
        of_rounds("a control, until it is acted on (median)", waits, "s", at_most=True),
        Figure("a control, until it is acted on (longest)", max(waits), "s", bar=1, at_most=True),
        Figure("cancel, until every process is gone", ends, "s"),
    ]


def measure(folder: Path) -> tuple[list[float], float]:
    env = {**os.environ, "RECOUP_HOME": str(folder / "home")}
    (folder / "plan.yaml").write_text(PLAN)
    driver = subprocess.Popen(
        recoup("run", "plan.yaml", "--quiet"),
        cwd=folder,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (folder / "begun").exists():
        time.sleep(0.02)
    began = time.perf_counter()
    for action in ACTIONS:
        began = time.perf_counter()
        subprocess.run(
            recoup("control", "last", action, "--reason", "measured"),
            cwd=folder,
            env=env,
            check=True,
            capture_output=True,
        )
    driver.wait(30)
    return waits_in(folder, env), time.perf_counter() - began


def waits_in(folder: Path, env: dict[str, str]) -> list[float]:
    """Between the moment a control was sent and the event that says it was acted on."""
    said = subprocess.run(
        recoup("events", "last", "--json"), cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    events = [json.loads(line) for line in said.stdout.splitlines()]
    handled = [event for event in events if event["type"] == "task.control"]
    assert [event["payload"]["outcome"] for event in handled] == ["accepted"] * len(ACTIONS)
    return [moment(event["at"]) - moment(event["payload"]["at"]) for event in handled]


def moment(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()


def recoup(*words: str) -> list[str]:
    return [sys.executable, "-m", "recoup.cli.main", *words]
