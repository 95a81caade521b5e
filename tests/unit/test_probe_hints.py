"""What a person is told to type when a probe hands over."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from recoup.cli.probe import act, reset_budget
from recoup.model.probe import Action, Escalate, Fault
from recoup.probe.facts import _hint


@pytest.mark.parametrize(("limit", "commands"), [("max_retries", 2), ("day_max", 2), ("final", 1)])
def test_the_commands_of_a_hint_can_be_typed_as_they_stand(limit: str, commands: int) -> None:
    fault = Fault(fault_class="process_exited", reason="it exited with 1")
    said = _hint("api", Escalate(action=Action.RESTART, fault=fault, retry_count=4, limit=limit))
    lines = re.findall(r"recoup probe (.*?'\.\.\.')", said)
    assert len(lines) == commands
    for line in lines:
        name, *words = shlex.split(line)
        {"act": act, "reset-budget": reset_budget}[name].make_context(name, words, parent=click.Context(act))
