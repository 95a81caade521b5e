"""A compiled plan of openchrome is imported, checked and run."""

from __future__ import annotations

import json
from typing import Any

from tests.scenario.conftest import Cli


def bash(order: int, command: str, **more: Any) -> dict[str, Any]:
    return {"order": order, "tool": "bash", "args": {"command": command}, "timeout": 20000, **more}


def stored(name: str, field: str | None = None) -> dict[str, Any]:
    return {"format": "json", "storeAs": name, **({"extractField": field} if field else {})}


ROWS = """echo '{"rows": [{"id": 7}, {"id": 8}]}'"""
PLAN = {
    "id": "rows",
    "version": "1.0.0",
    "description": "Find the rows",
    "parameters": {"who": {"source": "runtime"}, "greeting": {"default": "it's"}},
    "steps": [
        bash(1, "exit 3", parseResult=stored("found", "rows"), retryOnFail=False),
        bash(2, "echo '[]'", parseResult=stored("empty")),
        bash(3, "echo ${greeting} ${who}: ${found[1].id} ${empty} | tee said.txt"),
    ],
    "errorHandlers": [
        {
            "condition": "step1_error",
            "action": "mirror",
            "steps": [bash(1, ROWS, parseResult=stored("found", "rows"))],
        },
        {
            "condition": "step2_empty_result",
            "action": "again",
            "steps": [bash(1, "echo '[1]'", parseResult=stored("empty"))],
        },
    ],
    "successCriteria": {"requiredFields": ["found", "empty"]},
}
LOGIN = {
    "id": "login",
    "steps": [{"order": 1, "tool": "interact", "args": {"query": "Log in"}}, bash(2, "true")],
}


def test_an_imported_plan_runs_as_it_would_have_there(cli: Cli) -> None:
    imported = cli("import", "openchrome", cli.plan(json.dumps(PLAN), "rows.json"), "--output", "rows.yaml")
    assert imported.code == 0, imported.err
    assert imported.out == ""
    done = cli("run", "rows.yaml", "--input", "who=me $(id)", "--json")
    assert done.code == 0, done.err
    assert (cli.folder / "said.txt").read_text() == "it's me $(id): 8 [1]\n"
    verdicts = [step["verdict"] for step in cli.ledger()["steps"]]
    assert verdicts == ["recovered", "recovered", "unverified"]


def test_what_cannot_be_turned_is_named_and_nothing_is_written(cli: Cli) -> None:
    result = cli(
        "import", "openchrome", cli.plan(json.dumps(LOGIN), "login.json"), "--output", "login.yaml", "--json"
    )
    assert result.code == result.json["exitCode"] == 3
    assert not result.json["complete"]
    assert [(one["where"], one["step"], one["tool"]) for one in result.json["notTurned"]] == [
        ("steps[0]", 1, "interact")
    ]
    assert "steps[0] (step 1, interact)" in result.err
    assert "--partial" in result.err
    assert not (cli.folder / "login.yaml").exists()


def test_a_partial_plan_is_checked_and_asks_a_person(cli: Cli) -> None:
    source = cli.plan(json.dumps(LOGIN), "login.json")
    result = cli("import", "openchrome", source, "--partial")
    assert result.code == 0, result.err
    plan = cli.plan(result.out, "login.yaml")
    assert cli("check", plan).code == 0
    assert "interact" in result.out
    again = cli("import", "openchrome", source, "--partial", "--output", "login.yaml")
    assert again.code == 2
    assert "there already" in again.err
    assert (cli.folder / "login.yaml").read_text() == result.out


def test_a_file_that_is_no_compiled_plan_is_refused(cli: Cli) -> None:
    result = cli("import", "openchrome", cli.plan("version: 1\n", "plan.json"))
    assert result.code == 3
    assert "not JSON" in result.err
    assert "Traceback" not in result.err
