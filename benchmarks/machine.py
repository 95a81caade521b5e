"""Where it was measured: the machine, how busy it was, and the versions of everything that was compared."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
from importlib import metadata
from pathlib import Path

import msgspec

from benchmarks.peers.environments import PLACE, ROOT, pinned_versions
from recoup import __version__

BUSY_SHARE = 0.5
"""Of the cores: with more load than that before anything began, the figures are no good."""


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


def load() -> float:
    """Processes that want a core, over the last minute."""
    return round(os.getloadavg()[0], 1)


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
