"""What a step does to its own workspace: the attempt has failed, and the last checkpoint is restored once."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.conftest import Cli, Result, kill, wait_for

PLAN = """
    version: 1
    name: ruinous
    workspace: {{git: ./repo}}
    steps:
      - {{id: one, run: 'echo 1 > one'}}
      - id: two
        run: |
          {script}
      - {{id: three, run: 'git status && cat one two > three'}}
"""
RUINS = {
    "removed": 'rm -rf "$PWD"',
    "replaced by a file": 'd="$PWD"; cd /; rm -rf "$d"; echo x > "$d"',
    "replaced by a link": 'd="$PWD"; cd /; rm -rf "$d"; ln -s /tmp "$d"',
    "replaced by a pipe": 'd="$PWD"; cd /; rm -rf "$d"; mkfifo "$d"',
    "endless rules": "mkfifo .gitignore",
    "endless rules deep down": "mkdir -p a/b; mkfifo a/b/.gitignore",
    "no repository": "rm -rf .git; git status",
    "no HEAD": "echo garbage > .git/HEAD; git status",
    "no objects": "rm -rf .git/objects; git status",
    "garbage for a configuration": "echo [ > .git/config; git status",
    "garbage for an index": "echo garbage > .git/index; git status",
    "a folder for an index": "rm .git/index; mkdir .git/index; git status",
    "no object of HEAD": "git -c user.name=n -c user.email=e commit -q --allow-empty -m x; "
    "rm -rf .git/objects/??; git log",
    "no repository, and a failure of its own": "rm -rf .git; false",
}
HARMLESS = {
    "an index that is a folder": "rm .git/index; mkdir .git/index",
    "a pipe": "mkfifo pipe .git/pipe",
    "a device": "mknod null c 1 3 || true",
    "a path of 4,500 characters": 'for i in $(seq 45); do n=$(printf "%0100d" $i); mkdir $n; cd $n; done',
    "a link to itself": "ln -s loop loop",
}


def plan_of(cli: Cli, script: str) -> str:
    return cli.plan(PLAN.format(script=script))


def failures(result: Any) -> list[tuple[str, str, str]]:
    told = result.payloads("task.step.attempt.failed")
    return [(fact["failureKind"], fact["failureClass"], fact["strategy"]) for fact in told]


@pytest.mark.parametrize("ruin", RUINS)
def test_a_workspace_that_a_step_ruined_is_restored_once(cli: Cli, repo: Path, ruin: str) -> None:
    script = f'test "$RECOUP_ATTEMPT" != 1 || {{ {RUINS[ruin]}; }}; echo 2 > two'
    result = cli("run", plan_of(cli, script), "--json")
    assert result.code == 0, result.out + result.err
    assert failures(result)[0] == ("workspace_broken", "unknown", "hard_reset")
    assert result.document["hardResets"] == 1
    workspace = cli.run_dir(result.document["runId"]) / "workspace"
    assert (workspace / "three").read_text() == "1\n2\n"


@pytest.mark.parametrize("ruin", ["removed", "endless rules", "no repository"])
def test_what_is_ruined_twice_is_given_up_within_bounds(cli: Cli, repo: Path, ruin: str) -> None:
    result = cli("run", plan_of(cli, RUINS[ruin]), "--json")
    assert result.code == 1
    assert [kind for kind, _, _ in failures(result)] == ["workspace_broken"] * 2
    assert (result.document["status"], result.document["hardResets"]) == ("failed", 1)
    assert cli.ledger()["knownGoodPrefixLength"] == 1, "what was good stays good"


@pytest.mark.parametrize("thing", HARMLESS)
def test_odd_things_in_a_workspace_end_no_run(cli: Cli, repo: Path, thing: str) -> None:
    result = cli("run", plan_of(cli, f"({HARMLESS[thing]}); echo 2 > two; rm -rf .git/index"), "--json")
    assert result.code == 0, result.out + result.err


def test_a_socket_in_the_place_of_rules_is_a_ruin_too(cli: Cli, repo: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        script = f'test "$RECOUP_ATTEMPT" != 1 || mv {tmp_path}/s .gitignore; echo 2 > two'
        result = cli("run", plan_of(cli, script), "--json")
    assert result.code == 0, result.out + result.err
    assert failures(result)[0][0] == "workspace_broken"


def test_a_step_that_must_not_be_repeated_and_ruined_its_workspace_goes_to_a_person(
    cli: Cli, repo: Path, tmp_path: Path
) -> None:
    plan = cli.plan(f"""
        version: 1
        name: paid
        workspace: {{git: ./repo}}
        steps:
          - {{id: pay, run: 'echo paid >> {tmp_path}/journal; rm -rf "$PWD"', repeat: never}}
          - {{id: after, run: 'ls'}}
    """)
    assert cli("run", plan).code == 5
    settled = cli(
        "control", "last", "settle", "--step", "pay", "--as", "done", "--reason", "the bank says so"
    )
    assert settled.code == 0, settled.err
    resumed = cli("resume", "last")
    assert resumed.code == 0, resumed.out + resumed.err
    assert (tmp_path / "journal").read_text() == "paid\n"
    lost = [e for e in cli("events", "last", "--json").lines if e["type"] == "checkpoint.incomplete"]
    assert lost[0]["payload"]["missing"][0]["path"] == ".", "its files are lost, and that is said"
    waiting = [e for e in cli("events", "last", "--json").lines if e["type"] == "task.run.waiting"]
    assert "without the files that it changed" in waiting[-1]["payload"]["reason"]


def test_a_store_that_is_gone_ends_the_run_and_nobody_is_told_to_resume_it(cli: Cli, repo: Path) -> None:
    script = 'rm -rf "$RECOUP_HOME/runs/$RECOUP_RUN_ID/private"; echo 2 > two'
    result = cli("run", plan_of(cli, script))
    assert result.code == 1, result.err
    assert "Resume it" not in result.out and "cannot be restored" in result.out
    assert "Fix the cause, then try again in a new run" in result.out


def test_a_home_that_is_removed_is_told_as_that(cli: Cli, repo: Path) -> None:
    result = cli("run", plan_of(cli, 'rm -rf "$RECOUP_HOME"; echo 2 > two'))
    assert result.code == 75, result.err
    assert "another driver" not in result.err and "Traceback" not in result.err


def test_an_output_file_that_is_a_folder_is_a_failure_of_the_step(cli: Cli, repo: Path) -> None:
    result = cli(
        "run", plan_of(cli, 'rm -f "$RECOUP_OUTPUT"; mkdir "$RECOUP_OUTPUT"; touch "$RECOUP_OUTPUT/x"')
    )
    assert result.code == 1
    assert "RECOUP_OUTPUT is not a regular file" in result.out
    assert "state folder" not in result.err


def test_hard_links_that_a_restore_will_make_copies_are_named(cli: Cli, repo: Path) -> None:
    result = cli("run", plan_of(cli, "echo 2 > two; ln two linked"), "--json")
    assert result.code == 0
    (missing,) = result.payloads("checkpoint.incomplete")[0]["missing"]
    assert (missing["path"], missing["stored"]) == ("two", True) or missing["path"] == "linked"
    assert "hard link" in missing["why"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    "inject",
    [
        "inject=timerfd_create:error=EMFILE",
        "inject=execve:error=EIO:when=2+",
        "inject=clone3:error=EAGAIN:when=3+",
        "inject=clone,vfork,clone3:error=EAGAIN:when=4+",
    ],
)
def test_a_lack_of_the_machine_is_no_traceback_and_no_fault_of_the_plan(
    cli: Cli, repo: Path, inject: str
) -> None:
    calls = inject.split("=")[1].split(":")[0]
    argv = ["strace", "-qq", "-f", "-o", "/dev/null", "-e", f"trace={calls}", "-e", inject]
    plan = cli.plan("{version: 1, name: plain, steps: [{id: a, run: 'true'}]}")
    done = subprocess.run(
        [*argv, *cli.argv("run", plan)],
        capture_output=True,
        text=True,
        cwd=cli.folder,
        env=cli.environ(),
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 75), (done.returncode, done.stdout, done.stderr)
    assert "deterministic" not in done.stdout + done.stderr


@pytest.mark.parametrize("part", [".", ".git", ".git/objects", ".git/index", ".git/HEAD"])
def test_a_workspace_that_a_step_made_unreadable_is_restored_once(cli: Cli, repo: Path, part: str) -> None:
    script = f'test "$RECOUP_ATTEMPT" != 1 || {{ chmod 000 {part}; git status; }}; echo 2 > two'
    rights = "--bounding-set=-dac_override,-dac_read_search"  # root reads everything otherwise
    command = ["setpriv", rights, *cli.argv("run", plan_of(cli, script), "--json")]
    done = subprocess.run(
        command, env=cli.environ(), cwd=cli.folder, capture_output=True, text=True, check=False
    )
    result = Result(done.returncode, done.stdout, done.stderr)
    assert result.code == 0, result.out + result.err
    assert failures(result)[0] == ("workspace_broken", "unknown", "hard_reset")
    assert len(failures(result)) == 1


@pytest.mark.parametrize("lost", ["private/store.git", "private/store.git/objects", "private"])
def test_a_run_whose_store_was_removed_ends_with_the_reason_and_not_again_and_again(
    cli: Cli, repo: Path, lost: str
) -> None:
    plan = cli.plan("""
        version: 1
        name: stored
        workspace: {git: ./repo}
        steps:
          - {id: one, run: 'echo 1 > one'}
          - {id: two, run: 'touch "$PWD/../../../../started"; until test -e "$PWD/two"; do sleep 0.02; done'}
    """)
    driver = cli.start("run", plan)
    wait_for(cli.home / "started")
    kill(driver)
    (run_id,) = [one["runId"] for one in cli("runs", "--json").json]
    shutil.rmtree(cli.run_dir(run_id) / lost)
    resumed = cli("resume", run_id)
    assert resumed.code == 1, resumed.err
    assert "the private store of the run is gone or damaged" in resumed.out + resumed.err
    assert cli("show", run_id, "--json").json["status"] == "failed"
