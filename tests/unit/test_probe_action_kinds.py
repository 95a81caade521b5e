"""An action of a probe is one member of an enum: files, commands, orders and pages read it from there."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recoup.cli.topics import page
from recoup.model.probe import Action, BindingKind, ChannelKind, EndpointKind, MountKind, ProcessKind

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "recoup"
MAY_SAY = {
    "cli/probe.py": "examples in its help",
    "documents/probe_shape.py": "the example of `on_fault`",
    "testing/gateway_suite.py": "commands as a gateway sends them",
}
"""Files in which the name of an action stands as text, and why."""
SAID = re.compile(rf"\b({'|'.join(action for action in Action if action not in ('restart', 'reconnect'))})\b")


def says_an_action(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return node.value in set(Action) or bool(SAID.search(node.value))


def test_no_file_says_the_name_of_an_action_but_those_that_are_listed_with_a_reason() -> None:
    said = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if not path.is_relative_to(SOURCE / "probe" / "kinds") and path != SOURCE / "model" / "probe.py"
        if any(map(says_an_action, ast.walk(ast.parse(path.read_text()))))
    }
    assert said - MAY_SAY.keys() == set()


def test_every_action_is_known_by_some_kind_and_every_kind_knows_its_own() -> None:
    kinds = (ProcessKind, ChannelKind, MountKind, BindingKind, EndpointKind)
    assert {action for kind in kinds for action in kind.ACTIONS} == set(Action)
    assert all({kind.ACTION, *kind.ON_FAULT.values()} <= kind.ACTIONS for kind in kinds)


@pytest.mark.parametrize(
    "document", ["docs/glossary.md", "docs/howto/probe.md", "docs/reference/probe-gateway.md"]
)
def test_documents_name_every_action(document: str) -> None:
    said = (ROOT / document).read_text().replace(" ", "_")
    assert [action for action in Action if action not in said] == []


def test_the_help_page_names_every_action() -> None:
    assert all(action in page("probes") for action in Action)


MADE_UP = """
import importlib.util, json, sys
spec = importlib.util.find_spec("recoup.model.probe")
source = open(spec.origin).read()
member = '    RESTART = "restart", "Stop it and start it again."\\n'
kind = "frozenset({Action.REMOUNT})"
assert member in source and kind in source
source = source.replace(member, member + '    DEFROST = "defrost", "Warm it up slowly.", "defrost a drive"\\n')
source = source.replace(kind, "frozenset({Action.REMOUNT, Action.DEFROST})")
module = importlib.util.module_from_spec(spec)
sys.modules["recoup.model.probe"] = module
exec(compile(source, spec.origin, "exec"), module.__dict__)

from click import Context
from recoup.cli.probe import act, probe
from recoup.documents.probe_shape import ResourceShape
from recoup.documents.schemas import probe_schema
from recoup.gateway.console.probe_views import actions_for
from recoup.gateway.operating_shapes import ProbeActRequest
from recoup.kernel.probe_gateway import ASKED
from recoup.kernel.probe_rules import RULES, rule_against
from recoup.model.probe import Budget, Rule

shape = {"id": "a", "mount": {"path": "./a", "command": ["true"]}, "on_fault": {"mount_missing": "defrost"}}
print(json.dumps({
    "help": [probe.get_help(Context(probe)), act.get_help(Context(act))],
    "order": ProbeActRequest.model_json_schema()["properties"]["action"]["enum"],
    "schema": "'defrost'" in str(probe_schema()),
    "page": actions_for(False).get("defrost"),
    "gateway": "defrost" in ASKED,
    "rules": [rule_against("defrost"), RULES[Rule.ALLOWED_ACTIONS]],
    "file": str(ResourceShape.model_validate(shape).value(Budget()).on_fault["mount_missing"]),
}))
"""


@pytest.fixture(scope="module")
def rendered() -> Any:
    """What is made of an action that stands in `model/probe.py` alone."""
    done = subprocess.run([sys.executable, "-c", MADE_UP], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_new_action_is_in_the_help(rendered: Any) -> None:
    about, acting = (" ".join(text.split()) for text in rendered["help"])
    assert "A probe may restart, defrost a drive, reconnect" in about
    assert "RESOURCE now: restart, defrost, reconnect" in acting


def test_a_new_action_can_be_ordered_named_in_a_file_and_asked_for(rendered: Any) -> None:
    assert "defrost" in rendered["order"] and rendered["page"] == "Warm it up slowly."
    assert rendered["schema"] and rendered["file"] == "defrost"
    assert rendered["gateway"] and rendered["rules"][0] is None and "defrost" in rendered["rules"][1]
