"""`recoup audit`, on the real command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.commands import Commands, new_interpreter

PLAN = """
version: 1
name: greet
steps:
  - {id: hello, run: "echo hello $SOME_TOKEN", expect: [{stdout: hello}]}
  - {id: fail, run: "exit 3"}
"""
Done = subprocess.CompletedProcess[str]
Recoup = Callable[..., Done]


def environ(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "RECOUP_HOME": str(home), "SOME_TOKEN": "correct-" + "horse-battery"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Path:
    """A home with a run that failed, and of which nothing is exported."""
    folder = tmp_path_factory.mktemp("used")
    (folder / "plan.yaml").write_text(PLAN)
    assert command(commands, folder, folder / "home", "run", "plan.yaml").returncode == 75
    shutil.rmtree(folder / "home" / "audit", ignore_errors=True)
    return folder / "home"


@pytest.fixture
def recoup(home: Path, tmp_path: Path, commands: Commands) -> Recoup:
    return partial(command, commands, tmp_path, home)


def command(commands: Commands, folder: Path, home: Path, *words: str) -> Done:
    return commands.run(*words, env=environ(home), cwd=folder)


@pytest.fixture
def ran(recoup: Recoup, used: Path, home: Path, tmp_path: Path) -> Recoup:
    shutil.copytree(used, home, symlinks=True)
    (tmp_path / "plan.yaml").write_text(PLAN)
    return recoup


def test_every_decision_of_a_run_is_exported_and_nothing_that_is_secret(ran: Recoup, home: Path) -> None:
    done = ran("audit", "export", "--json")
    assert done.returncode == 0, done.stderr
    file = home / "audit" / "audit-000001.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert json.loads(done.stdout) == {"events": len(lines), "n": len(lines), "file": str(file)}
    events = [json.loads(line) for line in ran("events", "last", "--json").stdout.splitlines()]
    keys = ("stream", "runId", "seq", "at", "type", "payload")
    assert [{key: line[key] for key in keys} for line in lines if line["runId"]] == events
    types = {line["type"] for line in lines}
    assert types >= {"task.self_heal.triggered", "task.self_heal.exhausted", "workflow.step.result"}
    assert environ(home)["SOME_TOKEN"] not in file.read_text()
    assert ran("audit", "export").stdout.startswith("0 events exported; the audit ends with line")


def test_an_intact_audit_is_said_to_be_so(ran: Recoup) -> None:
    assert "not exported yet: recoup audit export" in ran("audit", "verify").stdout
    ran("audit", "export")
    done = ran("audit", "verify")
    assert done.returncode == 0
    assert ": intact\n" in done.stdout
    report = json.loads(ran("audit", "verify", "--json").stdout)
    assert report["intact"]
    assert report["firstBreak"] is None
    assert report["ledger"] == {"events": report["events"], "waiting": 0, "pruned": 0}


def test_the_first_break_is_named(ran: Recoup, home: Path) -> None:
    ran("audit", "export")
    file = home / "audit" / "audit-000001.jsonl"
    whole = file.read_text()
    lines = whole.splitlines(keepends=True)
    lines[3] = lines[3].replace('"seq":', '"seq":1')
    file.write_text("".join(lines))
    done = ran("audit", "verify")
    assert done.returncode == 1
    assert "BROKEN\naudit-000001.jsonl:4: its hash does not fit" in done.stdout
    report = json.loads(ran("audit", "verify", "--json").stdout)
    assert report["firstBreak"]["line"] == 4
    assert not report["intact"]
    file.write_text(whole[:-20])
    assert "recoup audit export" in ran("audit", "verify").stdout
    ran("audit", "export")
    mended = ran("audit", "verify")
    assert mended.returncode == 0
    assert "a gap (torn, " in mended.stdout
    assert "filled from the ledger" in mended.stdout
    (gap,) = json.loads(ran("audit", "verify", "--json").stdout)["gaps"]
    assert gap["filled"]
    assert gap["gap"]["keptAs"] in {path.name for path in (home / "audit").iterdir()}


def test_a_copy_is_verified_without_a_ledger(ran: Recoup, home: Path, tmp_path: Path) -> None:
    ran("audit", "export")
    (home / "audit").rename(tmp_path / "copy")
    done = ran("audit", "verify", "--folder", "copy", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["ledger"] is None
    assert ran("audit", "verify", "--folder", "nowhere").returncode == 2


def test_verifying_a_home_that_is_not_there_makes_none(recoup: Recoup, home: Path) -> None:
    assert recoup("audit", "verify").returncode == 0
    assert recoup("audit", "show").stdout == ""
    assert not home.exists()


def test_what_was_exported_can_be_looked_through(ran: Recoup, home: Path) -> None:
    ran("audit", "export")
    done = ran("audit", "show", "--since", "1h", "--type", "task.run.", "--json")
    shown = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert shown == ["task.run.submitted", "task.run.started", "task.run.failed"]
    assert done.stdout.splitlines()[0] in (home / "audit" / "audit-000001.jsonl").read_text()
    assert ran("audit", "show", "--since", "1ms").stdout == ""
    assert "task.run.failed" in ran("audit", "show").stdout
    assert ran("audit", "show", "--since", "soon").returncode == 2


def test_following_exports_what_comes(ran: Recoup, home: Path, tmp_path: Path) -> None:
    argv = new_interpreter("audit", "export", "--follow", "--json")
    following = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environ(home),
        # In the background of a shell interrupts are ignored, and so they are by all that is started from there.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert following.stdout
        before = json.loads(following.stdout.readline())["n"]
        assert ran("run", "plan.yaml").returncode == 75
        assert json.loads(following.stdout.readline())["n"] > before
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=20)
        assert following.returncode == 130
    finally:
        following.kill()
        following.communicate()
    assert ran("audit", "verify").returncode == 0
