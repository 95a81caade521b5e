"""What is built holds everything that the program reads: a file that is forgotten is missed on another machine only."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-c", BUILD, folder], cwd=ROOT, check=True, timeout=120)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def tracked() -> set[str]:
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/recoup"]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=60)
    if listed.returncode != 0 or not listed.stdout:
        pytest.skip("this is no git repository")
    names = {line.removeprefix("src/") for line in listed.stdout.splitlines()}
    return {name for name in names if (ROOT / "src" / name).exists()}


def test_every_file_of_the_package_is_built_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    built = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert built == tracked()


@pytest.mark.parametrize(
    "name",
    [
        "py.typed",
        "ledger/schema.sql",
        "ledger/postgres/queries.sql",
        "dispatch/local.sql",
        "gateway/console/templates/overview.html",
        "gateway/console/static/console.css",
        "gateway/console/static/vendor/htmx.min.js",
        "gateway/console/static/vendor/htmx.LICENSE.txt",
        "gateway/console/static/vendor/idiomorph.LICENSE.txt",
        "reports/page.css",
        "runtimes/browser/collector.js",
        "processes/guard_main.py",
        "processes/keeper_main.py",
        "targets/weights.json",
        "workspace/gitconfig",
    ],
)
def test_what_is_read_when_the_program_runs_is_built(wheel: zipfile.ZipFile, name: str) -> None:
    assert f"recoup/{name}" in wheel.namelist()


def test_every_file_of_somebody_else_stands_beside_its_licence(wheel: zipfile.ZipFile) -> None:
    vendored = {Path(name) for name in wheel.namelist() if "/vendor/" in name}
    licensed = {path.name.split(".")[0] for path in vendored if path.name.endswith(".LICENSE.txt")}
    assert vendored
    assert {path.name.split(".")[0].removesuffix("-ext") for path in vendored} == licensed


def test_the_licence_and_the_command_come_with_it(wheel: zipfile.ZipFile) -> None:
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    assert wheel.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert b"recoup = recoup.cli.main:main" in wheel.read(f"{info}/entry_points.txt")


def test_it_asks_for_what_the_project_says(metadata: Message) -> None:
    needed = [line.split(";")[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [_name(one) for one in needed] == sorted(_name(one) for one in PROJECT["dependencies"])
    assert set(metadata.get_all("Provides-Extra", [])) == PROJECT["optional-dependencies"].keys()


def _name(requirement: str) -> str:
    return requirement.partition(">")[0].partition("[")[0].partition("<")[0].strip()


def test_the_page_about_extras_has_a_line_for_each() -> None:
    page = (ROOT / "docs" / "reference" / "extras.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == PROJECT["optional-dependencies"].keys()
