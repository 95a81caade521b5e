"""The commands, as a person and as a program use them."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli

from recoup.cli.main import _COMMANDS
from recoup.cli.topics import topics

PLAN = """
version: 1
name: greet
objective: Everybody is greeted
inputs: {who: {default: world}}
steps:
  - id: greet
    title: Say hello
    run: echo "hello ${{ inputs.who }}" | tee said.txt
    expect: [{file: said.txt, contains: hello}]
    outputs: {said: {regex: 'hello (.*)'}}
  - id: count
    run: [wc, -c, said.txt]
"""


@pytest.fixture
def done(cli: Cli) -> Cli:
    assert cli("run", cli.plan(PLAN), "--input", "who=you; touch pwned").code == 0
    return cli


def test_inputs_are_data_and_outputs_are_kept(done: Cli) -> None:
    steps = done.ledger()["steps"]
    assert steps[0]["outputs"] == {"said": "you; touch pwned"}
    assert not (done.folder / "pwned").exists()


def test_event_lines_and_the_run_document_are_json_lines(cli: Cli) -> None:
    result = cli("run", cli.plan(PLAN), "--json")
    assert result.err == ""
    for event in result.events:
        assert set(event) == {"stream", "runId", "seq", "at", "type", "payload"}
    assert [event["seq"] for event in result.events] == list(range(1, len(result.events) + 1))
    assert result.document["status"] == "succeeded"
    assert cli("show", "last", "--json").json == result.document
    assert cli("runs", "--json").json == [result.document]
    assert cli("events", "last", "--json").lines == result.events


def test_events_about_steps_carry_the_fields_of_the_contract(cli: Cli) -> None:
    """Seed 002 §14; what cannot exist yet is present and null."""
    plan = cli.plan("{version: 1, name: x, steps: [{id: a, run: 'exit 3'}]}")
    events = [
        e for e in cli("run", plan, "--json").events if e["type"].startswith(("task.step", "task.self_heal"))
    ]
    assert {e["type"] for e in events} >= {
        "task.step.attempt.started",
        "task.step.attempt.failed",
        "task.self_heal.triggered",
    }
    wanted = {"stepId", "stepIndex", "attempt", "failureClass", "failureSignature", "diffHash", "strategy"}
    for event in events:
        assert wanted | {"failureKind", "reason", "policyDigest"} <= event["payload"].keys(), event["type"]


def test_check_says_what_a_plan_would_do(cli: Cli) -> None:
    plan = cli.plan(PLAN)
    result = cli("check", plan)
    assert result.code == 0
    assert "greet: 1 check," in result.out
    assert "unverified" in result.out
    assert cli("check", plan, "--json").json["steps"] == ["greet", "count"]
    assert cli("runs", "--json").json == []


def test_show_ledger_events_and_logs_speak_to_people(done: Cli) -> None:
    shown = done("show", "last").out
    assert "succeeded" in shown
    assert "greet" in shown
    assert "hello you" in done("logs", "last").out
    assert "hello you" in done("logs", "last", "greet").out
    assert "hello you" not in done("logs", "last", "1").out
    assert "task.run.succeeded" in done("events", "last", "--follow").out
    assert "2 of 2 steps are known to be good" in done("ledger", "last").out


def test_a_run_is_found_by_its_beginning(done: Cli) -> None:
    run_id = done("show", "last", "--json").json["runId"]
    assert done("show", run_id[:10], "--json").json["runId"] == run_id


def test_runs_are_newest_first_and_can_be_narrowed(done: Cli) -> None:
    failing = done.plan("{version: 1, name: other, steps: [{id: a, run: no-such-thing}]}", "other.yaml")
    assert done("run", failing).code == 1
    assert [run["workflow"] for run in done("runs", "--json").json] == ["other", "greet"]
    assert [run["workflow"] for run in done("runs", "--json", "--status", "failed").json] == ["other"]
    assert [run["workflow"] for run in done("runs", "--json", "--workflow", "greet").json] == ["greet"]


def test_a_policy_file_is_in_force_and_named_by_its_digest(cli: Cli) -> None:
    policy = cli.folder / "policy.yaml"
    policy.write_text("step_max_attempts: 1\ntext_rules: [{words: out of ink, class: transient_runtime}]\n")
    env = {"RECOUP_POLICY": str(policy)}
    shown = cli("policy", "show", "--json", env=env).json
    assert shown["policy"]["step_max_attempts"] == 1
    assert cli("policy", "check", str(policy)).code == 0
    plan = cli.plan(
        "{version: 1, name: ink, steps: [{id: a, run: 'echo printer is out of ink >&2; exit 4'}]}"
    )
    result = cli("run", plan, "--json", env=env)
    assert result.code == 75
    assert result.document["failureClass"] == "transient_runtime"
    assert result.payloads("task.step.attempt.failed")[0]["policyDigest"] == shown["digest"]


def test_an_explained_policy_says_what_each_key_means_and_is_still_a_policy_file(cli: Cli) -> None:
    env = {"RECOUP_POLICY": str(cli.folder / "policy.yaml")}
    (cli.folder / "policy.yaml").write_text("step_max_attempts: 5\n")
    explained = cli("policy", "show", "--explain", env=env).out
    assert (
        "# Maximum attempts of a step in one delivery, including the first.\n# (1 … 100; `max_attempts` in a plan"
        in explained
    )
    assert "# == One run, over all deliveries ==" in explained
    shown = cli("policy", "show", "--explain", "--json", env=env).json
    assert shown["keys"].keys() == shown["policy"].keys()
    assert shown["keys"]["step_max_attempts"] == {
        "description": "Maximum attempts of a step in one delivery, including the first.",
        "default": 3,
        "range": [1, 100],
        "stepKey": "max_attempts",
        "replayed": True,
    }
    again = cli.folder / "again.yaml"
    again.write_text(explained)
    assert cli("policy", "check", str(again), "--json").json["digest"] == shown["digest"]


def test_schemas_are_json_schemas(cli: Cli) -> None:
    for kind in ("plan", "policy"):
        schema = json.loads(cli("schema", kind).out)
        assert schema["properties"]


def test_doctor_finds_nothing_missing_here_and_something_without_a_path(cli: Cli) -> None:
    assert cli("doctor").code == 0
    assert cli("doctor", "--json").json["ok"] is True
    bare = cli("doctor", "--json", env={"PATH": ""})
    assert bare.code == 1
    missing = {finding["name"] for finding in bare.json["findings"] if not finding["ok"]}
    assert {"git", "bash"} <= missing


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_every_command_explains_itself_with_an_example(cli: Cli, command: str) -> None:
    said = cli(command, "--help").out
    assert f"recoup {command}" in said.partition("Example")[2]


def test_help_lists_topics_shows_one_and_knows_commands(cli: Cli) -> None:
    listed = cli("help")
    assert "stuck-run" in listed.out
    assert cli("help", "stuck-run").out.startswith("# A run is stuck")
    assert "run [OPTIONS] PLAN" in cli("help", "run").out
    assert set(cli("help", "--json").json) == {
        line.split()[0] for line in listed.out.split("\n\n")[0].splitlines()
    }
    unknown = cli("help", "stuckrun")
    assert unknown.code == 2
    assert "Did you mean stuck-run?" in unknown.err


def test_the_topics_are_in_the_wheel(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=Path(__file__).parents[2], check=True, capture_output=True, timeout=100)
    [wheel] = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert {f"recoup/cli/topics/{topic}.md" for topic in topics()} <= packed


def test_lists_that_are_empty_say_what_to_do(cli: Cli) -> None:
    assert "recoup serve" in cli("tokens", "list").err
    assert "recoup webhooks add" in cli("webhooks", "list").err


def test_an_address_of_another_machine_is_not_taken_for_a_port_in_use(cli: Cli) -> None:
    refused = cli("serve", "--host", "192.0.2.1", "--insecure")
    assert refused.code == 2
    assert "--host 127.0.0.1" in refused.err


def test_a_folder_can_be_the_workspace(cli: Cli) -> None:
    source = cli.folder / "source"
    source.mkdir()
    (source / "data").write_text("1\n")
    plan = cli.plan(
        "{version: 1, name: f, workspace: {folder: ./source}, steps: [{id: a, run: 'echo 2 >> data', expect: [{diff: nonempty}]}]}"
    )
    result = cli("run", plan, "--json")
    assert result.code == 0, result.err
    assert (source / "data").read_text() == "1\n"
    workspace = cli.run_dir(result.document["runId"]) / "workspace"
    assert (workspace / "data").read_text() == "1\n2\n"


def test_the_demo_gets_through_everything(cli: Cli) -> None:
    result = cli("demo", "--folder", str(cli.folder / "demo"), timeout=100)
    assert result.code == 0, result.err
    said = result.out + result.err
    for words in (
        "soft reset",
        "no output for",
        "hard reset",
        "the driver is gone",
        "taken over",
        "5 of 5 steps are known to be good",
    ):
        assert words in said
    assert "hold the token: 0 of" in said
    ledger = json.loads(cli("--home", str(Path(cli.folder, "demo", "state")), "ledger", "last", "--json").out)
    assert [step["attempts"] for step in ledger["steps"]] == [2, 2, 3, 2, 1]


def test_a_webhook_for_an_event_that_nobody_knows_is_added_with_a_note(cli: Cli) -> None:
    words = ("webhooks", "add", "https://hooks.example/x", "--name")
    known = cli(*words, "a", "--events", "Escalated,task.run.*")
    assert (known.code, known.err) == (0, "")
    unknown = cli(*words, "b", "--events", "escalated,Escalated")
    assert unknown.code == 0 and "no event here is called 'escalated'" in unknown.err
