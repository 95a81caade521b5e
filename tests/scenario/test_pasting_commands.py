"""Commands that a message names can be pasted as they are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.scenario.conftest import Cli

GATE = "version: 1\nname: gate\nsteps: [{id: ask, approve: {message: 'Go?'}}]\n"
PAY = "version: 1\nname: pay\nsteps: [{id: pay, repeat: never, idle_timeout: 1s, run: sleep 60}]\n"
FAILS = "version: 1\nname: fails\nsteps: [{id: a, run: 'exit 3', max_attempts: 1}]\n"


def comes_to_a_gate(cli: Cli) -> None:
    cli("run", cli.plan(GATE))


def asks_whether_it_was_done(cli: Cli) -> None:
    cli("run", cli.plan(PAY))


def fails(cli: Cli) -> None:
    cli("run", cli.plan(FAILS))


def waits_for_a_worker(cli: Cli) -> None:
    cli("submit", cli.plan(GATE))


def is_cancelled(cli: Cli) -> None:
    cli("run", cli.plan(GATE))
    cli("control", "last", "cancel", "--reason", "wrong one")


def is_paused(cli: Cli) -> None:
    cli("run", cli.plan(GATE))
    cli("control", "last", "pause", "--reason", "later")


def is_paused_in_a_queue(cli: Cli) -> None:
    cli("submit", cli.plan(GATE))
    cli("control", "last", "pause", "--reason", "later")


def is_blocked(cli: Cli) -> None:
    cli("run", cli.plan(FAILS))
    cli("mode", "fails", "paused", "--reason", "look first")
    cli("run", cli.plan(FAILS))


STATES: dict[Callable[[Cli], None], str] = {
    comes_to_a_gate: "waiting",
    asks_whether_it_was_done: "escalated",
    fails: "failed",
    waits_for_a_worker: "queued",
    is_cancelled: "cancelled",
    is_paused: "waiting",
    is_paused_in_a_queue: "waiting",
    is_blocked: "blocked",
}
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


@pytest.mark.parametrize("happens", STATES, ids=lambda happens: happens.__name__)
def test_every_command_that_is_advised_can_be_run_as_it_stands(
    cli: Cli, happens: Callable[[Cli], None]
) -> None:
    """Each in a home of its own: one command may make the next one untrue."""
    number, commands = 0, [""]
    while number < len(commands):
        one = replace(cli, home=cli.home.with_name(f"home-{number}"))
        happens(one)
        run = one("show", "last", "--json").json
        assert run["status"] == STATES[happens], run
        commands = [said["command"] for said in run["advice"] if said["command"] is not None]
        assert commands
        shown = one("show", "last").out
        assert all(f"\n            {command}\n" in shown for command in commands), shown
        done = one(*shlex.split(commands[number])[1:])
        assert done.code in (0, 1, 4, 5), (commands[number], done.err)
        number += 1
