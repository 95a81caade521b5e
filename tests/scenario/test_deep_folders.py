"""Folders deeper than a restore could make them again: named, left out, and in nobody's way."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.repositories import new_repository
from tests.scenario.conftest import Cli, Result, kill, wait_for

DIG = """
import os, sys
for _ in range(int(sys.argv[1])):
    os.mkdir(sys.argv[2])
    os.chdir(sys.argv[2])
open("end", "w").close()
"""
PLAN = """
    version: 1
    name: deep
    workspace: {{{source}}}
    steps:
      - {{id: dig, run: 'python3 dig.py {levels} {name}; echo 1 > one'}}
      - id: fill
        run: |
          {fill}
          echo 2 > two
      - {{id: join, run: 'git status && cat one two > three'}}
"""
TREES = {
    "almost as long as a path can be": (1_900, "a"),
    "longer than a path can be": (3_000, "a"),
    "of long names": (60, "n" * 100),
}


@pytest.fixture
def repo(cli: Cli, tmp_path: Path) -> Iterator[Path]:
    yield new_repository(cli.folder / "repo", {"dig.py": DIG})
    # Python's own removal recurses, and pytest's uses that.
    subprocess.run(["rm", "-rf", cli.home, cli.folder], cwd=tmp_path, check=True)


def plan_of(cli: Cli, tree: str, fill: str, source: str = "git: ./repo") -> str:
    levels, name = TREES[tree]
    return cli.plan(PLAN.format(levels=levels, name=name, fill=fill, source=source))


def left_out(result: Result, step: str) -> list[Any]:
    facts = result.payloads("checkpoint.incomplete")
    return next((fact["missing"] for fact in facts if fact["stepId"] == step), [])


@pytest.mark.parametrize("tree", TREES)
def test_folders_too_deep_to_be_restored_are_named_and_a_hard_reset_works(
    cli: Cli, repo: Path, tree: str
) -> None:
    ruin = 'test "$RECOUP_ATTEMPT" != 1 || rm -rf .git; git status'
    result = cli("run", plan_of(cli, tree, ruin), "--json", timeout=300)
    assert result.code == 0, result.out + result.err
    (missing,) = left_out(result, "dig")
    name = TREES[tree][1]
    assert missing["path"].startswith(f"{name}/{name}/")
    assert "too deep" in missing["why"]
    assert result.document["hardResets"] == 1
    workspace = cli.run_dir(result.document["runId"]) / "workspace"
    assert (workspace / "three").read_text() == "1\n2\n"
    assert (workspace / name / name / name).is_dir(), "the part that can be restored is restored"


def test_a_run_with_folders_too_deep_is_resumed_after_a_crash_and_pruned(
    cli: Cli, repo: Path, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    fill = f"test -e {begun} || {{ rm -rf .git; touch {begun}; sleep 600; }}; git status"
    driver = cli.start("run", plan_of(cli, "longer than a path can be", fill))
    wait_for(begun, 300)
    kill(driver)
    resumed = cli("resume", "last", "--json", timeout=300)
    assert resumed.code == 0, resumed.out + resumed.err
    assert resumed.document["hardResets"] == 1
    run_dir = cli.run_dir(resumed.document["runId"])
    assert (run_dir / "workspace" / "three").read_text() == "1\n2\n"
    pruned = cli("prune", "--older-than", "1ms", "--force", timeout=300)
    assert pruned.code == 0, pruned.out + pruned.err
    assert not run_dir.exists()


def test_a_source_folder_that_is_too_deep_is_copied_as_far_as_it_can_be_restored(
    cli: Cli, repo: Path
) -> None:
    subprocess.run(["python3", repo / "dig.py", "3000", "a"], cwd=repo, check=True)
    ruin = 'test "$RECOUP_ATTEMPT" != 1 || rm -rf "$PWD"'
    plan = plan_of(cli, "of long names", ruin, source="folder: ./repo")
    result = cli("run", plan, "--json", timeout=300)
    assert result.code == 0, result.out + result.err
    assert result.document["hardResets"] == 1


def test_an_output_file_that_is_a_deep_folder_is_a_failure_of_the_step(cli: Cli, repo: Path) -> None:
    fill = 'rm -f "$RECOUP_OUTPUT"; mkdir "$RECOUP_OUTPUT"; d="$PWD"; cd "$RECOUP_OUTPUT"; python3 "$d/dig.py" 1500 a'
    result = cli("run", plan_of(cli, "of long names", fill), timeout=300)
    assert result.code == 1, result.err
    assert "Traceback" not in result.err
    assert "RECOUP_OUTPUT is not a regular file" in result.out
