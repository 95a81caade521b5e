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
