"""Bad input: what is wrong, where, what to do; the right exit code; nothing half-done."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.repositories import git
from tests.scenario.conftest import Cli

GOOD = "{version: 1, name: good, steps: [{id: a, run: 'true'}]}"

BAD_PLANS = {
    "syntax": ("version: 1\nsteps:\n\t- run: x\n", "plan.yaml:3"),
    "unknown key": ("version: 1\nname: x\nsteps: [{id: a, runn: x}]\n", "runn"),
    "wrong type": ("version: 1\nname: x\nsteps: [{id: a, run: x, max_attempts: many}]\n", "max_attempts"),
    "duplicate id": ("version: 1\nname: x\nsteps: [{id: a, run: x}, {id: a, run: y}]\n", "a"),
    "unknown reference": (
        "version: 1\nname: x\nsteps: [{id: a, run: 'echo ${{ steps.b.outputs.c }}'}]\n",
        "steps.b",
    ),
    "unknown input": ("version: 1\nname: x\nsteps: [{id: a, run: 'echo ${{ inputs.b }}'}]\n", "inputs.b"),
    "no steps": ("version: 1\nname: x\nsteps: []\n", "steps"),
    "empty": ("", "empty"),
    "later kind": ("version: 1\nname: x\nsteps: [{id: a, browser: {goto: x}}]\n", "browser"),
    "itself": ("version: 1\nname: x\nsteps: [{id: a, run: recoup run plan.yaml}]\n", "itself"),
    "missing repository": (
        "version: 1\nname: x\nworkspace: {git: ./nowhere}\nsteps: [{id: a, run: 'true'}]\n",
        "nowhere",
    ),
    "missing ref": (
        "version: 1\nname: x\nworkspace: {git: ./repo, ref: nope}\nsteps: [{id: a, run: 'true'}]\n",
        "nope",
    ),
}


@pytest.mark.parametrize("case", BAD_PLANS)
def test_a_bad_plan_is_refused_with_its_reason_and_leaves_nothing(cli: Cli, repo: Path, case: str) -> None:
    text, word = BAD_PLANS[case]
    (cli.folder / "plan.yaml").write_text(text)
    for command in ("run", "check"):
        result = cli(command, "plan.yaml")
        assert result.code == 3, (command, result.err)
        assert word in result.err
        assert "Traceback" not in result.err
    assert cli("runs", "--json").json == []
    assert not list((cli.home / "runs").glob("*")) if (cli.home / "runs").exists() else True


def test_all_problems_are_reported_at_once_as_json_too(cli: Cli) -> None:
    (cli.folder / "plan.yaml").write_text(
        "version: 1\nname: x\nstps: []\nsteps:\n  - {id: a, run: x, tmeout: 5}\n  - {id: a, run: [3, {}]}\n"
    )
    result = cli("check", "plan.yaml", "--json")
    assert result.code == 3
    assert len(result.json["problems"]) >= 4
    assert {p["line"] for p in result.json["problems"]} >= {3, 5, 6}


def test_ten_thousand_steps_are_too_many(cli: Cli) -> None:
    steps = "\n".join(f"  - {{id: s{n}, run: 'true'}}" for n in range(10_000))
    (cli.folder / "plan.yaml").write_text(f"version: 1\nname: x\nsteps:\n{steps}\n")
    result = cli("run", "plan.yaml")
    assert result.code == 3
    assert "1000" in result.err.replace(",", "")
    assert len(result.err) < 2000


def test_a_plan_that_is_not_there(cli: Cli) -> None:
    result = cli("run", "nowhere.yaml")
    assert result.code == 2
    assert "nowhere.yaml" in result.err


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("--input", "x"), "NAME=VALUE"),
        (("--input", "nope=1"), "nope"),
        ((), "needs a value for who"),
    ],
)
def test_bad_inputs_are_refused(cli: Cli, args: tuple[str, ...], word: str) -> None:
    plan = cli.plan(
        "{version: 1, name: x, inputs: {who: {required: true}}, steps: [{id: a, run: 'echo ${{ inputs.who }}'}]}"
    )
    result = cli("run", plan, *args)
    assert result.code == 2
    assert word in result.err
    assert cli("runs", "--json").json == []


def test_a_home_that_cannot_be_written(cli: Cli) -> None:
    cli.home.parent.joinpath("file").write_text("")
    result = cli("run", cli.plan(GOOD), env={"RECOUP_HOME": str(cli.home.parent / "file" / "home")})
    assert result.code == 2
    assert "RECOUP_HOME" in result.err


def test_a_database_of_a_newer_version(cli: Cli) -> None:
    assert cli("run", cli.plan(GOOD)).code == 0
    with sqlite3.connect(cli.home / "ledger.db") as database:
        database.execute("pragma user_version = 9999")
    result = cli("runs")
    assert result.code == 1
    assert "newer" in result.err
    assert "Traceback" not in result.err


def test_a_database_that_is_not_one(cli: Cli) -> None:
    cli.home.mkdir()
    (cli.home / "ledger.db").write_text("this is not a database, it only has its name\n" * 100)
    result = cli("run", cli.plan(GOOD))
    assert result.code == 75
    assert "Traceback" not in result.err
    assert "ledger.db" in result.err


def test_unknown_names_get_advice(cli: Cli) -> None:
    assert cli("run", cli.plan(GOOD)).code == 0
    for args, word in (
        (("show", "nope"), "recoup runs"),
        (("logs", "last", "nope"), "Its steps: a"),
        (("show", "last", "--evidence", "sha256:00"), "cites no evidence"),
        (("rnu",), "run"),
    ):
        result = cli(*args)
        assert result.code == 2, args
        assert word in result.err + result.out, (args, result.err)


@pytest.mark.parametrize(
    ("text", "word"),
    [("step_max_attempts: 0\n", "step_max_attempts"), ("retries: 3\n", "retries"), ("- 1\n", "policy")],
)
def test_a_bad_policy_is_refused(cli: Cli, text: str, word: str) -> None:
    policy = cli.folder / "policy.yaml"
    policy.write_text(text)
    assert cli("policy", "check", str(policy)).code == 3
    result = cli("run", cli.plan(GOOD), env={"RECOUP_POLICY": str(policy)})
    assert result.code == 3
    assert word in result.err
    assert cli("runs", "--json").json == []


def test_settings_that_contradict_each_other(cli: Cli) -> None:
    result = cli("runs", env={"RECOUP_LEASE_S": "2", "RECOUP_HEARTBEAT_S": "5"})
    assert result.code == 2
    assert "RECOUP_LEASE_S" in result.err


@pytest.fixture
def small_disk(cli: Cli) -> Iterator[Path]:
    """A disk of 3 MB as the home; mounting needs root."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    cli.home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "none", str(cli.home)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield cli.home
    subprocess.run(["umount", str(cli.home)], check=True)


