"""Where it was measured: the machine, how busy it was, and the versions of everything that was compared."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import statistics
import subprocess
import time
from importlib import metadata
from pathlib import Path

import msgspec

from benchmarks.peers.environments import PLACE, ROOT, pinned_versions
from recoup import __version__

BUSY_SHARE = 0.2
"""Of the cores: where others use more than that, the figures are no good."""
LOOK_S = 1.0
PACE_TIMES = 25
PACE_WORDS = 30_000


class Machine(msgspec.Struct, frozen=True):
    cores: int
    processor: str
    memory_gb: float
    kernel: str
    python: str
    disk: str


def machine() -> Machine:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        processor=_processor(),
        memory_gb=round(memory_bytes / 2**30, 1),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        disk=_disk(),
    )


def busy_cores() -> float:
    """How many others use, while nothing of ours runs. The load of the last minute would count the last benchmark."""
    before, began = _idle_s(), time.monotonic()
    time.sleep(LOOK_S)
    idle = (_idle_s() - before) / (time.monotonic() - began)
    return round(max(0.0, (os.cpu_count() or 1) - idle), 1)


def pace_ms() -> float:
    """How long the same small piece of work takes here and now. Neighbours on its host slow a virtual machine down, and
    nothing that can be seen from inside it tells."""
    return round(statistics.median(_work_ms() for _ in range(PACE_TIMES)), 2)


def _work_ms() -> float:
    began = time.perf_counter()
    assert len({str(number): number for number in range(PACE_WORDS)}) == PACE_WORDS
    return (time.perf_counter() - began) * 1_000


def _idle_s() -> float:
    """Of all cores, since the start: idle, or waiting for the disk."""
    ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(ticks[4]) + int(ticks[5])) / os.sysconf("SC_CLK_TCK")


def versions() -> dict[str, str]:
    found = {"Recoup": f"{__version__} at {commit()}", "SQLite": sqlite3.sqlite_version}
    found["PostgreSQL"] = _postgres()
    for package in ("pgqueuer", "procrastinate"):
        found[package] = metadata.version(package)
    return found | pinned_versions()


def commit() -> str:
    """With a plus where files differ from it."""
    asked = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    return said.stdout.strip() if said.returncode == 0 else "no commit"


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


def _disk() -> str:
    """The file system that databases are measured on."""
    PLACE.mkdir(exist_ok=True)
    if shutil.which("findmnt") is None:
        return "unknown"
    said = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", PLACE], capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


def _postgres() -> str:
    from recoup.testing.postgres import VARIABLE, programs

    if os.environ.get(VARIABLE):
        return f"the one at {VARIABLE}"
    said = subprocess.run([programs() / "postgres", "--version"], capture_output=True, text=True)
    return said.stdout.split()[-1] if said.returncode == 0 else "unknown"
