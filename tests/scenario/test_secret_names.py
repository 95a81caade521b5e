"""An input or output that is named like a secret and is not declared as one is pointed out before it is printed."""

from __future__ import annotations

import pytest
from tests.scenario.conftest import Cli

PLAN = """
    version: 1
    name: named
    inputs: {db_password: {default: x}, api_token: {secret: true}, monkey: {default: y}}
    steps:
      - {id: a, run: 'echo auth=1 >> "$RECOUP_OUTPUT"', outputs: {auth: {regex: "auth=(.)"}}}
"""


@pytest.mark.parametrize("command", ["check", "run", "submit"])
def test_a_name_like_a_secret_is_noted(cli: Cli, command: str) -> None:
    said = cli(command, cli.plan(PLAN))
    words = said.out + said.err
    assert "input db_password is named like a secret" in words, words
    assert "output auth of a is named like a secret" in words
    assert "api_token is named" not in words and "monkey" not in words
