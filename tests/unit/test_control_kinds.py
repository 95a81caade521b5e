"""A control is one value: every edge reads it from the table, and nobody else knows its name."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recoup.cli.topics import page
from recoup.kernel.controls import CONTROLS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "recoup"
HOME = SOURCE / "kernel" / "controls"
MAY_SAY = {
    "cli/control.py": "examples in its help",
    "cli/main.py": "`recoup resume` is a command",
    "steps/browser/words.py": "words that people try as verbs of the browser",
    "model/policy.py": "the example of `approval_required`",
    "gateway/bulk.py": "`cancel` is a bulk action, too",
    "operations/bulk.py": "`cancel` is a bulk action, too",
    "gateway/list_shapes.py": "`cancel` is a bulk action, too",
    "gateway/shapes.py": "the example of a request",
    "gateway/console/static/runs.js": "`cancel` is a bulk action, too",
    "gateway/console/templates/approvals.html": "the two buttons of a gate",
    "gateway/console/templates/runs.html": "`cancel` is a bulk action, too",
    "kernel/documents.py": "`takeover` is a field of `liveControl`",
    "kernel/deeds.py": "reads stored events, below the controls",
    "kernel/memory.py": "words on buttons of web pages",
    "runtimes/agent/codex.py": "an argument of that command line",
    "testing/ledger_suite.py": "controls as a ledger keeps them",
    "testing/worker_suite.py": "controls as a ledger keeps them",
}
"""Files in which the name of a control stands as text, and why."""
MAY_NAME = {
    "kernel/advice.py": "what to do next",
    "cli/run.py": "`recoup resume` sends a control, and says which one must come first",
    "depot/shipping.py": "a message tells the command that helps",
    "gateway/bulk.py": "another person may have to agree to each",
    "operations/bulk.py": "many runs are cancelled at once",
    "kernel/commands.py": "messages tell the command that helps",
    "fleet/driving.py": "messages tell the command that helps",
    "simulation/invariants.py": "what must hold after a settlement and at a gate",
    "simulation/storm.py": "an operator of storms, who acts as a sensible one would",
}
"""Files that import one control instead of the table, and why."""
UNMISTAKABLE = re.compile(rf"\b({'|'.join(name for name in CONTROLS if '_' in name)}|takeover)\b")
COMMANDS = re.compile(rf"recoup control \S+ ({'|'.join(CONTROLS)})\b")
STEP_KIND = "approve"
"""Also the name of a kind of step: as a text alone it says nothing about controls."""


def elsewhere(pattern: str) -> Iterator[Path]:
    for path in SOURCE.rglob(pattern):
        if not path.is_relative_to(HOME):
            yield path


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def texts_in(tree: ast.AST) -> Iterator[str]:
    """All that are not docstrings."""
    about = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{x}" for part in node.values
            )
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in about:
            yield node.value


def says_a_control(text: str) -> bool:
    if text in CONTROLS and text != STEP_KIND:
        return True
    return bool(UNMISTAKABLE.search(text) or COMMANDS.search(text))


def test_no_file_says_the_name_of_a_control_but_those_that_are_listed_with_a_reason() -> None:
    said = {
        name_of(path)
        for path in elsewhere("*.py")
        if any(map(says_a_control, texts_in(ast.parse(path.read_text()))))
    }
    quoted = re.compile(rf"[\"']({'|'.join(CONTROLS)})[\"']")
    said |= {
        name_of(path)
        for pattern in ("*.html", "*.js")
        for path in elsewhere(pattern)
        if "vendor" not in path.parts and quoted.search(path.read_text())
    }
    assert said - MAY_SAY.keys() == set()


def test_no_file_imports_a_control_alone_but_those_that_are_listed_with_a_reason() -> None:
    modules = {f"recoup.kernel.controls.{path.stem}" for path in HOME.glob("*.py")}
    named = {
        name_of(path)
        for path in elsewhere("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in modules
        for alias in node.names
        if alias.name in {name.upper() for name in CONTROLS}
    }
    assert named <= MAY_NAME.keys()


# The documents


@pytest.mark.parametrize(
    "document", ["docs/glossary.md", "docs/reference/http.md", "docs/howto/steer-a-run.md"]
)
def test_documents_name_every_control(document: str) -> None:
    said = set(re.findall(r"`(?:control RUN )?([a-z_]+)[ `]", (ROOT / document).read_text()))
    assert CONTROLS.keys() - said == set()


def test_the_help_page_lists_every_control_in_its_order() -> None:
    table = page("controls").split("\n\n")[1]
    listed = [name.strip() for line in table.splitlines() for name in line[:19].split(",")]
    assert listed == list(CONTROLS)


# A made-up control

MADE_UP = """
import asyncio, json, sys
from recoup.kernel.controls import CONTROLS
from recoup.kernel.controls.kind import ControlKind, Effect, Hold, StepUse, Takes, Then
from recoup.kernel.controls.scope import Scope

CONTROLS["defer"] = ControlKind(
    name="defer",
    label="Defer run",
    summary="leave the run for another day",
    takes=Takes(step=StepUse.ASKED, answers=("soon", "late"), look_first="Look at the calendar first", beyond="the week"),
    steps=lambda state: [state.steps[0].step_id],
    refuse=lambda state, control, policy: None if control.argument in ("soon", "force") else "the office is closed",
    scope=lambda state, control, driven: Scope(words=(f"The run waits until {control.argument}.",)),
    effect=lambda state, control: Effect(control=control, then=Then.WAITS),
    hold=Hold.BEGINS,
    forced_label="Defer beyond the week",
    danger=True,
)

