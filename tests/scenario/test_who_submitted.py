"""Who submitted a run, and what taking one over means."""

from __future__ import annotations

import getpass
from typing import Any

import pytest
from tests.scenario.conftest import Cli

GATE = "version: 1\nname: gate\nsteps: [{id: ask, approve: {message: 'Go?'}}]\n"


def submitted_by(cli: Cli) -> Any:
    first = cli("events", "last", "--json").lines[0]
    return first["payload"]["submittedBy"]


@pytest.mark.parametrize("words", [["run"], ["submit"]])
def test_the_user_who_submits_is_recorded(cli: Cli, words: list[str]) -> None:
    cli(*words, cli.plan(GATE))
    assert submitted_by(cli) == getpass.getuser()


def test_who_takes_over_a_run_without_a_workspace_is_promised_none(cli: Cli) -> None:
    cli("run", cli.plan(GATE))
    told = cli("control", "last", "takeover", "--dry-run").out
    assert "it has no workspace" in told and "you work in" not in told
