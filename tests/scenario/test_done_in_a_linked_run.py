"""A step that must not be repeated, was done in a run that has ended, and cannot be reused: a person is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenario.conftest import Cli, Result, kill, wait_for
from tests.scenario.fleets import Fleet

PLAN = """
version: 1
name: family
inputs: {to: {default: ann}}
steps:
  - id: pay
    run: echo "paid ${{ inputs.to }}" >> "$JOURNAL"; echo "receipt=42" >> "$RECOUP_OUTPUT"
    repeat: never
  - id: send
    run: test -e "$MENDED" || { echo "permission denied"; exit 1; }; echo "sent ${{ steps.pay.outputs.receipt }}" >> "$JOURNAL"
"""


@pytest.fixture
def journal(cli: Cli) -> Path:
    path = cli.folder / "journal"
    cli.env |= {"JOURNAL": str(path), "MENDED": str(cli.folder / "mended")}
    return path


def failed(cli: Cli, plan: str = PLAN) -> str:
    result = cli("run", cli.plan(plan), "--json")
    assert result.code == 1, result.err
    (cli.folder / "mended").touch()
    return str(result.document["runId"])


def asked(result: Result) -> str:
    assert result.code == 5, result.out + result.err
    return str(result.document["runId"])


def settle(cli: Cli, run: str, how: str, step: str = "pay") -> Result:
    return cli("control", run, "settle", "--step", step, "--as", how, "--reason", "looked")


def lines(journal: Path) -> list[str]:
    return journal.read_text().splitlines()


def expected(result: Result) -> list[str]:
    assert result.code == 0, result.err
    return [step["expected"] for step in result.json["steps"]]


@pytest.mark.parametrize(
    ("answer", "performed"),
    [("done", ["paid ann", "sent 42"]), ("not-done", ["paid ann", "paid ann", "sent 42"])],
)
def test_a_person_says_whether_what_an_ended_run_did_counts(
    cli: Cli, journal: Path, answer: str, performed: list[str]
) -> None:
    first = failed(cli)
    shown = cli("resume", first, "--dry-run")
    assert (shown.code, f"was done in run {first} and must not be repeated" in shown.out) == (0, True)
    assert "  ?   0  pay " in shown.out
    assert expected(cli("resume", first, "--dry-run", "--json")) == ["asked", "performed"]
    second = asked(cli("resume", first, "--json"))
    state = cli("show", second, "--json").json
    assert f"step pay was done in run {first} and must not be repeated" in state["reason"]
    assert lines(journal) == ["paid ann"], "nothing before the answer"
    assert cli("resume", second).code == 5
    assert settle(cli, second, answer).code == 0
    assert cli("resume", second).code == 0
    assert lines(journal) == performed


def test_the_question_survives_a_driver_that_is_killed(cli: Cli, journal: Path) -> None:
    first = failed(cli)
    held = 'test -e "$JOURNAL.begun" || { touch "$JOURNAL.begun"; sleep 1000; }'
    slow = PLAN.replace("steps:\n", f"steps:\n  - {{id: wait, run: '{held}'}}\n")
    driver = cli.start("run", cli.plan(slow, "slow.yaml"), "--reuse", first)
    wait_for(Path(f"{journal}.begun"))
    kill(driver)
    second = cli("show", "last", "--json").json["runId"]
    assert expected(cli("resume", second, "--dry-run", "--json")) == ["performed", "asked", "performed"]
    assert asked(cli("resume", second, "--json")) == second
    back = cli("resume", second, "--from-step", "pay")
    assert (back.code, "nobody knows whether pay was done: settle it first" in back.err) == (2, True)
    assert lines(journal) == ["paid ann"]
    assert (settle(cli, second, "done").code, cli("resume", second).code) == (0, 0)
    assert lines(journal) == ["paid ann", "sent 42"]


def test_other_arguments_are_another_deed_and_nobody_is_asked(cli: Cli, journal: Path) -> None:
    first = failed(cli)
    done = cli("run", cli.plan(PLAN), "--reuse", first, "--input", "to=bob")
    assert (done.code, lines(journal)) == (0, ["paid ann", "paid bob", "sent 42"])


def test_arguments_that_are_known_only_later_are_compared_when_they_are(cli: Cli, journal: Path) -> None:
    plan = PLAN.replace(
        "steps:\n", "steps:\n  - {id: who, run: 'echo to=$TO >> \"$RECOUP_OUTPUT\"'}\n"
    ).replace("inputs.to", "steps.who.outputs.to")
    cli.env["TO"] = "ann"
    first = failed(cli, plan)
    cli.env["TO"] = "bob"
    assert expected(cli("resume", first, "--dry-run", "--json")) == ["performed", "asked", "performed"]
    assert cli("resume", first).code == 0
    assert lines(journal) == ["paid ann", "paid bob", "sent 42"]
    cli.env["TO"] = "ann"
    asked(cli("resume", first, "--from-step", "who", "--json"))
    assert lines(journal) == ["paid ann", "paid bob", "sent 42"]


def test_two_linked_runs_perform_it_once_for_each_answer_and_never_one_over_the_other(
    cli: Cli, journal: Path
) -> None:
    first = failed(cli)
    second, third = asked(cli("resume", first, "--json")), asked(cli("resume", first, "--json"))
    assert (settle(cli, second, "not-done").code, cli("resume", second).code) == (0, 0)
    assert lines(journal) == ["paid ann", "paid ann", "sent 42"]
    assert settle(cli, third, "not-done").code == 0
    late = cli("resume", third)
    assert (late.code, f"was done, or may have been, in run {second}" in late.err) == (2, True)
    assert lines(journal) == ["paid ann", "paid ann", "sent 42"]


def test_a_run_that_performed_it_after_an_answer_of_its_own_is_not_overruled(cli: Cli, journal: Path) -> None:
    """The question was about what the first run had done by then, not about what it does later."""
    broken = PLAN.replace("repeat: never", "repeat: never\n    max_attempts: 1\n    timeout: 1s").replace(
        'echo "paid', 'test -e "$MENDED" || sleep 20; echo "paid'
    )
    assert cli("run", cli.plan(broken)).code == 5
    first = cli("show", "last", "--json").json["runId"]
    (cli.folder / "mended").touch()
    second = asked(cli("run", cli.plan(broken), "--reuse", first, "--json"))
    assert "may have been done" in cli("show", second, "--json").json["reason"]
    assert (settle(cli, first, "not-done").code, cli("resume", first).code) == (0, 0)
    assert settle(cli, second, "not-done").code == 0
    late = cli("resume", second)
    assert (late.code, lines(journal)) == (2, ["paid ann", "sent 42"]), late.out


def test_two_workers_ask_once_and_perform_it_once(fleet: Fleet) -> None:
    fleet.cli.env["MENDED"] = str(fleet.cli.folder / "mended")
    plan = fleet.cli.plan(PLAN)
    first = fleet.submit(plan)
    workers = [fleet.worker(number=number) for number in range(2)]
    fleet.until(first, "failed")
    (fleet.cli.folder / "mended").touch()
    second, third = (fleet.submit(plan, "--reuse", first) for _ in range(2))
    for run in (second, third):
        fleet.until(run, "escalated")
    assert fleet.lines() == ["paid ann"]
    kill(workers.pop())
    assert settle(fleet.cli, second, "not-done").code == 0
    fleet.until(second, "succeeded")
    assert settle(fleet.cli, third, "not-done").code == 0
    ended = fleet.until(third, "failed")
    assert f"run {second}, which is linked to this one, has begun it" in ended["reason"]
    assert fleet.lines() == ["paid ann", "paid ann", "sent 42"]


# What `--dry-run` says of a run that goes on itself


def test_a_dry_run_says_that_a_person_is_asked_about_an_unknown_outcome(cli: Cli, journal: Path) -> None:
    slow = PLAN.replace('echo "paid', 'touch "$JOURNAL.begun"; sleep 1000; echo "paid')
    driver = cli.start("run", cli.plan(slow))
    wait_for(Path(f"{journal}.begun"))
    busy = cli("resume", "last", "--dry-run")
    assert (busy.code, f"is being driven by process {driver.pid} on this machine" in busy.err) == (2, True), (
        "as without --dry-run"
    )
    kill(driver)
    words = "its outcome is unknown and it must not be repeated: a person is asked"
    for _ in range(2):  # before the person is asked, and while they are
        shown = cli("resume", "last", "--dry-run")
        assert (shown.code, words in shown.out) == (0, True), shown.out
        assert "  ?   0  pay " in shown.out
        assert expected(cli("resume", "last", "--dry-run", "--json")) == ["asked", "performed"]
        assert cli("resume", "last").code == 5
    assert settle(cli, "last", "done").code == 2, "its receipt is not known"
