"""The promises of recovery, on the real command line. Seed 002 §18, integration tests."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from tests.repositories import git
from tests.scenario.conftest import Cli, kill, wait_for
from tests.scenario.test_kills import wait_for_the_end_of_the_lease


def test_a_hanging_step_is_soft_reset_and_succeeds(cli: Cli, repo: Path) -> None:
    plan = cli.plan("""
        version: 1
        name: hang
        workspace: {git: ./repo}
        defaults: {idle_timeout: 1s, timeout: 20s}
        steps:
          - id: convert
            run: |
              echo "attempt $RECOUP_ATTEMPT"
              [ "$RECOUP_ATTEMPT" -gt 1 ] || sleep 600
              cp "$RECOUP_RETRY_CONTEXT" context.json
            expect: [{file: context.json}, {stdout: attempt 2}]
    """)
    result = cli("run", plan, "--json")
    assert result.code == 0, result.err
    (healed,) = result.payloads("task.self_heal.triggered")
    assert (healed["failureKind"], healed["failureClass"], healed["strategy"]) == (
        "idle_timeout",
        "stuck_no_progress",
        "soft_reset",
    )
    run = cli.run_dir(result.document["runId"])
    context = json.loads((run / "workspace" / "context.json").read_text())
    assert context["stepId"] == "convert"
    assert context["failureSummary"]
    assert len(context["constraints"]) == 2
    for name in (
        "logs/steps/step-0000.log",
        "patches/steps/step-0000.patch",
        "state/steps/step-0000.json",
        "state/self_heal/attempt-0000-0001.json",
    ):
        assert (run / "artifacts" / name).stat().st_size, name
    state = json.loads((run / "artifacts/state/steps/step-0000.json").read_text())
    assert (state["stepId"], state["attempt"], state["changedFiles"]) == ("convert", 2, ["context.json"])


def test_no_progress_leads_to_a_hard_reset_and_success(cli: Cli, repo: Path) -> None:
    """The failing attempt leaves something behind that makes every later one fail alike."""
    plan = cli.plan("""
        version: 1
        name: stuck
        workspace: {git: ./repo, ref: main}
        steps:
          - id: before
            run: echo done > before.txt
            expect: [{file: before.txt}]
          - id: build
            run: |
              [ "$RECOUP_ATTEMPT" != 1 ] || echo junk > cache
              if [ -e cache ]; then echo "build: error: cache is corrupt" >&2; exit 1; fi
              cat before.txt > built.txt
            expect: [{file: built.txt}]
          - {id: after, run: "test -e built.txt -a ! -e cache"}
    """)
    result = cli("run", plan, "--json")
    assert result.code == 0, result.err
    strategies = [p["strategy"] for p in result.payloads("task.step.attempt.failed")]
    assert strategies == ["soft_reset", "hard_reset"]
    assert len(result.payloads("task.self_heal.escalated")) == 1
    assert result.payloads("checkpoint.restored")[0]["stepIndex"] == 0
    workspace = cli.run_dir(result.document["runId"]) / "workspace"
    assert workspace.readlink().name == "0002"
    assert (workspace.parent / "workspaces" / "0001" / "cache").exists(), (
        "the old workspace stays as evidence"
    )
    assert result.document["hardResets"] == 1


def test_a_second_hard_reset_is_refused(cli: Cli, repo: Path) -> None:
    plan = cli.plan("""
        version: 1
        name: hopeless
        workspace: {git: ./repo}
        defaults: {max_attempts: 6, no_progress_limit: 2}
        steps: [{id: a, run: "echo same; exit 9"}]
    """)
    result = cli("run", plan, "--json")
    assert result.code == 75
    assert "job_self_heal_max_resets" in result.document["reason"]
    assert len(result.payloads("task.self_heal.escalated")) == 1
    assert result.payloads("task.self_heal.exhausted")[0]["retryable"] is True


def test_a_driver_that_is_killed_does_not_make_a_second_hard_reset_possible(cli: Cli, repo: Path) -> None:
    plan = cli.plan(f"""
        version: 1
        name: hopeless
        workspace: {{git: ./repo}}
        defaults: {{max_attempts: 6, no_progress_limit: 2}}
        steps:
          - id: a
            run: |
              [ $RECOUP_ATTEMPT -ne 3 ] || {{ touch {cli.folder}/third; sleep 600; }}
              echo same; exit 9
    """)
    driver = cli.start("run", plan, "--quiet")
    wait_for(cli.folder / "third")
    kill(driver)
    result = cli("resume", "last", "--json")
    assert result.code == 75
    assert "job_self_heal_max_resets" in result.document["reason"]
    assert result.document["hardResets"] == 1
    assert (
        len([e for e in cli("events", "last", "--json").lines if e["type"] == "task.self_heal.escalated"])
        == 1
    )


def test_a_step_gets_as_many_attempts_as_the_plan_says(cli: Cli) -> None:
    """Nothing recognises the failure, and every attempt ends like the one before it."""
    plan = cli.plan("""
        version: 1
        name: flaky
        defaults: {retry: {delay: 1ms}}
        steps:
          - id: tests
            run: 'echo "assertion 17 of the suite"; [ "$RECOUP_ATTEMPT" -ge 4 ]'
            max_attempts: 5
    """)
    result = cli("run", plan, "--json")
    assert result.code == 0, result.err
    assert [failed["attempt"] for failed in result.payloads("task.step.attempt.failed")] == [1, 2, 3]


def test_a_deterministic_failure_is_retried_where_the_plan_names_it(cli: Cli) -> None:
    plan = cli.plan("""
        version: 1
        name: named
        steps:
          - id: tests
            run: '[ "$RECOUP_ATTEMPT" -ge 3 ] || { echo "permission denied" >&2; exit 126; }'
            retry: {attempts: 3, delay: 5ms, on: [deterministic_contract]}
    """)
    result = cli("run", plan, "--json")
    assert result.code == 0, result.err
    healed = result.payloads("task.self_heal.triggered")
    assert [(one["failureClass"], one["delayMs"]) for one in healed] == [("deterministic_contract", 5)] * 2


def test_a_rebuild_step_runs_again_in_the_restored_workspace(cli: Cli, repo: Path) -> None:
    (repo / ".gitignore").write_text("deps/\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "ignore")
    plan = cli.plan("""
        version: 1
        name: deps
        workspace: {git: ./repo}
        steps:
          - {id: deps, run: mkdir -p deps && touch deps/lib, rebuild: rerun}
          - id: build
            run: |
              test -e deps/lib
              [ "$RECOUP_ATTEMPT" != 1 ] || touch junk
              if [ -e junk ]; then echo broken; exit 1; fi
    """)
    result = cli("run", plan, "--json")
    assert result.code == 0, result.err
    assert any(m["path"].startswith("deps") for m in result.payloads("checkpoint.incomplete")[0]["missing"])
    rebuilt = [p for p in result.payloads("task.step.attempt.started") if p["phase"] == "rebuild"]
    assert [p["stepId"] for p in rebuilt] == ["deps"]


def test_a_deterministic_failure_stops_at_once(cli: Cli) -> None:
    plan = cli.plan("""
        version: 1
        name: typo
        steps: [{id: a, run: no-such-command-here}, {id: b, run: "true"}]
    """)
    result = cli("run", plan, "--json")
    assert result.code == 1
    assert len(result.payloads("task.step.attempt.failed")) == 1
    assert (result.document["failureClass"], result.document["retryable"]) == (
        "deterministic_contract",
        False,
    )
    assert [step["verdict"] for step in cli.ledger()["steps"]] == ["failed", "not_run"]


def test_exhaustion_is_retryable_and_resume_gives_the_next_delivery(cli: Cli) -> None:
    plan = cli.plan("""
        version: 1
        name: flaky
        defaults: {retry: {delay: 1ms}}
        steps:
          - id: fetch
            run: |
              [ "$RECOUP_ATTEMPT" -gt 3 ] || { words=(none first second third); echo "connection reset by peer: ${words[RECOUP_ATTEMPT]}" >&2; exit 1; }
    """)
    result = cli("run", plan, "--json")
    assert result.code == 75
    assert (result.document["retryable"], result.document["delivery"], result.document["exitCode"]) == (
        True,
        1,
        75,
    )
    again = cli("resume", "last", "--json")
    assert again.code == 0, again.err
    assert again.document["delivery"] == 2
    assert cli.ledger()["steps"][0]["attempts"] == 4


def test_a_missing_postcondition_is_a_failure_although_the_exit_code_is_0(cli: Cli) -> None:
    plan = cli.plan("""
        version: 1
        name: liar
        steps: [{id: a, run: "echo I did it", expect: [{file: proof.txt}]}]
    """)
    result = cli("run", plan, "--json")
    assert result.code != 0
    failed = result.payloads("task.step.attempt.failed")[0]
    assert failed["failureKind"] == "postcondition_failed"
    assert "proof.txt" in failed["summary"]
    shown = cli("show", "last", "--evidence", failed["evidence"][0])
    assert shown.code in (0, 2)


def test_evidence_handles_open(cli: Cli) -> None:
    plan = cli.plan("""
        version: 1
        name: proof
        steps: [{id: a, run: "echo yes > f; echo said", expect: [{file: f, contains: yes}, {stdout: said}, {run: test -s f}]}]
    """)
    assert cli("run", plan).code == 0
    (handle,) = cli.ledger()["steps"][0]["evidence"]
    document = cli("show", "last", "--evidence", handle).json
    assert [check["held"] for check in document["checks"]] == [True, True, True]


def test_cancel_from_another_process_kills_the_tree(cli: Cli) -> None:
    flag = cli.folder / "pid"
    plan = cli.plan(f"""
        version: 1
        name: long
        steps: [{{id: a, run: "setsid sleep 600 & echo $! > {flag}.tmp; mv {flag}.tmp {flag}; wait"}}]
    """)
    driver = cli.start("run", plan)
    wait_for(flag)
    began = time.monotonic()
    answer = cli("control", "last", "cancel", "--reason", "wrong branch", "--json")
    assert (answer.code, answer.json["outcome"]) == (0, "accepted")
    assert driver.wait(60) == 6
    assert time.monotonic() - began < 15
    assert not alive(int(flag.read_text()))
    assert cli("show", "last", "--json").json["status"] == "cancelled"


def test_cancel_without_a_driver_is_carried_out_by_its_sender(cli: Cli) -> None:
    started = cli.folder / "started"
    plan = cli.plan(f"""
        version: 1
        name: orphan
        steps: [{{id: a, run: "touch {started}; sleep 600"}}]
    """)
    driver = cli.start("run", plan)
    wait_for(started)
    kill(driver)
    answer = cli("control", "last", "cancel", "--reason", "enough", "--json")
    assert answer.json["outcome"] == "accepted"
    assert answer.json["run"]["status"] == "cancelled"
    again = cli("control", "last", "cancel", "--reason", "again")
    assert again.code == 2
    assert "already" in again.out


def test_a_run_goes_on_with_a_ledger_that_was_restored_from_a_backup(cli: Cli) -> None:
    """Its folder has seen drivers of whom the ledger does not know any more."""
    plan = cli.plan("""
        version: 1
        name: restored
        steps: [{id: a, run: 'true'}, {id: b, approve: Go on?}]
    """)
    assert cli("submit", plan).code == 0
    backup, ledger = cli.folder / "backup.db", cli.home / "ledger.db"
    with contextlib.closing(sqlite3.connect(ledger)) as database:
        database.execute(f"VACUUM INTO '{backup}'")
    assert cli("worker", "--until-idle").code == 0
    for action in ("pause", "resume", "pause"):
        cli("control", "last", action, "--reason", "later")

    def restore() -> None:
        for beside in cli.home.glob("ledger.db-*"):
            beside.unlink()
        shutil.copy(backup, ledger)
        assert "has lost events" in cli("runs").err, "nobody goes on with an older ledger by accident"
        (cli.home / "ledger.mark").unlink()

    restore()
    told = cli("worker", "--until-idle", "--json")
    assert "another driver" not in told.out, told.out
    assert cli("show", "last", "--json").json["status"] == "waiting"
    restore()
    answer = cli("control", "last", "cancel", "--reason", "enough", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["run"]["status"] == "cancelled"


def test_ctrl_c_stops_cleanly_and_the_run_can_be_resumed(cli: Cli) -> None:
    pid = cli.folder / "pid"
    plan = cli.plan(f"""
        version: 1
        name: interrupted
        steps:
          - {{id: a, run: "echo once >> {cli.folder}/effects"}}
          - {{id: b, run: "[ $RECOUP_ATTEMPT -gt 1 ] || {{ echo $$ > {pid}.tmp; mv {pid}.tmp {pid}; sleep 600; }}"}}
    """)
    driver = cli.start("run", plan)
    wait_for(pid)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(60) == 130
    assert not alive(int(pid.read_text()))
    assert cli("show", "last", "--json").json["interrupted"] is True
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.err
    assert result.document["takeovers"] == 0
    assert (cli.folder / "effects").read_text() == "once\n"


def test_two_drivers_never_work_on_one_run(cli: Cli) -> None:
    started = cli.folder / "started"
    plan = cli.plan(f"""
        version: 1
        name: held
        steps: [{{id: a, run: "touch {started}; sleep 600"}}]
    """)
    driver = cli.start("run", plan)
    wait_for(started)
    second = cli("resume", "last")
    assert second.code == 2
    assert "being driven" in second.err
    kill(driver)


def test_a_frozen_driver_is_replaced_and_refused_when_it_wakes(cli: Cli) -> None:
    """F6: its steps are dead before the new owner begins, and its epoch is stale ever after."""
    cli.env |= {"RECOUP_LEASE_S": "3", "RECOUP_HEARTBEAT_S": "0.5"}
    pids = cli.folder / "pids"
    plan = cli.plan(f"""
        version: 1
        name: frozen
        steps: [{{id: a, run: "echo $$ >> {pids}; [ $RECOUP_ATTEMPT -gt 1 ] || sleep 600"}}, {{id: b, run: "true"}}]
    """)
    driver = cli.start("run", plan, "--json")
    wait_for(pids)
    cli.freeze(driver)
    try:
        deadline = time.monotonic() + 60
        result = cli("resume", "last", "--json")
        while result.code == 2 and time.monotonic() < deadline:
            time.sleep(0.3)
            result = cli("resume", "last", "--json")
        assert result.code == 0, result.err
        assert not alive(int(pids.read_text().splitlines()[0]))
        head = result.events[-1]["seq"]
    finally:
        driver.send_signal(signal.SIGCONT)
    _, err = driver.communicate(timeout=60)
    assert driver.returncode == 75, "nothing of the plan has failed"
    assert "another driver" in err and "has taken run" in err
    assert f"recoup show {result.document['runId']}" in err and "recoup resume" not in err
    assert cli("events", "last", "--json").lines[-1]["seq"] == head
    assert result.document["takeovers"] == 1


@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_frozen_driver_that_nobody_replaced_says_so_and_how_to_go_on(cli: Cli, kind: str) -> None:
    cli.env |= {"RECOUP_LEASE_S": "2", "RECOUP_HEARTBEAT_S": "0.4"}
    begun = cli.folder / "begun"
    plan = cli.plan(f"""
        version: 1
        name: frozen
        steps: [{{id: a, run: "touch {begun}; [ $RECOUP_ATTEMPT -gt 1 ] || sleep 600"}}]
    """)
    driver = cli.start("run", plan, *(["--json"] if kind == "json" else []))
    wait_for(begun)
    cli.freeze(driver)
    run_id = cli("show", "last", "--json").json["runId"]
    wait_for_the_end_of_the_lease(cli, run_id)
    driver.send_signal(signal.SIGCONT)
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 75, "nothing of the plan has failed"
    assert "for longer than its lease of 2 s" in err and f"nobody has taken run {run_id} over" in err
    assert f"recoup resume {run_id}" in err
    if kind == "json":
        said = json.loads(out.splitlines()[-1])
        assert (said["exitCode"], f"recoup resume {run_id}" in said["hint"]) == (75, True)
    resumed = cli("resume", run_id, "--json")
    assert (resumed.code, resumed.document["status"]) == (0, "succeeded")


def test_a_deploy_whose_check_already_held_is_not_taken_for_done(cli: Cli) -> None:
    (cli.folder / "deployed").touch()
    started = cli.folder / "started"
    plan = cli.plan(f"""
        version: 1
        name: deploy
        steps:
          - id: deploy
            run: "touch {started}; [ $RECOUP_ATTEMPT -gt 1 ] || sleep 600"
            expect: [{{file: deployed}}]
            repeat: never
    """)
    driver = cli.start("run", plan)
    wait_for(started)
    kill(driver)
    result = cli("resume", "last", "--json")
    assert result.code == 5
    assert result.document["status"] == "escalated"
    settled = cli(
        "control", "last", "settle", "--as", "done", "--step", "deploy", "--reason", "seen", "--json"
    )
    assert settled.code == 0, settled.err
    assert cli("resume", "last").code == 0
    assert cli.ledger()["knownGoodPrefixLength"] == 1


@pytest.mark.parametrize("missing", ["stdout: PAID", "exit: 0", "diff: nonempty, paths: [other]"])
def test_a_step_that_was_ended_at_its_timeout_is_done_only_if_all_that_it_expects_holds(
    cli: Cli, missing: str
) -> None:
    """What it printed until then is known. Here it has not printed, not exited, not changed what it must."""
    plan = cli.plan(f"""
        version: 1
        name: pay
        workspace: {{folder: ./source}}
        steps:
          - id: pay
            run: "echo asking the bank | tee receipt; exec sleep 600"
            timeout: 2s
            expect: [{{file: receipt}}, {{{missing}}}]
            repeat: never
    """)
    (cli.folder / "source").mkdir()
    result = cli("run", plan, "--json")
    assert result.code == 5, result.out
    assert result.document["status"] == "escalated", "nobody knows whether it paid"
    assert result.payloads("task.step.attempt.finished") == []


def test_a_lost_step_whose_check_became_true_is_done(cli: Cli) -> None:
    done = cli.folder / "deployed"
    plan = cli.plan(f"""
        version: 1
        name: deploy
        steps:
          - id: deploy
            run: "echo once >> {cli.folder}/effects; touch {done}; sleep 600"
            expect: [{{file: deployed}}]
            repeat: never
    """)
    driver = cli.start("run", plan)
    wait_for(done)
    kill(driver)
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.err
    assert result.payloads("task.step.attempt.finished")[0]["settledBy"] == "already_done"
    assert (cli.folder / "effects").read_text() == "once\n"


def test_a_dead_owner_is_replaced_at_once(cli: Cli) -> None:
    started = cli.folder / "started"
    plan = cli.plan(f"""
        version: 1
        name: dead
        steps: [{{id: a, run: "[ $RECOUP_ATTEMPT -gt 1 ] || {{ touch {started}; sleep 600; }}"}}]
    """)
    cli.env |= {"RECOUP_LEASE_S": "600", "RECOUP_HEARTBEAT_S": "3"}
    driver = cli.start("run", plan)
    wait_for(started)
    kill(driver)
    result = cli("resume", "last", "--json", timeout=60)
    assert result.code == 0, result.err
    assert (result.document["takeovers"], cli.ledger()["steps"][0]["attempts"]) == (1, 2)


@pytest.mark.parametrize("damage", ["altered manifest", "missing manifest", "missing objects"])
def test_a_broken_checkpoint_moves_the_frontier_back_with_a_reason(cli: Cli, repo: Path, damage: str) -> None:
    started = cli.folder / "started"
    plan = cli.plan(f"""
        version: 1
        name: damaged
        workspace: {{git: ./repo}}
        steps:
          - {{id: one, run: "echo 1 > one; echo one >> {cli.folder}/effects"}}
          - {{id: two, run: "head -c 100000 /dev/urandom > two; echo two >> {cli.folder}/effects"}}
          - {{id: three, run: "cat one two > all; [ $RECOUP_ATTEMPT -gt 1 ] || {{ touch {started}; sleep 600; }}"}}
    """)
    driver = cli.start("run", plan)
    wait_for(started)
    kill(driver)
    run_id = cli("show", "last", "--json").json["runId"]
    run = cli.run_dir(run_id)
    stored = [e["payload"] for e in cli("events", run_id, "--json").lines if e["type"] == "checkpoint.stored"]
    shutil.rmtree(run / "workspaces")
    spoil(run / "private", damage, stored[1]["snapshot"])
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.out + result.err
    invalidated = result.payloads("task.step.invalidated")
    assert [p["stepId"] for p in invalidated] == ["two"]
    assert "checkpoint is broken" in invalidated[0]["reason"]
    assert (cli.folder / "effects").read_text().split() == ["one", "two", "two"]
    assert cli.ledger()["knownGoodPrefixLength"] == 3


def spoil(private: Path, damage: str, snapshot: dict[str, str]) -> None:
    hexed = snapshot["manifest"].removeprefix("sha256:")
    (manifest,) = [path for path in private.rglob("*") if hexed in path.name]
    if damage == "missing manifest":
        manifest.unlink()
    elif damage == "altered manifest":
        manifest.write_text(manifest.read_text().replace(snapshot["tree"], snapshot["tree"][::-1]))
    else:
        largest = max(
            (p for p in private.rglob("objects/**/*") if p.is_file()), key=lambda p: p.stat().st_size
        )
        assert largest.stat().st_size >= 100_000
        largest.unlink()


def test_the_users_repository_may_vanish_during_a_run(cli: Cli, repo: Path) -> None:
    started = cli.folder / "started"
    plan = cli.plan(f"""
        version: 1
        name: gone
        workspace: {{git: ./repo}}
        steps:
          - {{id: one, run: "echo 1 > one"}}
          - {{id: two, run: "cat one README; [ $RECOUP_ATTEMPT -gt 1 ] || {{ touch {started}; sleep 600; }}"}}
    """)
    driver = cli.start("run", plan)
    wait_for(started)
    kill(driver)
    run_id = cli("show", "last", "--json").json["runId"]
    shutil.rmtree(repo)
    shutil.rmtree(cli.run_dir(run_id) / "workspaces")
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.err
    assert result.payloads("checkpoint.restored")[0]["reason"] == "the workspace is gone"


def test_after_a_reboot_files_of_passed_steps_come_from_their_checkpoint(cli: Cli, repo: Path) -> None:
    """A power cut loses what was not on the disk yet: of the workspace, and not of checkpoints."""
    started = cli.folder / "started"
    plan = cli.plan(f"""
        version: 1
        name: rebooted
        workspace: {{git: ./repo}}
        steps:
          - {{id: one, run: "echo 1 > one"}}
          - id: two
            run: "[ $RECOUP_ATTEMPT -gt 1 ] || {{ touch {started}; sleep 600; }}; cat one"
            expect: [{{stdout: "1"}}]
    """)
    driver = cli.start("run", plan)
    wait_for(started)
    kill(driver)
    run_id = cli("show", "last", "--json").json["runId"]
    (cli.run_dir(run_id) / "workspace" / "one").write_bytes(b"")
    pretend_a_reboot(cli.home / "ledger.db")
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.err
    (restored,) = result.payloads("checkpoint.restored")
    assert "restarted" in restored["reason"]
    assert (cli.run_dir(run_id) / "workspace" / "one").read_text() == "1\n"


def pretend_a_reboot(ledger: Path) -> None:
    """All that is recorded happened in another boot."""
    now = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    before = "0" * 8 + now[8:]
    with contextlib.closing(sqlite3.connect(ledger)) as connection, connection:
        for table, column in (
            *(("events", "boot_id"), ("events", "payload"), ("leases", "boot_id"), ("leases", "owner")),
        ):
            connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (now, before))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_reader_that_goes_away_does_not_end_the_work(cli: Cli) -> None:
    plan = cli.plan(f"""
        version: 1
        name: unread
        steps: [{{id: a, run: "sleep 0.3"}}, {{id: b, run: "touch {cli.folder}/done"}}]
    """)
    driver = cli.start("run", plan, "--json")
    assert driver.stdout is not None
    driver.stdout.readline()
    driver.stdout.close()
    driver.wait(60)
    assert (cli.folder / "done").exists()
    assert cli("show", "last", "--json").json["status"] == "succeeded"


def test_a_new_delivery_begins_in_a_clean_workspace(cli: Cli, repo: Path) -> None:
    plan = cli.plan("""
        version: 1
        name: dirty
        workspace: {git: ./repo}
        steps:
          - {id: one, run: "echo 1 > one"}
          - id: two
            run: |
              if [ "$RECOUP_ATTEMPT" -gt 3 ]; then test ! -e junk; exit; fi
              words=(none first second third)
              echo "$RECOUP_ATTEMPT" >> junk
              echo "connection reset by peer: ${words[RECOUP_ATTEMPT]}" >&2
              exit 1
    """)
    assert cli("run", plan).code == 75
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.err
    assert result.document["hardResets"] == 0
    assert result.payloads("checkpoint.restored")[0]["stepIndex"] == 0


TAKES_TOO_MUCH = {
    "too_many_processes": (
        "{max_processes: 20}",
        "for i in $(seq 60); do setsid sleep 60 & done; wait",
        "processes at once, and the limit is 20: raise `max_processes`",
    ),
    "out_of_memory": (
        "{max_memory: 64MiB}",
        "python3 -c 'import time; held = bytearray(200 << 20); held[::4096] = held[1::4096]; time.sleep(60)'",
        "and the limit is 67.11 MB: raise `max_memory`",
    ),
}


@pytest.mark.parametrize("kind", TAKES_TOO_MUCH)
def test_a_step_that_takes_too_much_is_killed_retried_once_and_given_up(
    cli: Cli, repo: Path, kind: str
) -> None:
    limits, script, words = TAKES_TOO_MUCH[kind]
    plan = cli.plan(f"""
        version: 1
        name: greedy
        defaults: {limits}
        steps:
          - id: grow
            timeout: 60s
            run: {json.dumps(script)}
    """)
    result = cli("run", plan, "--json", timeout=110)
    assert result.code == 1
    assert (result.document["status"], result.document["failureKind"]) == ("failed", kind)
    assert result.document["failureClass"] == "unknown"
    failed = result.payloads("task.step.attempt.failed")
    assert [(one["failureKind"], one["failureClass"]) for one in failed] == [(kind, "unknown")] * 2
    for said in (*(one["summary"] for one in failed), result.document["reason"]):
        assert "killed by Recoup" in said and words in said
    (given_up,) = result.payloads("task.self_heal.exhausted")
    assert (given_up["failureClass"], given_up["retryable"]) == ("unknown", False)
    assert given_up["reason"].startswith("unknown_retries_max")