def test_a_full_disk_stops_the_run_with_words_and_it_goes_on_when_there_is_room(
    cli: Cli, repo: Path, small_disk: Path
) -> None:
    plan = cli.plan(f"""
        version: 1
        name: full
        workspace: {{git: ./repo}}
        steps:
          - {{id: one, run: "echo one >> {cli.folder}/effects; echo 1 > one"}}
          - {{id: two, run: "head -c 1500000 /dev/urandom > big; echo two >> {cli.folder}/effects"}}
          - {{id: three, run: "head -c 1500000 /dev/urandom > bigger"}}
    """)
    result = cli("run", plan)
    assert result.code == 75, result.err
    assert "Traceback" not in result.err
    assert "space" in (result.err + result.out).lower() or "full" in (result.err + result.out).lower()
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    runs = cli("runs", "--json").json
    result = cli("resume", "last", "--json") if runs else cli("run", plan, "--json")
    assert result.code == 0, result.err
    assert (cli.folder / "effects").read_text().split().count("one") == 1


def test_a_workspace_that_is_not_writable(cli: Cli, repo: Path) -> None:
    assert cli("run", cli.plan(GOOD)).code == 0
    (cli.home / "runs").chmod(0o500)
    plan = cli.plan("{version: 1, name: x, workspace: {git: ./repo}, steps: [{id: a, run: 'true'}]}")
    # Root may write everywhere, unless it gives that up.
    drop = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    command = [*drop, *cli.argv("run", plan)]
    result = subprocess.run(command, env=cli.environ(), cwd=cli.folder, capture_output=True, text=True)
    assert result.returncode != 0
    assert "Permission denied" in result.stderr
    assert "Traceback" not in result.stderr
    (cli.home / "runs").chmod(0o700)


def test_the_users_repository_is_never_written(cli: Cli, repo: Path) -> None:
    before = fingerprint(repo)
    plan = cli.plan("""
        version: 1
        name: polite
        workspace: {git: ./repo, ref: main}
        steps:
          - {id: a, run: "echo x >> README; git add -A; git -c user.name=a -c user.email=a@b commit -qm change; git branch other"}
          - {id: b, run: "test -z \\"$(git remote)\\"; git log --oneline | wc -l"}
    """)
    assert cli("run", plan).code == 0
    assert fingerprint(repo) == before
    assert git(repo, "branch", "--list", "other") == ""


def fingerprint(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
    }


def test_nothing_is_left_of_a_run_whose_source_is_bad(cli: Cli, repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    plan = cli.plan("{version: 1, name: x, workspace: {git: ./repo}, steps: [{id: a, run: 'true'}]}")
    result = cli("run", plan)
    assert result.code == 3
    assert "repository" in result.err
    assert not list(cli.home.glob("runs/*"))


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ('goto: "${{ inputs.x }}"', "file:///etc/hostname"),
        ('upload: {label: Papers, file: "${{ inputs.x }}"}', "/etc/hostname"),
    ],
)
def test_a_value_that_leads_out_of_its_place_is_refused_before_the_browser_starts(
    action: str, value: str, cli: Cli
) -> None:
    first = '{id: open, browser: {goto: "about:blank"}, when: "false"}, ' if "upload" in action else ""
    plan = cli.plan(
        f"{{version: 1, name: out, inputs: {{x: {{}}}}, steps: [{first}{{id: a, browser: {{{action}}}}}]}}"
    )
    refused = cli("run", plan, "--input", f"x={value}")
    assert refused.code == 1
    assert "only the plan's own text may" in refused.out + refused.err
