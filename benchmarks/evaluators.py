"""The evaluators that are kept beside the project, where they are: their figures count like our own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.report import LeftOut

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = ROOT.parent / "shared"
EVALUATE_TIMEOUT_S: Final = 300


def absent(name: str) -> LeftOut:
    return LeftOut("what is judged by others", f"../shared/{name} is not here")


def evaluated(
    name: str, adapter: str, *arguments: str | Path, timeout_s: float = EVALUATE_TIMEOUT_S
) -> dict[str, Any] | LeftOut:
    """What the evaluator says of the adapter, or that it is not there."""
    program = SHARED / "bench" / name
    if not program.is_file():
        return absent(f"bench/{name}")
    command = [sys.executable, program, "--adapter", ROOT / "benchmarks" / adapter, "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=timeout_s, check=True, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures
