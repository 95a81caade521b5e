"""The units and the container file, looked at by the programs that are made for it. `tools/setup-soak.sh` gets them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
HADOLINT = ROOT / ".bench" / "hadolint" / "bin" / "hadolint"
PROGRAM = "/opt/recoup/bin/recoup"
EXPOSURE_MAX = 25
"""Of 100, as systemd counts what a service could reach."""
CHECK_S = 120
pytestmark = pytest.mark.soak


@pytest.fixture
def units(tmp_path: Path) -> list[str]:
    """As they are, but for the program: systemd asks whether it is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    paths = [path for ending in ("service", "timer") for path in sorted(DEPLOY.glob(f"*.{ending}"))]
    for path in paths:
        (tmp_path / path.name).write_text(path.read_text().replace(PROGRAM, "/bin/true"))
    return [str(tmp_path / path.name) for path in paths]


def analyzed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, timeout=CHECK_S)


def test_systemd_finds_nothing_wrong_with_the_units(units: list[str]) -> None:
    told = analyzed("verify", "--man=no", "--recursive-errors=no", *units)
    assert (told.returncode, told.stdout + told.stderr) == (0, "")


def test_systemd_finds_a_word_that_it_does_not_know(units: list[str]) -> None:
    worker = Path(next(unit for unit in units if unit.endswith("recoup-worker.service")))
    worker.write_text(worker.read_text().replace("KillMode=mixed", "KillMode=gently"))
    assert "gently" in analyzed("verify", "--man=no", "--recursive-errors=no", str(worker)).stderr


def test_systemd_counts_little_that_a_service_could_reach(units: list[str]) -> None:
    services = [unit for unit in units if unit.endswith(".service")]
    told = analyzed("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", *services)
    assert told.returncode == 0, told.stdout + told.stderr


def test_hadolint_finds_nothing_wrong_with_the_container_file(tmp_path: Path) -> None:
    if not HADOLINT.exists():
        pytest.skip("needs hadolint")
    told = subprocess.run(
        [HADOLINT, DEPLOY / "Containerfile"], capture_output=True, text=True, timeout=CHECK_S
    )
    assert (told.returncode, told.stdout + told.stderr) == (0, "")
    worse = tmp_path / "Containerfile"
    worse.write_text("FROM debian\n")
    assert subprocess.run([HADOLINT, worse], capture_output=True, timeout=CHECK_S).returncode != 0
