"""A workflow that keeps failing slows down, hardens, stops and asks, on the real command line. Seed 001."""

from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli, wait_for


def becomes(cli: Cli, mode: str, seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if cli("mode", "flaky", "--json").json["mode"] == mode:
            return True
    return False


FAILS = """
    version: 1
    name: flaky
    steps:
      - id: sum
        run: test -e mended
"""
QUICK = "step_max_attempts: 1\nworkflow_fail_max_in_window: 5\nquarantine_duration_s: 4\ndegraded_clean_steps: 2\n"


@pytest.fixture
def quick(cli: Cli) -> Cli:
    policy = cli.folder / "policy.yaml"
    policy.write_text(QUICK)
    cli.env["RECOUP_POLICY"] = str(policy)
    return cli


def fail(cli: Cli, plan: str, times: int) -> list[int]:
    return [cli("run", plan, "--quiet").code for _ in range(times)]


def test_three_failures_degrade_and_more_quarantine_and_what_is_mended_comes_back(quick: Cli) -> None:
    plan = quick.plan(FAILS)
    assert set(fail(quick, plan, 3)) <= {1, 75}
    degraded = quick("mode", "flaky", "--json").json
    assert (degraded["mode"], degraded["confidenceFloor"], degraded["learningEnabled"]) == (
        "degraded",
        0.82,
        False,
    )
    assert degraded["counters"]["stepStreak"] == 3
    assert degraded["lastFailure"]["stepId"] == "sum"

    fail(quick, plan, 2)
    quarantined = quick("mode", "flaky", "--json").json
    assert quarantined["mode"] == "quarantined"
    assert quarantined["until"]
    assert quarantined["counters"]["failuresInWindow"] == 0, "they count from here on"
    assert quarantined["countersAtChange"]["failuresInWindow"] == 5
    assert "at change  5 in a row of one step, 5 in the window" in quick("mode", "flaky").out
    blocked = quick("run", plan, "--json")
    assert blocked.code == 4
    assert blocked.document["status"] == "blocked"
    assert blocked.document["waitingUntil"]
    assert "recoup mode flaky running" in blocked.document["reason"]
    assert blocked.payloads("task.run.started") == []

    (quick.folder / "mended").touch()
    run_id = blocked.document["runId"]
    assert becomes(quick, "degraded")
    recovered = quick("resume", run_id, "--json")
    assert (recovered.code, recovered.document["delivery"]) == (0, 1)
    assert quick("run", plan, "--quiet").code == 0
    assert quick("mode", "flaky", "--json").json["mode"] == "running"


def test_a_blocked_run_can_be_cancelled_and_one_that_has_begun_is_not_begun_again(quick: Cli) -> None:
    plan = quick.plan(FAILS.replace("test -e mended", "echo connection reset by peer >&2; exit 1"))
    exhausted = quick("run", plan, "--json").document
    assert exhausted["retryable"]
    quick("mode", "flaky", "paused", "--reason", "looking into it")
    refused = quick("resume", exhausted["runId"])
    assert refused.code == 4
    assert "looking into it" in refused.err
    assert quick("show", exhausted["runId"], "--json").json["delivery"] == exhausted["delivery"]
    blocked = quick("run", plan, "--json").document
    assert quick("control", blocked["runId"], "cancel", "--reason", "not needed").code == 0
    assert quick("show", blocked["runId"], "--json").json["status"] == "cancelled"


def test_an_override_is_persisted_told_and_ends_with_its_time(cli: Cli) -> None:
    plan = cli.plan(FAILS)
    cli("run", plan, "--quiet")
    said = cli("mode", "flaky", "paused", "--reason", "the bank is down", "--for", "4s", "--json").json
    assert (said["mode"], said["forced"], said["reason"]) == ("paused", True, "the bank is down")
    assert cli("run", plan, "--quiet").code == 4
    assert becomes(cli, "running")
    assert cli("run", plan, "--quiet").code in (1, 75)


def test_everything_can_be_paused_at_once(cli: Cli) -> None:
    plan = cli.plan(FAILS)
    assert cli("mode", "--global", "paused", "--reason", "moving house").code == 0
    result = cli("run", plan)
    assert result.code == 4
    assert "recoup mode --global running" in result.out + result.err
    assert cli("mode", "--global", "running", "--reason", "done").code == 0
    (cli.folder / "mended").touch()
    assert cli("run", plan, "--quiet").code == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("flaky", "paused"), "--reason is missing"),
        (("flaky", "rollback", "--reason", "x"), "not a mode to be put into"),
        (("flaky", "asleep", "--reason", "x"), "no such mode"),
        (("flaky", "paused", "--reason", "x", "--for", "soon"), "duration"),
        (("flacky", "paused", "--reason", "x"), "has ever run here"),
        (("flacky",), "has ever run here"),
        (("--reason", "x"), "belong to a MODE"),
        (("--global", "flaky", "paused", "--reason", "x"), "name none"),
    ],
)
def test_what_makes_no_sense_is_refused_with_words(cli: Cli, args: tuple[str, ...], words: str) -> None:
    refused = cli("mode", *args)
    assert refused.code == 2
    assert words in refused.err


