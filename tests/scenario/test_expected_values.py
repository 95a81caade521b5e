"""What a step expects may name inputs and outputs: over gates, resumes, reuse, kills, and with secrets."""

from __future__ import annotations

import secrets
from pathlib import Path

from tests.scenario.conftest import Cli, kill, wait_for
from tests.scenario.test_secrets import kept_files

PLAN = """
version: 1
name: approve
inputs: {invoice: {required: true}}
steps:
  - id: read
    run: echo "total=100" >> "$RECOUP_OUTPUT"
  - id: approve
    run: echo "Approved ${{ inputs.invoice }} ${{ steps.read.outputs.total }}" | tee -a done
    expect:
      - stdout: "Approved ${{ inputs.invoice }}"
      - run: grep -qx "Approved ${{ inputs.invoice }} ${{ steps.read.outputs.total }}" done
      - file: done
        contains: {regex: "^Approved ${{ inputs.invoice }}"}
"""


def test_a_check_compares_with_the_values_of_this_run(cli: Cli) -> None:
    plan = cli.plan(PLAN)
    assert cli("check", plan).code == 0
    assert cli("run", plan, "--input", "invoice=INV-1").code == 0
    other = cli.plan(
        PLAN.replace('echo "Approved ${{ inputs.invoice }}', 'echo "Approved INV-9'), "other.yaml"
    )
    result = cli("run", other, "--input", "invoice=INV-2", "--json")
    assert result.document["status"] == "failed"
    assert "stdout: Approved INV-2: stdout does not contain" in result.document["reason"]


def test_a_gate_and_a_resume_ask_with_the_same_values(cli: Cli) -> None:
    gate = "  - {id: gate, approve: Pay?}\n  - {id: pay, run: 'true', expect: [{file: '${{ inputs.invoice }}', absent: true}]}\n"
    plan = cli.plan(PLAN + gate)
    assert cli("run", plan, "--input", "invoice=INV-1").code == 5
    assert cli("control", "last", "approve", "--reason", "fine").code == 0
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.err
    assert [one["stepId"] for one in result.payloads("task.step.attempt.started")] == ["pay"]


def test_a_step_is_reused_only_if_it_expected_the_same_values(cli: Cli) -> None:
    text = """
        version: 1
        name: report
        workspace: {folder: ./source}
        inputs: {rows: {required: true}}
        steps:
          - id: build
            run: seq 3 | tee report
            expect: [{run: 'test "$(wc -l < report)" -le ${{ inputs.rows }}'}]
          - {id: publish, run: "exit 9", max_attempts: 1}
    """
    (cli.folder / "source").mkdir()
    plan = cli.plan(text)
    assert cli("run", plan, "--input", "rows=3").code == 1
    again = cli("run", plan, "--reuse", "last", "--input", "rows=3", "--json")
    assert [one["stepId"] for one in again.payloads("task.step.reused")] == ["build"]
    other = cli("run", plan, "--reuse", "last", "--input", "rows=2", "--json")
    assert other.payloads("task.step.reused") == []
    assert "run: test" in other.document["reason"], "what is expected now does not hold"


def test_a_lost_step_is_done_if_what_it_expected_of_these_values_holds(cli: Cli) -> None:
    plan = cli.plan("""
        version: 1
        name: deploy
        inputs: {app: {required: true}}
        steps:
          - id: deploy
            run: 'echo once >> effects; touch ${{ inputs.app }}.deployed; sleep 600'
            expect: [{file: "${{ inputs.app }}.deployed"}]
            repeat: never
    """)
    driver = cli.start("run", plan, "--input", "app=shop")
    wait_for(cli.folder / "shop.deployed")
    kill(driver)
    result = cli("resume", "last", "--json")
    assert result.code == 0, result.err
    (finished,) = result.payloads("task.step.attempt.finished")
    assert finished["settledBy"] == "already_done"
    assert (cli.folder / "effects").read_text() == "once\n"


def test_an_expected_secret_is_neither_kept_nor_in_any_arguments(cli: Cli) -> None:
    pin = "pin-" + secrets.token_hex(8)
    plan = cli.plan("""
        version: 1
        name: hidden
        inputs: {pin: {secret: true, required: true}}
        steps:
          - id: show
            run: 'printf "PIN %s" "$PIN"'
            env: {PIN: "${{ inputs.pin }}"}
            expect:
              - stdout: "PIN ${{ inputs.pin }}"
              - run: "cat /proc/$$/cmdline > arguments; test ${#RECOUP_VALUE_1} -gt 4; : ${{ inputs.pin }}"
              - stdout: "not ${{ inputs.pin }}"
    """)
    result = cli("run", plan, "--input", f"pin={pin}", "--json")
    assert result.document["status"] == "failed"
    assert "stdout: not [redacted]" in result.document["reason"]
    assert pin not in result.out + result.err
    assert pin not in (cli.folder / "arguments").read_text()
    assert not [path for path in kept_files(cli.home) if pin.encode() in path.read_bytes()]


def test_a_secret_too_short_to_be_masked_is_compared_in_a_script_only(cli: Cli) -> None:
    text = """
        version: 1
        name: short
        steps:
          - id: make
            run: echo "pin=42" >> "$RECOUP_OUTPUT"
            outputs: {pin: {secret: true}}
          - id: use
            run: echo 42
            expect: [EXPECT]
    """
    script = cli.plan(
        text.replace("EXPECT", "{run: 'test ${{ steps.make.outputs.pin }} = 42'}"), "script.yaml"
    )
    assert cli("run", script).code == 0
    shown = cli(
        "run", cli.plan(text.replace("EXPECT", "{stdout: '${{ steps.make.outputs.pin }}'}")), "--json"
    )
    assert shown.document["status"] == "failed"
    assert "too short to be masked" in shown.document["reason"]


def test_a_broken_script_of_a_check_is_found_before_anything_runs(cli: Cli) -> None:
    plan = cli.plan("{version: 1, name: w, steps: [{run: 'true', expect: [{run: 'if'}]}]}")
    result = cli("check", plan)
    assert result.code == 3
    assert "steps[0].expect[0].run" in result.err


def test_handlers_expect_values_too(cli: Cli, tmp_path: Path) -> None:
    plan = cli.plan("""
        version: 1
        name: rescued
        inputs: {word: {default: "right"}}
        steps:
          - id: a
            run: exit 1
            max_attempts: 1
            rescue: [{run: "echo right | tee word", expect: [{stdout: "${{ inputs.word }}"}]}]
            expect: [{run: 'grep -qx ${{ inputs.word }} word'}]
    """)
    assert cli("run", plan).code == 0
    assert cli("run", plan, "--input", "word=wrong").code == 1
