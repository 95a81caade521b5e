"""Where promises are usually broken: interrupted checks, hostile files, secrets in odd places, settled steps."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli, kill, wait_for
from tests.scenario.test_secrets import kept_files


def kept(cli: Cli) -> bytes:
    return b"".join(path.read_bytes() + path.name.encode() for path in kept_files(cli.home))


# Checks that did not come to an end


def test_a_precheck_that_was_interrupted_proves_nothing(cli: Cli) -> None:
    """Otherwise a step that failed would be taken for done, because a check was stopped before it could hold."""
    (cli.folder / "deployed").touch()
    plan = cli.plan(f"""
        version: 1
        name: deploy
        steps:
          - id: deploy
            run: "touch {cli.folder}/launched; sleep 600"
            expect: [{{run: "touch {cli.folder}/asked; sleep 1.5; test -f deployed"}}]
            repeat: never
    """)
    driver = cli.start("run", plan)
    wait_for(cli.folder / "asked")
    driver.send_signal(signal.SIGINT)
    assert driver.wait(60) == 130
    driver = cli.start("resume", "last")
    wait_for(cli.folder / "launched")
    kill(driver)
    assert cli("resume", "last").code == 5


def test_a_precheck_that_took_too_long_proves_nothing(cli: Cli) -> None:
    (cli.folder / "policy.yaml").write_text("precheck_s: 0.5\n")
    cli.env["RECOUP_POLICY"] = str(cli.folder / "policy.yaml")
    (cli.folder / "deployed").touch()
    plan = cli.plan(f"""
        version: 1
        name: deploy
        steps:
          - id: deploy
            run: sleep 600
            timeout: 1s
            expect: [{{run: "test -e {cli.folder}/quick || {{ touch {cli.folder}/quick; sleep 5; }}; test -f deployed"}}]
            repeat: never
    """)
    result = cli("run", plan, "--json")
    assert result.code == 5
    assert result.payloads("task.step.attempt.started")[0]["prechecks"][0]["held"] is None


# Secrets


@pytest.mark.parametrize(
    "word", ["workflow", "stepIndex", "unverified", "backoff_ms", "run_retries_max", "passed"]
)
def test_a_secret_that_is_a_word_of_ours_does_not_tear_the_ledger(cli: Cli, repo: Path, word: str) -> None:
    cli.env["CACHE_KEY"] = word
    plan = cli.plan(
        "{version: 1, name: plain, workspace: {git: ./repo}, steps: [{id: a, run: echo a > a, expect: [{file: a}]}, {id: b, run: 'exit 9'}]}"
    )
    assert cli("run", plan).code == 75
    assert cli("resume", "last").code in (1, 75)
    assert cli("runs", "--json").code == 0
    assert cli.ledger()["knownGoodPrefixLength"] == 1


def test_a_short_secret_whose_digits_stand_in_a_tree_does_not_tear_the_run(cli: Cli, repo: Path) -> None:
    plan = cli.plan(
        "{version: 1, name: pin, inputs: {pin: {secret: true}}, workspace: {git: ./repo}, steps: [{id: a, run: echo 1 > a}, {id: b, run: echo 2 > b}]}"
    )
    assert cli("run", plan, "--input", "pin=99999").code == 0
    tree = cli.ledger()["steps"][0]["checkpoint"]
    assert cli("run", plan, "--input", f"pin={tree[8:14]}").code == 0
    assert cli.ledger()["steps"][0]["checkpoint"] == tree


def test_a_secret_in_a_name_is_refused(cli: Cli) -> None:
    cli.env["DEPLOY_AUTH"] = "production"
    plan = cli.plan("{version: 1, name: x, steps: [{id: production-a, run: 'true'}]}")
    result = cli("run", plan)
    assert result.code == 3
    assert "DEPLOY_AUTH" in result.err
    assert cli("runs", "--json").json == []
    assert not list(cli.home.glob("runs/*"))


def test_a_long_secret_is_not_cut_before_it_is_redacted(cli: Cli) -> None:
    token = secrets.token_hex(160)
    cli.env["LONG_TOKEN"] = token
    (cli.folder / "auth.json").write_text(json.dumps({"auth": token}))
    plan = cli.plan("""
        version: 1
        name: cut
        steps:
          - {id: json, run: "true", expect: [{json: auth.json, path: auth}]}
          - {id: run, run: "true", max_attempts: 1, expect: [{run: "echo bad token $LONG_TOKEN; exit 1"}, {json: auth.json, path: auth, equals: no}]}
    """)
    assert cli("run", plan).code == 1
    data = kept(cli)
    assert not [start for start in range(0, 300, 20) if token[start : start + 20].encode() in data]


def test_a_secret_output_is_known_before_anything_of_it_is_stored(cli: Cli, repo: Path) -> None:
    plan = cli.plan("""
        version: 1
        name: late
        workspace: {git: ./repo}
        steps:
          - id: login
            run: |
              token="JT-$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n')"
              echo "token: $token"; echo "{\\"t\\": \\"$token\\"}" > t.json
              cp t.json "$OUTSIDE"
            outputs: {tok: {regex: "token: (.*)", secret: true}}
            expect: [{json: t.json, path: t}, {stdout: token}]
          - {id: use, run: "test -n '${{ steps.login.outputs.tok }}'"}
    """)
    result = cli("run", plan, "--json", env={"OUTSIDE": str(cli.folder / "outside.json")})
    assert result.code == 0, result.err
    token = json.loads((cli.folder / "outside.json").read_text())["t"]
    assert token.encode() not in kept(cli)
    assert token not in result.out
    run = cli.run_dir(result.document["runId"])
    private = [p for p in (run / "private" / "outputs").rglob("*") if p.is_file()]
    assert not [p for p in private if token.encode() in p.read_bytes()]
    assert result.payloads("secret.found")[0]["where"] == "t.json"


def test_a_secret_is_still_hidden_when_the_run_is_resumed_without_it(cli: Cli) -> None:
    value = "hunter2-" + secrets.token_hex(6)
    plan = cli.plan("""
        version: 1
        name: forgetful
        secrets: [DEPLOY_SETTING]
        steps:
          - id: a
            run: |
              echo "$DEPLOY_SETTING" >> kept; cat kept
              words=(none first second third)
              [ "$RECOUP_ATTEMPT" -gt 3 ] || { echo "connection reset by peer: ${words[RECOUP_ATTEMPT]}" >&2; exit 1; }
    """)
    assert cli("run", plan, env={"DEPLOY_SETTING": value}).code == 75
    assert cli("resume", "last").code == 0
    assert value.encode() not in kept(cli)


def test_an_unset_secret_is_pointed_out(cli: Cli) -> None:
    plan = cli.plan("{version: 1, name: x, secrets: [API_TOKN], steps: [{id: a, run: 'true'}]}")
    assert "API_TOKN is not set" in cli("check", plan).out
    assert "API_TOKN is not set" in cli("run", plan).err


# Files that others wrote


@pytest.mark.parametrize(
    ("run", "more", "kind"),
    [
        ("rm $RECOUP_OUTPUT; mkfifo $RECOUP_OUTPUT", "", None),
        ("mkfifo q", "expect: [{file: q, contains: x}]", "postcondition_failed"),
        ('printf \'{"a": "\\\\ud83d"}\' > f', "outputs: {a: {json: f, path: a}}", "output_invalid"),
        (
            "head -c 200000 /dev/zero | tr '\\\\0' '[' > f",
            "outputs: {a: {json: f, path: a}}",
            "output_invalid",
        ),
        ("true", "expect: [{file: " + "n" * 300 + "}]", "postcondition_failed"),
    ],
    ids=["fifo as output", "fifo", "surrogate", "deep", "long name"],
)
def test_odd_files_are_failures_of_the_step_and_nothing_worse(
    cli: Cli, run: str, more: str, kind: str | None
) -> None:
    plan = cli.plan(f"""
        version: 1
        name: odd
        steps:
          - id: a
            run: |
              {run}
            timeout: 5s
            max_attempts: 1
            {more}
    """)
    began = time.monotonic()
    result = cli("run", plan, "--json")
    assert "Traceback" not in result.err
    assert result.document["failureKind"] == kind or (kind is None and result.code in (0, 1))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("deed", ["rm -rf $PWD", "rm -rf $PWD; ln -s / $PWD", "rm -rf $PWD; touch $PWD"])
def test_a_step_that_destroys_its_workspace_fails_and_the_run_can_end(
    cli: Cli, repo: Path, deed: str
) -> None:
    plan = cli.plan(
        f"{{version: 1, name: vandal, workspace: {{git: ./repo}}, steps: [{{id: a, run: '{deed}'}}]}}"
    )
    result = cli("run", plan, "--json")
    assert result.code == 1, result.err
    assert result.document["failureKind"] == "workspace_broken"


def test_a_pointer_that_a_step_removed_is_made_again(cli: Cli, repo: Path) -> None:
    started = cli.folder / "started"
    plan = cli.plan(f"""
        version: 1
        name: pointer
        workspace: {{git: ./repo}}
        steps:
          - {{id: a, run: "rm ../../workspace; [ $RECOUP_ATTEMPT -gt 1 ] || {{ touch {started}; sleep 600; }}", expect: [{{run: "true"}}]}}
    """)
    driver = cli.start("run", plan)
    wait_for(started)
    kill(driver)
    result = cli("resume", "last", "--json")
    assert result.code in (0, 75), result.err


# Rebuild, settle, controls


def test_a_rebuild_that_fails_once_leaves_the_prefix_alone(cli: Cli, repo: Path) -> None:
    plan = cli.plan("""
        version: 1
        name: rebuild
        workspace: {git: ./repo}
        steps:
          - {id: deps, run: "[ $RECOUP_ATTEMPT != 2 ] || { echo connection reset by peer >&2; exit 1; }; echo d > deps", rebuild: rerun}
          - {id: mid, run: "echo m > mid"}
          - {id: fix, run: "[ $RECOUP_ATTEMPT != 1 ] || touch junk; if [ -e junk ]; then echo stuck; exit 1; fi"}
    """)
    result = cli("run", plan, "--json")
    assert result.code == 0, result.err
    tried = [(p["stepId"], p["attempt"], p["phase"]) for p in result.payloads("task.step.attempt.started")]
    assert tried == [
        ("deps", 1, "main"),
        ("mid", 1, "main"),
        ("fix", 1, "main"),
        ("fix", 2, "main"),
        ("deps", 2, "rebuild"),
        ("deps", 3, "rebuild"),
        ("fix", 3, "main"),
    ]
    steps = cli.ledger()["steps"]
    assert steps[0]["checkpoint"] != steps[1]["checkpoint"]
    assert not result.payloads("task.step.invalidated")


def test_a_step_settled_as_done_keeps_what_it_wrote(cli: Cli) -> None:
    plan = cli.plan("""
        version: 1
        name: pay
        steps:
          - {id: pay, run: "echo ref=R-77 >> $RECOUP_OUTPUT; sleep 600", timeout: 1s, repeat: never}
          - {id: book, run: "test '${{ steps.pay.outputs.ref }}' = R-77"}
    """)
    assert cli("run", plan).code == 5
    settle = ("control", "last", "settle", "--as", "done", "--reason", "the bank shows it")
    assert cli(*settle).code == 2
    wrong = cli(*settle, "--step", "book")
    assert wrong.code == 2
    assert "pay is" in wrong.out
    assert cli(*settle, "--step", "pay").code == 0
    assert cli("resume", "last").code == 0
    assert cli.ledger()["steps"][0]["outputs"] == {"ref": "R-77"}


def test_a_settle_is_refused_when_an_output_that_is_needed_is_lost(cli: Cli) -> None:
    plan = cli.plan("""
        version: 1
        name: pay
        steps:
          - {id: pay, run: sleep 600, timeout: 1s, repeat: never}
          - {id: book, run: "echo ${{ steps.pay.outputs.ref }}"}
    """)
    assert cli("run", plan).code == 5
    answer = cli("control", "last", "settle", "--as", "done", "--step", "pay", "--reason", "x")
    assert answer.code == 2
    assert "output" in answer.out
    assert cli("resume", "last").code == 5


def test_a_settled_step_whose_workspace_is_lost_gets_no_foreign_checkpoint(cli: Cli, repo: Path) -> None:
    """What another step has left in the workspace since is not what the settled one left there."""
    plan = cli.plan(f"""
        version: 1
        name: foreign
        workspace: {{git: ./repo}}
        steps:
          - {{id: pay, run: "echo paid > paid", repeat: never}}
          - id: fix
            run: |
              ls > {cli.folder}/seen.$RECOUP_ATTEMPT
              cd {cli.home}/runs/$RECOUP_RUN_ID/private/manifests
              if [ $RECOUP_ATTEMPT = 1 ]; then ls -t | head -1 > {cli.folder}/manifest; fi
              if [ $RECOUP_ATTEMPT = 2 ]; then rm "$(cat {cli.folder}/manifest)"; fi
              if [ $RECOUP_ATTEMPT -lt 3 ]; then touch "$OLDPWD/bad"; echo stuck; exit 1; fi
    """)
    result = cli("run", plan, "--json")
    assert result.code == 5, result.out
    assert [p["stepId"] for p in result.payloads("task.step.invalidated")] == ["pay"]
    assert cli("control", "last", "settle", "--as", "done", "--step", "pay", "--reason", "seen").code == 0
    assert cli("resume", "last").code == 0
    assert "bad" not in (cli.folder / "seen.3").read_text().split()


def test_an_id_means_one_control_for_ever(cli: Cli) -> None:
    plan = cli.plan("{version: 1, name: pay, steps: [{id: pay, run: sleep 600, timeout: 1s, repeat: never}]}")
    for _ in range(2):
        assert cli("run", plan).code == 5
    second, first = [run["runId"] for run in cli("runs", "--json").json]
    assert cli("control", first, "cancel", "--reason", "x", "--id", "same").code == 0
    assert cli("control", first, "cancel", "--reason", "x", "--id", "same").code == 0
    mixed = cli("control", second, "cancel", "--reason", "x", "--id", "same")
    assert mixed.code == 2
    assert "another control" in mixed.err
    assert cli("show", second, "--json").json["status"] == "escalated"


def test_a_refused_input_leaves_nothing_behind(cli: Cli) -> None:
    plan = cli.plan("{version: 1, name: x, inputs: {pin: {secret: true}}, steps: [{id: a, run: 'true'}]}")
    assert cli("run", plan, "--input", "pin=1").code == 2
    assert cli("run", plan, "--input", "pin=12345", "--input", "pin=2").code == 2
    assert not list(cli.home.glob("runs/*"))


def test_equal_means_equal_in_json(cli: Cli) -> None:
    (cli.folder / "f.json").write_text('{"ok": true}')
    plan = cli.plan(
        "{version: 1, name: x, steps: [{id: a, run: 'true', max_attempts: 1, expect: [{json: f.json, path: ok, equals: 1}]}]}"
    )
    assert cli("run", plan).code != 0


def test_following_a_run_that_nobody_drives_ends(cli: Cli) -> None:
    started = cli.folder / "started"
    plan = cli.plan(f"{{version: 1, name: x, steps: [{{id: a, run: 'touch {started}; sleep 600'}}]}}")
    driver = cli.start("run", plan)
    wait_for(started)
    kill(driver)
    result = cli("events", "last", "--follow", timeout=20)
    assert "recoup resume" in result.err
    assert "stopped" in cli("runs").out


def test_a_script_with_a_syntax_error_does_not_pass_the_check(cli: Cli) -> None:
    plan = cli.plan("{version: 1, name: x, steps: [{id: a, run: 'echo \"hi'}]}")
    result = cli("check", plan)
    assert result.code == 3
    assert "steps[0].run" in result.err


def test_uncommitted_changes_are_pointed_out(cli: Cli, repo: Path) -> None:
    (repo / "README").write_text("changed\n")
    (repo / "new").touch()
    plan = cli.plan("{version: 1, name: x, workspace: {git: ./repo}, steps: [{id: a, run: 'true'}]}")
    assert "2 files are changed or new" in cli("check", plan).out
    assert "2 files are changed or new" in cli("run", plan).err
    shutil.rmtree(cli.home)
