"""What the command line costs: `--help`, and a one-step run over its step."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure, median

ROUNDS = 15
PLAN = "{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}"


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder, "plan.yaml")
        plan.write_text(PLAN)
        helping, running, plain = [], [], []
        for _ in range(ROUNDS):
            helping.append(seconds(folder, "--help"))
            running.append(seconds(folder, "run", str(plan), "--quiet"))
            plain.append(bash_seconds())
        over = median([whole - step for whole, step in zip(running, plain, strict=True)])
    return [
        Figure("recoup --help", median(helping), "s", bar=0.2, at_most=True),
        Figure("a one-step run, over its step", over, "s", bar=0.5, at_most=True),
    ]


def seconds(folder: str, *args: str) -> float:
    script = Path(sys.executable).with_name("recoup")
    began = time.perf_counter()
    subprocess.run(
        [script, *args],
        check=True,
        capture_output=True,
        env={**os.environ, "RECOUP_HOME": str(Path(folder, "home"))},
    )
    return time.perf_counter() - began


def bash_seconds() -> float:
    began = time.perf_counter()
    subprocess.run(["bash", "--noprofile", "--norc", "-e", "-c", "true"], check=True)
    return time.perf_counter() - began
