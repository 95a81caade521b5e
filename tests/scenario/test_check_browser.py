"""`check` says what browser steps do, and which heals nothing would verify."""

from __future__ import annotations

from tests.scenario.conftest import Cli

PLAN = """\
version: 1
name: x
heal: {mode: apply}
inputs: {pin: {secret: true}}
steps:
  - {id: open, browser: {goto: "https://shop.example"}}
  - {id: pin, browser: {fill: {label: Pin, value: "${{ inputs.pin }}"}}}
  - {id: approve, browser: {click: {role: button, name: Approve}}, expect: [{text: Approved}]}
  - {id: menu, browser: {hover: Menu}, heal: report}
  - {id: spinner, browser: {wait: {role: progressbar, hidden: true}}}
"""


def test_steps_are_named_by_what_they_do(cli: Cli) -> None:
    result = cli("check", cli.plan(PLAN))
    assert result.code == 0, result.err
    assert "open: goto https://shop.example; unverified" in result.out
    assert "pin: fill label 'Pin'; unverified" in result.out
    assert "approve: click role 'button', name 'Approve'; 1 check" in result.out
    assert "inputs.pin" not in result.out


def test_heals_that_nothing_would_verify_are_named(cli: Cli) -> None:
    notes = cli("check", cli.plan(PLAN), "--json").json["notes"]
    assert "pin may heal with nothing to expect: a heal would be unverified, add `expect`" in notes


def test_healing_without_any_target_is_named(cli: Cli) -> None:
    plan = 'version: 1\nname: x\nheal: apply\nsteps: [{browser: {goto: "https://shop.example"}}]\n'
    notes = cli("check", cli.plan(plan), "--json").json["notes"]
    assert "the plan says how to heal, but none of its steps has a target" in notes


def test_the_schema_knows_browser_steps(cli: Cli) -> None:
    schema = cli("schema", "plan").json
    assert {"GotoShape", "ClickShape", "UnchangedShape"} <= schema["$defs"].keys()
