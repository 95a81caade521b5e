"""Names: one like `db_password` without `secret: true` is pointed out, one that is a secret itself is refused."""

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


TOKEN = "ghp" + "_" + "a1B2c3D4e5" * 3 + "f6G7h8"
NAMES = {
    "name": "{version: 1, name: %s, steps: [{id: a, run: 'true'}]}",
    "steps[0].id": "{version: 1, name: n, steps: [{id: %s, run: 'true'}]}",
    "inputs.[redacted]": "{version: 1, name: n, inputs: {%s: x}, steps: [{id: a, run: 'true'}]}",
    "steps[0].outputs.[redacted]": (
        "{version: 1, name: n, steps: [{id: a, run: 'true', outputs: {%s: {regex: x}}}]}"
    ),
}


@pytest.mark.parametrize("command", ["check", "run", "submit"])
@pytest.mark.parametrize("where", NAMES)
def test_a_name_that_looks_like_a_secret_is_refused_and_not_repeated(
    cli: Cli, command: str, where: str
) -> None:
    said = cli(command, cli.plan(NAMES[where] % TOKEN))
    assert said.code == 3, said.out
    assert f"{where}: the name looks like a secret" in said.err
    assert TOKEN not in said.out + said.err


def test_a_name_that_holds_a_registered_secret_is_refused_by_check_too(cli: Cli) -> None:
    cli.env["DEPLOY_KEY"] = "open-sesame-42"
    plan = cli.plan(
        "{version: 1, name: n, secrets: [DEPLOY_KEY], steps: [{id: open-sesame-42, run: 'true'}]}"
    )
    for command in ("check", "run"):
        said = cli(command, plan)
        assert said.code == 3 and "steps[0].id: holds the value of DEPLOY_KEY" in said.err
        assert "open-sesame" not in said.out + said.err
