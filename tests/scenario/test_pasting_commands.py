"""Commands that a message names can be pasted as they are."""

from __future__ import annotations

import re
import shlex

import pytest
from tests.scenario.conftest import Cli

GATE = "version: 1\nname: gate\nsteps: [{id: ask, approve: {message: 'Go?'}}]\n"
PAY = "version: 1\nname: pay\nsteps: [{id: pay, repeat: never, idle_timeout: 1s, run: sleep 60}]\n"
COMMAND = re.compile(r"recoup control .*? --reason '\.\.\.'")


def commands_in(text: str) -> list[str]:
    return COMMAND.findall(text)


@pytest.mark.parametrize(("answer", "status"), [("approve", "waiting"), ("reject", "failed")])
def test_what_a_gate_prints_is_pasted_and_done(cli: Cli, answer: str, status: str) -> None:
    done = cli("run", cli.plan(GATE))
    assert done.code == 5 and "|" not in done.out + done.err
    lines = [line.strip().removeprefix("next:").strip() for line in done.out.splitlines()]
    (command,) = [line for line in lines if COMMAND.fullmatch(line) and f" {answer} " in line]
    assert cli(*shlex.split(command)[1:]).code == 0
    assert cli("show", "last", "--json").json["status"] == status


def test_every_place_that_names_a_gate_names_both_answers_whole(cli: Cli) -> None:
    cli("run", cli.plan(GATE))
    for words in (["show", "last"], ["escalations", "list"], ["events", "last"], ["runs"]):
        said = cli(*words).out
        if words != ["runs"]:  # a list cuts reasons
            assert [shlex.split(one)[3] for one in commands_in(said)][:2] == ["approve", "reject"], said
        assert "approve|reject" not in said


def test_runs_at_a_gate_are_among_what_waits_for_a_person(cli: Cli) -> None:
    assert "nothing waits" in cli("escalations", "list").err
    cli("run", cli.plan(GATE))
    (gate,) = cli("escalations", "list", "--json").json
    assert (gate["source"], gate["id"], gate["state"]) == ("gate", None, "open")
    assert "ask waits for an approval" in gate["reason"]
    assert cli("escalations", "list", "--source", "probe", "--json").json == []
    assert cli("escalations", "list", "--state", "resolved", "--json").json == []


def test_both_answers_to_an_escalation_are_named_whole(cli: Cli) -> None:
    assert cli("run", cli.plan(PAY)).code == 5
    said = cli("show", "last").out
    assert [shlex.split(one)[-3] for one in commands_in(said.partition("next ")[2])] == ["done", "not-done"]


def test_who_resumes_a_run_that_succeeded_is_told_that_there_is_nothing_to_do(cli: Cli) -> None:
    cli("run", cli.plan("version: 1\nname: a\nsteps: [{id: a, run: 'true'}]\n"))
    done = cli("resume", "last")
    assert done.code == 2 and "has succeeded: nothing is left to do" in done.err
