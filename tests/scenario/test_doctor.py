"""`recoup doctor` on machines that lack something: hidden for real, from a new interpreter."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.conftest import Cli

from recoup.cli.extras import EXTRAS

ROOT = Path(__file__).parents[2]
HIDDEN = (
    "fastapi",
    "mcp",
    "playwright",
    "psycopg",
    "s3fs",
    "prometheus_client",
    "opentelemetry",
    "faiss",
    "kingfisher",
    "model2vec",
)


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All installed packages but the hidden ones, as links: nothing else can be imported under -S."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "recoup").symlink_to(ROOT / "src" / "recoup")
    for place in {path for path in sys.path if path.endswith("site-packages")}:
        for entry in Path(place).iterdir():
            if entry.name not in HIDDEN and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    return folder


def examined(cli: Cli, poor: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-S", "-m", "recoup.cli.main", "doctor", *options]
    whole = cli.environ({"PYTHONPATH": str(poor), **env})
    return subprocess.run(argv, capture_output=True, text=True, env=whole, cwd=cli.folder, timeout=100)


def findings(out: str) -> dict[str, Any]:
    return {finding["name"]: finding for finding in json.loads(out)["findings"]}


def test_each_extra_that_is_missing_is_explained_with_its_command(cli: Cli, poor: Path) -> None:
    result = examined(cli, poor)
    assert result.returncode == 0, "none of them is needed to run plans"
    for extra in EXTRAS:
        said = re.search(rf"^note  {extra.name} .*\n +(.*)\n +(.*)$", result.stdout, re.M)
        assert said is not None, extra.name
        assert said[1] == f"without it: {extra.without}"
        assert said[2] == f"pip install 'recoup[{extra.name}]'"
    assert "all that is needed is there; optional, and not there: serve, mcp" in result.stdout


def test_an_extra_that_a_setting_asks_for_is_needed(cli: Cli, poor: Path) -> None:
    asked = {"RECOUP_DATABASE": "postgresql://nobody@127.0.0.1:1/x", "RECOUP_EVIDENCE": "s3://bucket/x"}
    result = examined(cli, poor, "--json", **asked)
    assert result.returncode == 1
    found = findings(result.stdout)
    assert found["postgres"]["needed"]
    assert found["s3"]["needed"]
    assert not found["serve"]["needed"]
    assert found["database"]["advice"] == "pip install 'recoup[postgres]'"


def test_programs_that_are_missing_are_explained(cli: Cli) -> None:
    result = cli("doctor", "--json", env={"PATH": "", "PLAYWRIGHT_BROWSERS_PATH": str(cli.folder)})
    assert result.code == 1
    found = findings(result.out)
    for name, command in {
        "git": "apt-get install git",
        "bash": "apt-get install bash",
        "ssh": "apt-get install openssh-client",
        "chromium": "recoup browser install",
        "agents": "npm install -g @anthropic-ai/claude-code",
    }.items():
        assert not found[name]["ok"], name
        assert command in found[name]["advice"]
        assert found[name]["without"]
    assert found["git"]["needed"]
    assert not found["agents"]["needed"]


def test_a_home_that_cannot_be_written_is_explained(cli: Cli) -> None:
    (cli.folder / "file").write_text("no folder")
    result = cli("--home", str(cli.folder / "file" / "home"), "doctor")
    assert result.code == 1
    assert re.search(r"^MISS  home .*\n +without it: .*\n +.*RECOUP_HOME", result.out, re.M)
    assert "missing, and needed: home" in result.out


def test_a_clock_that_was_set_back_is_noticed(cli: Cli) -> None:
    cli.home.mkdir()
    assert cli("runs").code == 0
    ahead = time.time() + 7_200
    os.utime(cli.home / "ledger.db", (ahead, ahead))
    result = cli("doctor")
    assert result.code == 0
    assert "note  clock" in result.out
    assert "timedatectl set-ntp true" in result.out


def test_every_extra_of_the_package_is_examined() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra.name for extra in EXTRAS} == set(declared)
    by_module = importlib.metadata.packages_distributions()
    for extra in EXTRAS:
        wanted = {re.split(r"[\[<>=]", one)[0] for one in declared[extra.name]}
        found = [name for module in extra.modules for name in by_module[module.split(".")[0]]]
        of_modules = {name.lower().replace("_", "-") for name in found}
        assert wanted <= of_modules, extra.name


def test_a_browser_driver_that_does_not_start_is_a_clear_failure(cli: Cli) -> None:
    node = Path(
        cli.plan(
            "#!/bin/sh\necho 'node: error while loading shared libraries: libx.so.1' >&2; exit 127", "node"
        )
    )
    node.chmod(0o755)
    env = {"PLAYWRIGHT_NODEJS_PATH": str(node)}
    found = findings(cli("doctor", "--json", env=env).out)["playwright"]
    assert not found["ok"]
    assert "recoup browser install" in found["advice"]
    plan = cli.plan("{version: 1, name: b, steps: [{id: a, browser: {goto: 'http://127.0.0.1:1/'}}]}")
    result = cli("run", plan, env=env)
    assert result.code == 1
    assert "recoup browser install" in result.err
    assert "Traceback" not in result.err