from click import Context
from recoup.cli.control import control
from recoup.cli.main import recoup
from recoup.documents.policy_file import parse_policy
from recoup.documents.schemas import policy_schema
from recoup.gateway import shapes
from recoup.gateway.console.run_view import buttons_of
from recoup.kernel.approvals import needs_approval
from recoup.kernel.controls import heed, possible
from recoup.kernel.fold import submitted
from recoup.kernel.preview import previews
from recoup.mcp import ledger_desk, outside
from recoup.gateway import runs
from recoup.cli import control as cli_control
from recoup.model import events as ev
from recoup.model.instant import Instant
from recoup.model.plan import Plan, RunAction, Step
from recoup.model.policy import Policy
from recoup.operations.control import ControlRequest, mistake_in

first = ev.RunSubmitted(
    workflow="w", plan_digest="d", plan=Plan(name="w", steps=(Step(id="a", action=RunAction("x")),)),
    plan_redacted=False, inputs={}, policy_digest="p",
)
state = submitted("r", first, Instant(0, 0, "boot"))
lacking = ControlRequest(run_id="r", action="defer", reason="x", actor="ada")
misplaced = ControlRequest(run_id="r", action="pause", reason="x", actor="ada", answer="soon")
spellings = [module._SPELLING for module in (cli_control, runs, ledger_desk)]
mistakes = [mistake_in(one, spelling) for one in (lacking, misplaced) for spelling in spellings]
tools = asyncio.run(outside.build(lambda *_, **__: None, str, read_only=False).list_tools())
tool = next(tool for tool in tools if tool.name == "control_run")
handled = ev.ControlHandled(
    command_id="c", action="defer", outcome="accepted", reason="", actor="ada", epoch=1, argument="soon"
)
buttons = [one for one in buttons_of("r", previews(state, Policy(), False), True) if one.action == "defer"]
offered = possible(state, Policy())
state = heed(state, handled)
print(json.dumps({
    "help": control.get_help(Context(control)),
    "choices": [list(one.type.choices) for one in control.params if one.name in ("action", "answer")],
    "http": shapes.ControlRequest.model_json_schema(),
    "mcp": [tool.description, tool.input_schema],
    "policy": [needs_approval(parse_policy("approval_required: [defer]"), "defer"), str(policy_schema())],
    "mistakes": [[one.message, one.hint] for one in mistakes],
    "buttons": [[one.label, one.danger, one.why_not, one.scope, one.body, one.command] for one in buttons],
    "possible": offered,
    "paused": state.hold.paused,
}))
"""


@pytest.fixture(scope="module")
def rendered() -> Any:
    """What the edges make of a control that no file of the source knows."""
    done = subprocess.run([sys.executable, "-c", MADE_UP], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_line_offers_a_new_control(rendered: Any) -> None:
    assert re.search(r"defer +leave the run for another day", rendered["help"])
    assert re.search(r"For settle and defer: what you found", rendered["help"])
    assert re.search(r"For defer: beyond the\s+week too\.", rendered["help"])
    actions, answers = rendered["choices"]
    assert actions[-1] == "defer" and answers == ["done", "not-done", "soon", "late"]


def test_http_and_mcp_take_a_new_control(rendered: Any) -> None:
    about, schema = rendered["mcp"]
    assert ", defer. A refusal" in about
    for properties, answer in ((rendered["http"]["properties"], "as"), (schema["properties"], "settle_as")):
        assert properties["action"]["enum"] == [*CONTROLS, "defer"]
        assert "late" in str(properties[answer]) and "For settle and defer" in str(properties[answer])
        assert "For defer: beyond the week" in properties["force"]["description"]


def test_a_policy_may_require_approval_for_a_new_control(rendered: Any) -> None:
    needed, schema = rendered["policy"]
    assert needed and "'defer'" in schema


def test_every_edge_holds_a_new_control_to_what_it_takes_in_its_own_words(rendered: Any) -> None:
    assert rendered["mistakes"] == [
        [
            "defer needs --step STEP and --as soon or --as late",
            "Look at the calendar first; recoup show names it.",
        ],
        ["defer needs stepId and as", "Look at the calendar first."],
        ["defer needs step and settle_as", "Look at the calendar first: get_run names it."],
        ["--as is for settle and defer only", "Say pause without it."],
        ["as is for settle and defer only", ""],
        ["settle_as is for settle and defer only", "Leave it out."],
    ]


def test_the_console_shows_and_previews_a_new_control(rendered: Any) -> None:
    (soon, late) = rendered["buttons"]
    body = {"action": "defer", "stepId": "a", "as": "soon"}
    command = "recoup control r defer --step a --as soon --reason '...'"
    assert soon == ["Defer run as soon", True, "", "The run waits until soon.", body, command]
    assert late[:4] == ["Defer run as late", True, "the office is closed", ""]


def test_the_kernel_offers_and_folds_a_new_control(rendered: Any) -> None:
    assert "defer" in rendered["possible"] and rendered["paused"] is True