def test_all_workflows_together_are_no_name_to_choose_from(cli: Cli) -> None:
    assert cli("mode", "--global", "running", "--reason", "x").code == 0
    assert "*" not in cli("mode", "flaky").err


LATER = """
    version: 1
    name: long
    steps:
      - id: wait
        run: |
          touch begun
          while ! test -e go; do sleep 0.05; done
      - id: again
        run: |
          echo "$RECOUP_ATTEMPT" >> tries
          test "$RECOUP_ATTEMPT" -ge 3 || { echo "connection reset by peer $RECOUP_ATTEMPT" >&2; exit 1; }
"""


def run_while_the_policy_becomes(cli: Cli, text: str) -> tuple[int, list[str]]:
    """The exit code, and the attempts of the step that came after the change; before it one was allowed."""
    policy = cli.folder / "policy.yaml"
    policy.write_text("step_max_attempts: 1\n")
    cli.env["RECOUP_POLICY"] = str(policy)
    running = cli.start("run", cli.plan(LATER), "--quiet")
    wait_for(cli.folder / "begun")
    policy.write_text(text)
    time.sleep(1.1)  # the driver looks once a second
    (cli.folder / "go").touch()
    return running.wait(60), (cli.folder / "tries").read_text().split()


def test_a_policy_file_that_is_changed_while_a_run_goes_on_is_followed_without_a_restart(cli: Cli) -> None:
    patient = "step_max_attempts: 4\nstep_no_progress_limit: 5\nno_progress_window: 5\n"
    assert run_while_the_policy_becomes(cli, patient) == (0, ["1", "2", "3"])


def test_a_policy_file_that_breaks_while_a_run_goes_on_changes_nothing(cli: Cli) -> None:
    assert run_while_the_policy_becomes(cli, "step_max_attempts: [\n") == (75, ["1"])
    checked = cli("policy", "check", cli.env["RECOUP_POLICY"])
    assert checked.code == 3
    assert "policy.yaml:" in checked.err


def test_policy_show_says_what_everybody_follows(cli: Cli) -> None:
    policy = cli.folder / "policy.yaml"
    policy.write_text("step_max_attempts: 7\n")
    (cli.folder / "mended").touch()
    assert cli("run", cli.plan(FAILS), "--quiet", env={"RECOUP_POLICY": str(policy)}).code == 0
    shown = cli("policy", "show", "--json").json
    assert shown["policy"]["step_max_attempts"] == 7
    assert str(policy) in shown["source"]


def test_every_decision_of_a_run_is_in_the_audit_when_it_ends(cli: Cli) -> None:
    assert cli("run", cli.plan(FAILS), "--quiet").code in (1, 75)
    verified = cli("audit", "verify", "--json")
    assert verified.code == 0, verified.out
    shown = cli("audit", "show", "--json").lines
    assert {"task.self_heal.triggered", "task.run.failed", "workflow.step.result", "policy.generation"} - {
        line["type"] for line in shown
    } == {"policy.generation"}, "no policy file, no generation"


SLOW = """
    version: 1
    name: flaky
    steps:
      - id: wait
        run: |
          touch begun
          while ! test -e go; do sleep 0.05; done
      - id: then
        run: "true"
"""


def test_who_resumes_a_run_while_its_workflow_is_stopped_does_not_hide_that_its_driver_was_lost(
    cli: Cli,
) -> None:
    running = cli.start("run", cli.plan(SLOW), "--quiet")
    wait_for(cli.folder / "begun")
    running.kill()
    running.wait()
    assert cli("mode", "flaky", "paused", "--reason", "looking").code == 0
    assert cli("resume", "last").code == 4
    assert cli("mode", "flaky", "running", "--reason", "looked").code == 0
    (cli.folder / "go").touch()
    resumed = cli("resume", "last", "--json")
    assert (resumed.code, resumed.document["takeovers"]) == (0, 1)


def test_a_paused_run_that_cannot_be_resumed_stays_paused(cli: Cli) -> None:
    running = cli.start("run", cli.plan(SLOW), "--quiet")
    wait_for(cli.folder / "begun")
    assert cli("control", "last", "pause", "--reason", "a look").code == 0
    (cli.folder / "go").touch()
    assert running.wait(60) == 5
    assert cli("mode", "flaky", "paused", "--reason", "looking").code == 0
    for more in ((), ("--from-step", "wait")):
        assert cli("resume", "last", *more).code == 4
    # Any control makes whoever carries it out deal with what waits before it.
    assert cli("control", "last", "approve", "--reason", "to be refused").code == 2
    assert cli("show", "last", "--json").json["liveControl"]["paused"]


