"""What the machine does to a run before its first step: nothing is wrong with the plan, so it can be resumed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli

INODES_MAX = 60
PLAN = """
    version: 1
    name: reference
    workspace: {{git: {repo}}}
    steps:
      - {{id: a, run: 'echo done > out'}}
"""
GIT = """#!/bin/sh
for word in "$@"; do
    if [ "$word" = pack-refs ] && [ ! -e {flag} ]; then touch {flag}; kill -9 $$; fi
done
exec {git} "$@"
"""


def test_a_run_whose_git_was_killed_can_be_resumed(cli: Cli, repo: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    git = programs / "git"
    git.write_text(GIT.format(flag=tmp_path / "killed", git=shutil.which("git")))
    git.chmod(0o755)
    cli.env["PATH"] = f"{programs}:{cli.environ()['PATH']}"
    plan = cli.plan(PLAN.format(repo=repo))
    first = cli("run", plan)
    assert first.code == 75, first.err
    (run,) = cli("runs", "--json").json
    assert "it was killed" in first.err
    assert f"Then: recoup resume {run['runId']}\n" in first.err
    assert run["reason"].endswith(f"Then: recoup resume {run['runId']}")
    assert run["status"] not in ("failed", "succeeded")
    assert cli("resume", run["runId"]).code == 0
    (run,) = cli("runs", "--json").json
    assert run["status"] == "succeeded"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_run_on_a_full_disk_is_told_so_and_can_be_cancelled(cli: Cli) -> None:
    """The ledger may lie elsewhere: then the sender needs nothing of the run's folder."""
    plan = cli.plan("""
        version: 1
        name: full
        steps: [{id: a, run: 'true'}, {id: b, approve: Go on?}]
    """)
    with small_disk(cli.home / "runs") as disk:
        assert cli("run", plan).code == 5
        with contextlib.suppress(OSError):
            for number in range(INODES_MAX):
                (disk / f"filling-{number}").touch()
        paused = cli("control", "last", "pause", "--reason", "later")
        assert "No space left" in paused.err
        assert cli("control", "last", "cancel", "--reason", "enough").code == 0
    assert cli("show", "last", "--json").json["status"] == "cancelled"


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    path.mkdir(parents=True)
    options = f"mode=700,size=1m,nr_inodes={INODES_MAX}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)
