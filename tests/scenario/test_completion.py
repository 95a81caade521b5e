"""Completion, as a shell asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli

PLAN = "{version: 1, name: tiny, steps: [{id: fetch, run: 'true'}, {id: build, run: 'true'}]}"
ASK = """
set -e
source "$1"; shift
complete -p recoup >/dev/null
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { echo "shell:$2"; }
_recoup_completion recoup
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What bash does when the key is pressed; `compopt` works only then, so that it is told instead."""


@pytest.fixture
def shell(cli: Cli) -> Cli:
    """With `recoup` as a program on the PATH, and the script in a file."""
    programs = cli.folder / "programs"
    programs.mkdir()
    program = programs / "recoup"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom recoup.cli.main import main\nsys.argv[0] = 'recoup'\nmain()\n"
    )
    program.chmod(0o755)
    cli.env["PATH"] = f"{programs}:{os.environ['PATH']}"
    (cli.folder / "script.bash").write_text(cli("completion", "bash").out)
    return cli


def asked(shell: Cli, *words: str) -> list[str]:
    argv = ["bash", "--norc", "-c", ASK, "bash", "script.bash", "recoup", *words]
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd=shell.folder, env=shell.environ(), timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_and_topics(shell: Cli) -> None:
    assert asked(shell, "res") == ["resume"]
    assert asked(shell, "memory", "roll") == ["rollback"]
    assert asked(shell, "run", "--dry") == ["--dry-run"]
    assert asked(shell, "control", "last", "hard") == ["hard_reset_step"]
    assert asked(shell, "help", "stu") == ["stuck-run"]


def test_bash_completes_runs_steps_and_plans(shell: Cli) -> None:
    assert shell("run", shell.plan(PLAN)).code == 0
    run_id = shell("show", "last", "--json").json["runId"]
    assert asked(shell, "show", "") == ["last", run_id]
    assert asked(shell, "resume", run_id[:8]) == [run_id]
    assert asked(shell, "logs", "last", "") == ["fetch", "build"]
    assert asked(shell, "control", run_id, "settle", "--step", "bu") == ["build"]
    assert asked(shell, "run", "pl") == ["plan.yaml"]
    assert asked(shell, "run", "p") == ["shell:default"], "a folder may be meant"


def test_where_nothing_is_known_nothing_is_offered(shell: Cli) -> None:
    assert asked(shell, "logs", "last", "") == []
    shell.env["RECOUP_LEASE_S"] = "nonsense"
    assert asked(shell, "show", "2") == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script_of_its_own(cli: Cli, name: str) -> None:
    script = cli("completion", name)
    assert script.code == 0
    assert f"_RECOUP_COMPLETE={name}_complete" in script.out
    assert ('string split --max 1 ","' in script.out) == (name == "fish"), "a name may hold a comma"
    if shutil.which(name):
        (cli.folder / "script").write_text(script.out)
        subprocess.run([name, "-n", str(cli.folder / "script")], check=True, timeout=60)


def test_the_names_of_commands_are_completed_without_loading_one(shell: Cli, tmp_path: Path) -> None:
    env = shell.environ({"COMP_WORDS": "recoup s", "COMP_CWORD": "1", "_RECOUP_COMPLETE": "bash_complete"})
    program = shutil.which("recoup", path=env["PATH"])
    assert program is not None
    argv = [sys.executable, "-X", "importtime", program]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60)
    assert "plain,submit" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    ours = {name for name in loaded if name.startswith("recoup.")}
    assert ours <= {"recoup.cli", "recoup.cli.main", "recoup.errors"}
