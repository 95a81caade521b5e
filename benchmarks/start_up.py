"""Start-up time of the command line: `--help`, and a one-step run over its step."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.progress import rounds
from benchmarks.report import Figure, of_rounds, scaled

ROUNDS = scaled(15, 3)
PLAN = "{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}"


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder, "plan.yaml")
        plan.write_text(PLAN)
        helping, running, plain = [], [], []
        for _ in rounds(ROUNDS, "recoup --help and recoup run"):
            helping.append(seconds(folder, "--help"))
            running.append(seconds(folder, "run", str(plan), "--quiet"))
            plain.append(bash_seconds())
        over = [whole - step for whole, step in zip(running, plain, strict=True)]
    return [
        of_rounds("recoup --help", helping, "s", bar=0.2, at_most=True),
        of_rounds("a one-step run, over its step", over, "s", bar=0.5, at_most=True),
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
