"""Lists of the command line have one row for each thing, whatever people and programs wrote into its texts."""

from __future__ import annotations

from pathlib import Path

from tests.scenario.conftest import Cli

GATE = """
    version: 1
    name: gate
    steps:
      - {id: ask, approve: {message: "Go?\\nReally?"}}
"""
PAID = """
    version: 1
    name: paid
    workspace: {git: ./repo}
    steps:
      - {id: pay, run: 'rm -rf "$PWD"', repeat: never}
"""
TWO_LINES = "first line\nsecond line"
SHOWN = "first line second line"


def rows(cli: Cli, *args: str) -> list[str]:
    listed = cli(*args)
    assert listed.code == 0, listed.err
    return listed.out.splitlines()


def test_a_reason_of_two_lines_is_shown_on_one_in_every_list(cli: Cli) -> None:
    waiting = cli("run", cli.plan(GATE), "--json").document["runId"]
    cancelled = cli("run", cli.plan(GATE), "--json").document["runId"]
    assert cli("control", cancelled, "cancel", "--reason", TWO_LINES).code == 0
    assert cli("mode", "gate", "paused", "--reason", TWO_LINES).code == 0

    listed = rows(cli, "runs")
    assert [row.split()[0] for row in listed] == [cancelled, waiting]
    assert SHOWN in listed[0]
    assert "Go? Really?" in listed[1]
    events = rows(cli, "events", cancelled)
    assert [row.split()[0] for row in events] == [str(number + 1) for number in range(len(events))]
    assert SHOWN in events[-1]
    modes = rows(cli, "mode")
    assert [SHOWN in row for row in modes if "gate" in row] == [True]
    assert all("gate" in row or "all workflows" in row for row in modes)
    assert [row for row in rows(cli, "mode", "gate") if SHOWN in row]
    shown = rows(cli, "show", cancelled)
    assert all(row.startswith(" ") for row in shown if "second line" in row and "first line" not in row)


def test_names_of_two_lines_break_no_row_of_a_list(cli: Cli, repo: Path) -> None:
    assert cli("run", cli.plan(PAID)).code == 5
    (escalation,) = cli("escalations", "list", "--json").json
    assigned = cli("escalations", "assign", escalation["id"], "--to", TWO_LINES, "--reason", "hers")
    assert assigned.code == 0, assigned.err
    added = cli("webhooks", "add", "http://127.0.0.1:9/x", "--events", "Escalated", "--name", TWO_LINES)
    assert added.code == 0, added.err
    made = cli("tokens", "make", "viewer", "--name", TWO_LINES)
    assert made.code == 0, made.err
    for command in ("escalations", "webhooks", "tokens"):
        (row,) = rows(cli, command, "list")
        assert SHOWN in row, command
