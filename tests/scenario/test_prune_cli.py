"""`recoup prune`, as people call it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli

PLAN = """
    version: 1
    name: small
    steps:
      - {id: a, run: "echo made > made", expect: [{file: made}]}
"""


def test_a_run_is_forgotten_and_its_audit_stays(cli: Cli) -> None:
    run_id = cli("run", cli.plan(PLAN), "--json").document["runId"]
    assert cli("prune", "--older-than", "30d", "--json").json["runs"] == 0
    would = cli("prune", "--older-than", "1ms", "--force", "--dry-run", "--json").json
    assert (would["runIds"], would["runs"], would["dryRun"]) == ([run_id], 1, True)
    assert cli.run_dir(run_id).exists()
    done = cli("prune", "--older-than", "1ms", "--force")
    assert done.code == 0
    assert done.out.startswith("1 run with ")
    assert "removed 1 folder" in done.out
    assert not cli.run_dir(run_id).exists()
    assert "no run begins" in cli("show", run_id).err
    report = cli("audit", "verify", "--json").json
    assert (report["intact"], report["ledger"]["pruned"]) == (True, would["events"])
    assert cli("audit", "export", "--json").json["events"] == 1


def test_nothing_is_forgotten_when_the_audit_cannot_be_written(cli: Cli) -> None:
    run_id = cli("run", cli.plan(PLAN), "--json").document["runId"]
    shutil.rmtree(cli.home / "audit")
    (cli.home / "audit").write_text("in the way")
    refused = cli("prune", "--older-than", "1ms", "--force")
    assert refused.code != 0
    assert "audit" in refused.err
    assert cli.run_dir(run_id).exists()
    assert cli("show", run_id).code == 0


def test_what_ended_a_moment_ago_is_not_forgotten_by_a_slip(cli: Cli) -> None:
    for age, word in (("10m", "--force"), ("yesterday", "duration")):
        refused = cli("prune", "--older-than", age)
        assert refused.code == 2
        assert word in refused.err


@pytest.fixture
def immutable(cli: Cli) -> Iterator[str]:
    """A run of whose files one cannot be removed, not even by root."""
    run_id: str = cli("run", cli.plan(PLAN), "--json").document["runId"]
    log = cli.run_dir(run_id) / "artifacts" / "logs" / "steps" / "step-0000.log"
    done = subprocess.run(["chattr", "+i", log], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("no file can be made immutable here")
    yield run_id
    subprocess.run(["chattr", "-R", "-f", "-i", cli.home / "runs"], check=False)


def left_behind(cli: Cli) -> Path:
    (folder,) = (cli.home / "runs").iterdir()
    return folder


def test_a_run_whose_files_cannot_be_removed_is_pruned_and_what_is_left_is_named(
    cli: Cli, immutable: str
) -> None:
    done = cli("prune", "--older-than", "1ms", "--force")
    assert done.code == 1
    assert "1 folder left" in done.out
    assert "no run begins" in cli("show", immutable).err
    left = left_behind(cli)
    (file,) = (path for path in left.rglob("*") if path.is_file())
    (problem,) = done.err.splitlines()
    assert problem.startswith(f"recoup: the record of run {immutable} is pruned, but its files at {left} ")
    assert f"Operation not permitted ({file})" in problem
    assert "then delete that folder" in problem

    again = cli("prune", "--older-than", "1ms", "--force", "--json")
    assert again.code == 1
    assert (again.json["runs"], again.json["folders"], again.json["foldersLeft"]) == (0, 0, 1)
    (problem,) = again.json["problems"]
    assert problem.startswith(f"files of a pruned run at {left_behind(cli)} ")

    subprocess.run(["chattr", "-R", "-i", left_behind(cli)], check=True)
    freed = cli("prune", "--older-than", "1ms", "--force", "--json")
    assert (freed.code, freed.json["folders"], freed.json["foldersLeft"]) == (0, 1, 0)
    assert not any((cli.home / "runs").iterdir())


def test_a_folder_that_cannot_be_moved_away_is_named_where_it_is(cli: Cli, immutable: str) -> None:
    subprocess.run(["chattr", "+i", cli.run_dir(immutable)], check=True)
    done = cli("prune", "--older-than", "1ms", "--force")
    assert done.code == 1
    assert left_behind(cli) == cli.run_dir(immutable)
    assert done.err.count(f"its files at {cli.run_dir(immutable)} could not be removed") == 1
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("where", ["below", "at the top"])
def test_what_a_step_left_mounted_in_its_workspace_is_never_emptied(cli: Cli, repo: Path, where: str) -> None:
    """A bind mount has the same device as its folder, and may be anybody's files."""
    precious = cli.folder / "precious"
    precious.mkdir()
    (precious / "letter").write_text("dear")
    plan = cli.plan("""
        version: 1
        name: mounts
        workspace: {git: ./repo}
        steps: [{id: a, run: mkdir -p deep/m}]
    """)
    run_id = cli("run", plan, "--json").document["runId"]
    workspace = cli.run_dir(run_id) / "workspaces" / "0001"
    place = workspace / "deep" / "m" if where == "below" else workspace
    subprocess.run(["mount", "--bind", str(precious), str(place)], check=True)
    try:
        pruned = cli("prune", "--older-than", "1ms", "--force")
        assert pruned.code == 1
        assert f"a file system is mounted there ({place})" in pruned.err
        assert (precious / "letter").read_text() == "dear"
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert cli("prune", "--older-than", "1ms", "--force").code == 0
    assert not cli.run_dir(run_id).exists()
