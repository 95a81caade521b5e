"""`check` reads what a plan would run, in handlers too."""

from __future__ import annotations

from tests.scenario.conftest import Cli

PLAN = """\
version: 1
name: x
steps:
  - id: a
    run: 'echo good'
    rescue: [{run: 'echo good'}, {run: 'if true; then'}]
    always: [{python: 'm:f'}, {run: 'echo $('}]
  - agent: {cli: claude, prompt: if true; then}
  - approve: if true; then
"""


def test_bash_reads_the_scripts_of_handlers_too(cli: Cli) -> None:
    result = cli("check", cli.plan(PLAN), "--json")
    assert result.code == 3
    assert [problem["where"] for problem in result.json["problems"]] == [
        "steps[0].rescue[1].run",
        "steps[0].always[1].run",
    ]


def test_steps_are_numbered_and_handlers_are_not(cli: Cli) -> None:
    plan = (
        "{version: 1, name: x, steps: [{id: a, run: 'true', rescue: [{run: 'true'}]}, {id: b, run: 'true'}]}"
    )
    lines = cli("check", cli.plan(plan)).out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["0", "a:"], ["rescue:", "1"], ["1", "b:"]]


def test_an_agent_that_is_not_installed_here_is_named(cli: Cli) -> None:
    plan = cli.plan("{version: 1, name: x, steps: [{agent: {cli: codex --quiet, prompt: p}}]}")
    notes = cli("check", plan, "--json", env={"PATH": "/usr/bin:/bin"}).json["notes"]
    assert "codex is not on the PATH here: recoup doctor says how to get it" in notes