def test_a_workflow_can_be_stopped_although_what_its_last_run_hid_is_gone(cli: Cli) -> None:
    (cli.folder / "mended").touch()
    plan = cli.plan(FAILS.replace("steps:", "inputs: {pin: {secret: true}}\n    steps:"))
    assert cli("run", plan, "--quiet", "--input", "pin=not-for-you-1").code == 0
    shutil.rmtree(cli.home / "runs")
    for which in ("flaky", "--global"):
        assert cli("mode", which, "paused", "--reason", "stop").code == 0


def test_policy_show_says_what_is_in_force_and_not_what_a_file_says_that_counts_no_more(cli: Cli) -> None:
    (cli.folder / "mended").touch()
    plan, one, two = cli.plan(FAILS), cli.folder / "one.yaml", cli.folder / "two.yaml"
    for number, file in ((7, one), (8, two)):
        file.write_text(f"step_max_attempts: {number}\n")
        assert cli("run", plan, "--quiet", env={"RECOUP_POLICY": str(file)}).code == 0
    mine = {"RECOUP_POLICY": str(one)}
    assert cli("policy", "show", "--json", env=mine).json["policy"]["step_max_attempts"] == 8
    one.write_text("step_max_attempts: [\n")
    broken = cli("policy", "show", "--json", env=mine)
    assert broken.json["policy"]["step_max_attempts"] == 8
    assert "recoup policy check" in broken.err


def test_a_policy_file_that_becomes_a_pipe_holds_up_no_run(cli: Cli) -> None:
    policy = cli.folder / "policy.yaml"
    policy.write_text("step_max_attempts: 1\n")
    running = cli.start("run", cli.plan(SLOW), "--quiet", env={"RECOUP_POLICY": str(policy)})
    wait_for(cli.folder / "begun")
    policy.unlink()
    os.mkfifo(policy)
    os.utime(policy, (1, 1))
    time.sleep(1.1)  # the driver looks once a second
    (cli.folder / "go").touch()
    assert running.wait(60) == 0


def test_checkpoints_follow_a_changed_policy_too(cli: Cli, repo: Path) -> None:
    policy = cli.folder / "policy.yaml"
    policy.write_text("{}\n")
    plan = cli.plan(f"""
        version: 1
        name: large
        workspace: {{git: {repo}}}
        steps:
          - id: wait
            run: |
              touch {cli.folder}/begun
              while ! test -e {cli.folder}/go; do sleep 0.05; done
          - id: writes
            run: head -c 100000 /dev/zero > large
    """)
    running = cli.start("run", plan, "--quiet", env={"RECOUP_POLICY": str(policy)})
    wait_for(cli.folder / "begun")
    policy.write_text("checkpoint_bytes_max: 1024\n")
    os.utime(policy, (1, 1))
    time.sleep(1.1)  # the driver looks once a second
    (cli.folder / "go").touch()
    assert running.wait(60) == 0
    events = cli("events", "last", "--json").lines
    (left_out,) = [event["payload"] for event in events if event["type"] == "checkpoint.incomplete"]
    assert left_out["stepId"] == "writes"


def test_a_run_whose_driver_was_lost_too_often_has_its_report_whoever_finds_out(cli: Cli) -> None:
    policy = cli.folder / "policy.yaml"
    policy.write_text("takeovers_max: 0\n")
    cli.env["RECOUP_POLICY"] = str(policy)
    running = cli.start("run", cli.plan(SLOW), "--quiet")
    wait_for(cli.folder / "begun")
    running.kill()
    running.wait()
    cli("control", "last", "pause", "--reason", "a look")
    shown = cli("show", "last", "--json").json
    assert shown["status"] == "dead_letter"
    assert (cli.run_dir(shown["runId"]) / "artifacts" / "report.html").exists()


def test_an_operators_word_about_the_mode_is_counted(quick: Cli) -> None:
    fail(quick, quick.plan(FAILS), 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(20)
        quick.env["RECOUP_STATSD"] = f"127.0.0.1:{server.getsockname()[1]}"
        quick("mode", "flaky", "paused", "--reason", "looking into it")
        said = server.recv(65_536).decode()
    assert "workflow.mode.changes_total" in said
    assert "paused" in said


def test_a_quarantined_workflow_is_not_said_to_be_far_from_its_limits(cli: Cli) -> None:
    assert cli("run", cli.plan("{version: 1, name: calm, steps: [{id: a, run: 'true'}]}")).code == 0
    assert " in a row of one step" in cli("mode", "calm").out
    assert cli("mode", "calm", "quarantined", "--reason", "x", "--for", "1h").code == 0
    assert "counting starts again when the quarantine ends" in cli("mode", "calm").out
