"""A command that only looks leaves no home where there was none, and says which home it looked into."""

from __future__ import annotations

import pytest
from tests.scenario.conftest import Cli

LISTS = [("runs",), ("queue",), ("workers",), ("escalations", "list"), ("doctor",)]
OF_A_RUN = [
    *(("show", "last"), ("events", "last"), ("logs", "last"), ("ledger", "last"), ("resume", "last")),
    ("control", "last", "cancel", "--reason", "r"),
]


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_a_list_of_nothing_makes_no_home(cli: Cli, command: tuple[str, ...]) -> None:
    result = cli(*command)
    assert (result.code, cli.home.exists()) == (0, False), result.err
    if command == ("runs",):
        assert f"no runs yet in {cli.home}" in result.out


@pytest.mark.parametrize("command", OF_A_RUN, ids=" ".join)
def test_a_run_that_is_looked_for_in_no_home_is_not_found_there(cli: Cli, command: tuple[str, ...]) -> None:
    result = cli(*command)
    assert (result.code, cli.home.exists()) == (2, False)
    assert f"there are no runs yet in {cli.home}" in result.err
    other = cli(command[0], "2026", *command[2:])
    assert f"no run begins with '2026' in {cli.home}" in other.err


@pytest.mark.parametrize("command", [*LISTS, *OF_A_RUN], ids=" ".join)
def test_a_mistyped_home_is_said_to_be_none(cli: Cli, command: tuple[str, ...]) -> None:
    typo = cli.folder / "hmoe"
    result = cli("--home", str(typo), *command)
    assert (result.code != 0, typo.exists()) == (True, False)
    assert f"there is no home {typo}" in result.out + result.err
