"""The systems that Recoup is compared with, each at a pinned version in a throw-away environment of its own.

pgqueuer and procrastinate are in our own environment, pinned with everything else there. An environment that cannot be
made is told about and left out.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.report import LeftOut

ROOT: Final = Path(__file__).resolve().parents[2]
PLACE: Final = ROOT / ".bench"
PINS: Final = {
    "DBOS": ("dbos==3.3.0",),
    # Prefect's server does not start with newer versions of FastAPI.
    "Prefect": ("prefect==3.8.8", "fastapi==0.139.0"),
    "Restate": ("restate-sdk==1.2.0", "hypercorn==0.18.0"),
}
RESTATE_SERVER: Final = "@restatedev/restate-server@1.7.12"
INSTALL_MAX_S: Final = 600
WORDS_MAX: Final = 200
KEEPS: Final = {
    "Recoup": "every event, synced before it is acted on",
    "DBOS": "each step's result and the workflow's state, synced",
    "Prefect": "the states of flow runs, not synced (SQLite, `synchronous = NORMAL`); of tasks, sent later",
    "Restate": "its log, in RocksDB, synced",
    "pgqueuer": "the job until it is done, synced; no steps",
    "procrastinate": "the job and its state, synced; no steps",
}
"""What is sure to outlive a loss of power. PostgreSQL and SQLite sync unless something else is said."""


def python_with(name: str) -> Path | LeftOut:
    """The interpreter of the environment that has it."""
    folder = PLACE / name.lower()
    python, stamp, wanted = folder / "bin" / "python", folder / "stamp", "\n".join(PINS[name])
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"  installing {' '.join(PINS[name])}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    failed = _install([python, "-m", "pip", "install", "-q", *PINS[name]])
    if failed:
        return LeftOut(name, f"it could not be installed: {failed}")
    stamp.write_text(wanted)
    return python


def restate_server() -> Path | LeftOut:
    """The program itself, which npm brings for some platforms."""
    folder = PLACE / "restate-server"
    kind = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "other")
    program = folder / f"node_modules/@restatedev/restate-server-linux-{kind}/bin/restate-server"
    stamp = folder / "stamp"
    if stamp.is_file() and stamp.read_text() == RESTATE_SERVER:
        return program
    if shutil.which("npm") is None:
        return LeftOut("Restate", "its server comes through npm, which is not here")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"  installing {RESTATE_SERVER}", flush=True)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"]
    failed = _install(["npm", "install", "--prefix", folder, *quiet, RESTATE_SERVER])
    if failed or not program.is_file():
        return LeftOut("Restate", f"its server could not be installed: {failed or 'there is none for here'}")
    stamp.write_text(RESTATE_SERVER)
    return program


def pinned_versions() -> dict[str, str]:
    first = {name: pins[0].partition("==")[2] for name, pins in PINS.items()}
    return first | {"Restate": f"{RESTATE_SERVER.rpartition('@')[2]}, SDK {first['Restate']}"}


def _install(command: list[str | Path]) -> str:
    """The last words of what failed."""
    environment = {**os.environ, "SCARF_ANALYTICS": "false", "DO_NOT_TRACK": "1"}
    try:
        got = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_MAX_S, env=environment)
    except subprocess.TimeoutExpired:
        return f"not done after {INSTALL_MAX_S} s"
    return last_words(got.stderr) if got.returncode else ""


def last_words(text: str) -> str:
    """The last line, without addresses and paths: the page is for everybody."""
    last = (text.strip().splitlines() or ["no reason was given"])[-1]
    return re.sub(r"\S*://\S+|(?<!\S)/\S+", "…", last)[:WORDS_MAX]
