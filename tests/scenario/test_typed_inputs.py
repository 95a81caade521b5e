"""Inputs with a type, and notes of `check` on scripts that would run a value."""

from __future__ import annotations

from tests.scenario.conftest import Cli

PLAN = """
version: 1
name: typed
inputs: {n: {type: TYPE, default: "3"}}
steps:
  - id: count
    run: |
      n=${{ inputs.n }}
      if (( n > 1 )); then echo many; fi
"""


def test_a_value_of_a_typed_input_can_carry_no_code(cli: Cli) -> None:
    attack = "a[$(touch pwned)]"
    untyped = cli.plan(PLAN.replace("TYPE", "text"))
    noted = cli("check", untyped)
    assert noted.code == 0
    assert (
        "steps[0].run, line 2: `((…))`: bash calculates with it, and a calculation can run commands"
        in noted.out
    )
    typed = cli.plan(PLAN.replace("TYPE", "integer"))
    assert "line 2" not in cli("check", typed).out
    refused = cli("run", typed, "--input", f"n={attack}")
    assert refused.code == 3
    assert "inputs.n: must be a whole number such as 12 or -3: the plan says `type: integer`" in refused.err
    assert attack not in refused.err and not (cli.folder / "pwned").exists()
    assert cli("run", typed, "--input", "n=12").code == 0


def test_a_default_must_be_of_its_type(cli: Cli) -> None:
    result = cli("check", cli.plan(PLAN.replace("TYPE", "boolean")))
    assert result.code == 3
    assert "the default must be `true` or `false`, as `type: boolean` says" in result.err


def test_a_script_of_a_check_and_a_variable_of_the_environment_are_looked_at(cli: Cli) -> None:
    plan = cli.plan("""
        version: 1
        name: noted
        inputs: {n: {required: true}}
        steps:
          - run: 'true'
            env: {N: "${{ inputs.n }}"}
            expect: [{run: "(( N > 1 ))"}]
    """)
    assert "steps[0].expect[0].run, line 1: `((…))`" in cli("check", plan).out
