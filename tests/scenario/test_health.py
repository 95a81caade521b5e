"""A workflow that keeps failing slows down, hardens, stops and asks, on the real command line. Seed 001."""

from __future__ import annotations

import time

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
        (("--reason", "x"), "belong to a MODE"),
        (("--global", "flaky", "paused", "--reason", "x"), "name none"),
    ],
)
def test_what_makes_no_sense_is_refused_with_words(cli: Cli, args: tuple[str, ...], words: str) -> None:
    refused = cli("mode", *args)
    assert refused.code == 2
    assert words in refused.err


def test_a_policy_file_that_is_changed_while_a_run_goes_on_is_followed_without_a_restart(cli: Cli) -> None:
    policy = cli.folder / "policy.yaml"
    policy.write_text("step_max_attempts: 1\n")
    cli.env["RECOUP_POLICY"] = str(policy)
    plan = cli.plan("""
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
    """)
    running = cli.start("run", plan, "--quiet")
    wait_for(cli.folder / "begun")
    policy.write_text("step_max_attempts: 4\nstep_no_progress_limit: 5\nno_progress_window: 5\n")
    time.sleep(1.1)  # the driver looks once a second
    (cli.folder / "go").touch()
    assert running.wait(30) == 0
    assert (cli.folder / "tries").read_text().split() == ["1", "2", "3"]


def test_a_policy_file_that_breaks_while_a_run_goes_on_changes_nothing(cli: Cli) -> None:
    policy = cli.folder / "policy.yaml"
    policy.write_text("step_max_attempts: 1\n")
    cli.env["RECOUP_POLICY"] = str(policy)
    plan = cli.plan("""
        version: 1
        name: long
        steps:
          - id: wait
            run: |
              touch begun
              while ! test -e go; do sleep 0.05; done
          - id: fails
            run: exit 1
    """)
    running = cli.start("run", plan, "--quiet")
    wait_for(cli.folder / "begun")
    policy.write_text("step_max_attempts: [\n")
    time.sleep(1.1)
    (cli.folder / "go").touch()
    assert running.wait(30) in (1, 75)
    assert cli("show", "last", "--json").json["retries"] == 0
    checked = cli("policy", "check", str(policy))
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
