"""What the machine does to a run before its first step: nothing is wrong with the plan, so it can be resumed."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.scenario.conftest import Cli

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
    assert first.code == 130, first.err
    assert "it was killed" in first.err and "resume" in first.err
    (run,) = cli("runs", "--json").json
    assert run["status"] not in ("failed", "succeeded")
    assert cli("resume", run["runId"]).code == 0
    (run,) = cli("runs", "--json").json
    assert run["status"] == "succeeded"
