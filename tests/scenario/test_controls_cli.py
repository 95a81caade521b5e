"""Operators and runs in different processes, on the real command line. Seed 002 §§12.4, 13, 18."""

from __future__ import annotations

import time
from pathlib import Path

from tests.scenario.conftest import Cli, kill, wait_for


def control(cli: Cli, action: str, *more: str) -> tuple[int, dict[str, object]]:
    answer = cli("control", "last", action, "--reason", "told so", "--json", *more)
    assert answer.code in (0, 2), answer.err
    return answer.code, answer.json


def test_pause_and_resume_around_a_retry_boundary(cli: Cli) -> None:
    """The wait between two attempts is long; the pause ends it at once, and the resume goes on with attempt 2."""
    cli.plan("backoff_ms: 600000\nbackoff_cap_ms: 600000\n", "policy.yaml")
    plan = cli.plan(f"""
        version: 1
        name: boundary
        steps:
          - id: a
            run: |
              echo "$RECOUP_ATTEMPT" >> {cli.folder}/attempts
              [ "$RECOUP_ATTEMPT" -gt 1 ] || {{ echo "error: connection reset by peer" >&2; exit 1; }}
    """)
    env = {"RECOUP_POLICY": str(cli.folder / "policy.yaml")}
    driver = cli.start("run", plan, env=env)
    deadline = time.monotonic() + 60
    while not cli("events", "last", "--json").out.count("task.self_heal.triggered"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    code, answer = control(cli, "pause")
    assert (code, answer["outcome"]) == (0, "accepted")
    assert driver.wait(60) == 5
    shown = cli("show", "last", "--json").json
    assert shown["liveControl"] == {"paused": True, "takeover": False, "recovery": None}
    assert (shown["status"], shown["waitingFor"]) == ("waiting", "operator")
    code, answer = control(cli, "retry_step", "--step", "a")
    assert (code, answer["outcome"]) == (0, "accepted")
    result = cli("resume", "last", "--json", env=env)
    assert result.code == 0, result.err
    assert (cli.folder / "attempts").read_text() == "1\n2\n"
    assert result.document["liveControl"]["recovery"]["action"] == "retry_step"


def test_a_paused_run_goes_on_by_recoup_resume_alone(cli: Cli) -> None:
    flag, go = cli.folder / "begun", cli.folder / "go"
    plan = cli.plan(f"""
        version: 1
        name: pausing
        steps:
          - {{id: a, run: "touch {flag}; while [ ! -e {go} ]; do sleep 0.05; done"}}
          - {{id: b, run: "true"}}
    """)
    driver = cli.start("run", plan)
    wait_for(flag)
    code, answer = control(cli, "pause")
    assert (code, answer["detail"]) == (0, "when the attempt of a has ended")
    go.touch()
    assert driver.wait(60) == 5
    assert [step["verdict"] for step in cli.ledger()["steps"]] == ["unverified", "not_run"]
    assert cli("resume", "last").code == 0


def test_takeover_hands_over_the_workspace_and_keeps_what_was_changed(cli: Cli, repo: Path) -> None:
    flag = cli.folder / "begun"
    plan = cli.plan(f"""
        version: 1
        name: by-hand
        workspace: {{git: ./repo}}
        steps:
          - {{id: a, run: "echo a > a.txt"}}
          - id: b
            run: |
              [ -e fixed.txt ] || {{ touch {flag}; sleep 600; }}
              cat fixed.txt > b.txt
            expect: [{{file: b.txt}}]
    """)
    driver = cli.start("run", plan)
    wait_for(flag)
    began = time.monotonic()
    code, answer = control(cli, "takeover")
    assert (code, answer["outcome"]) == (0, "accepted")
    assert time.monotonic() - began < 10
    assert driver.wait(60) == 5
    folder = Path(str(answer["detail"]).removeprefix("the workspace is "))
    (folder / "fixed.txt").write_text("by hand\n")
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.err
    (changed,) = result.payloads("workspace.changed")
    assert changed["changedFiles"] == ["fixed.txt"]
    shown = cli("show", result.document["runId"], "--evidence", changed["evidence"][0])
    assert "+by hand" in shown.out
    patch = cli.run_dir(result.document["runId"]) / "artifacts/patches/steps/step-0001.patch"
    assert "fixed.txt" not in patch.read_text(), "that was the operator's work, not the step's"


def test_a_hard_reset_of_a_run_that_lost_its_driver_is_asked_for_by_the_sender(cli: Cli, repo: Path) -> None:
    flag = cli.folder / "begun"
    plan = cli.plan(f"""
        version: 1
        name: resetting
        workspace: {{git: ./repo}}
        steps:
          - id: a
            run: |
              [ ! -e junk ] || exit 3
              [ "$RECOUP_ATTEMPT" -gt 1 ] || {{ touch junk; touch {flag}; sleep 600; }}
    """)
    driver = cli.start("run", plan)
    wait_for(flag)
    kill(driver)
    code, answer = control(cli, "hard_reset_step")
    assert (code, answer["outcome"]) == (0, "accepted")
    code, answer = control(cli, "hard_reset_step")
    assert (code, answer["outcome"]) == (2, "refused")
    assert "job_self_heal_max_resets: 1 of 1 used" in str(answer["detail"])
    code, answer = control(cli, "hard_reset_step", "--force")
    assert (code, answer["outcome"]) == (0, "accepted")
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.err
    assert result.payloads("checkpoint.restored")
    assert result.document["hardResets"] == 1


def test_a_gate_and_its_answers(cli: Cli) -> None:
    plan = cli.plan(f"""
        version: 1
        name: gated
        steps:
          - {{id: build, run: "echo built"}}
          - {{id: sign-off, approve: {{message: Release to the bank?}}}}
          - {{id: release, run: "echo released > {cli.folder}/released"}}
    """)
    first = cli("run", plan, "--json")
    assert (first.code, first.document["waitingFor"]) == (5, "approval")
    assert "Release to the bank?" in cli("show", "last").out
    code, answer = control(cli, "approve", "--step", "release")
    assert (code, answer["outcome"]) == (2, "refused")
    code, answer = control(cli, "approve")
    assert (code, answer["outcome"]) == (0, "accepted")
    assert not (cli.folder / "released").exists()
    assert cli("resume", "last").code == 0
    assert (cli.folder / "released").exists()
    second = cli("run", plan, "--json")
    code, answer = control(cli, "reject")
    assert (code, answer["outcome"]) == (0, "accepted")
    assert cli("show", second.document["runId"], "--json").json["exitCode"] == 1


def test_a_recovered_step_and_its_handlers_in_the_ledger(cli: Cli) -> None:
    plan = cli.plan(f"""
        version: 1
        name: rescued
        steps:
          - id: fetch
            run: "echo 'error: permission denied' >&2; exit 1"
            rescue: [{{run: "echo kept > {cli.folder}/kept"}}]
            always: [{{run: "echo cleaned > {cli.folder}/cleaned"}}]
            expect: [{{file: "{cli.folder}/kept"}}]
          - {{id: after, run: "true"}}
    """)
    result = cli("run", plan, "--json")
    assert result.code == 0, result.err
    entry = cli.ledger()["steps"][0]
    assert (entry["verdict"], entry["phase"]) == ("recovered", "rescue")
    assert entry["evidence"]
    assert (cli.folder / "cleaned").exists()
    log = cli("logs", "last", "fetch").out
    assert "permission denied" in log


def test_resuming_a_paused_run_that_is_still_driven_changes_nothing(cli: Cli) -> None:
    """Its attempt is under way: a command that fails must not have taken the pause back."""
    flag, go = cli.folder / "begun", cli.folder / "go"
    plan = cli.plan(f"""
        version: 1
        name: held
        steps:
          - {{id: a, run: "touch {flag}; while [ ! -e {go} ]; do sleep 0.05; done"}}
          - {{id: b, run: "true"}}
    """)
    driver = cli.start("run", plan)
    wait_for(flag)
    assert control(cli, "pause")[0] == 0
    answer = cli("resume", "last")
    assert (answer.code, "is being driven" in answer.err) == (2, True)
    go.touch()
    assert driver.wait(60) == 5
    assert [step["verdict"] for step in cli.ledger()["steps"]] == ["unverified", "not_run"]


def test_what_a_control_would_do_is_said_before_anything_is_done(cli: Cli) -> None:
    plan = cli.plan(
        "{version: 1, name: asked, steps: [{id: a, run: 'true'}, {id: g, approve: {message: 'Go?'}}]}"
    )
    assert cli("run", plan).code == 5
    seen = cli("control", "last", "approve", "--dry-run")
    assert seen.code == 0 and "g is passed, by your word." in seen.out
    refused = cli("control", "last", "resume", "--dry-run", "--json")
    assert (refused.code, refused.json["allowed"], refused.json["why"]) == (2, False, "the run is not paused")
    assert cli("show", "last", "--json").json["status"] == "waiting"
    assert "task.control" not in cli("events", "last", "--json").out
    without = cli("control", "last", "approve")
    assert without.code == 2 and "--reason is needed" in without.err
