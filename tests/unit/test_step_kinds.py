"""A kind of step is known by its object alone: everybody else asks the registry."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

from recoup.model.plan import ApproveAction, BrowserAction, BrowserVerb, RunAction
from recoup.steps.kind import StepKind
from recoup.steps.registry import BUILT_IN, all_kinds, kind_named, kinds_in, step_kind

SOURCE = Path(__file__).parents[2] / "src" / "recoup"
OWN = ("model/plan.py", "steps/", "runtimes/", "testing/", "simulation/")
"""Where a kind is what it is about: its values, itself, what performs it, and plans made for tests."""
CORE = ("kernel/", "model/")
GATES = (*CORE, "engine/desk.py", "engine/driver.py", "engine/reusing.py", "gateway/console/escalations.py")
"""A gate is an idea of the core: the run waits, and nothing is performed."""
PAGES = (
    *CORE,
    *("api.py", "cli/check.py", "depot/shipping.py", "operations/heals.py"),
    *("documents/plan_change.py", "documents/recorded_plan.py"),
)
"""So are pages and what heals on them."""
AGENTS = ("kernel/reuse.py",)
"""What an agent is told depends on the plan around its step."""
MAY_NAME: dict[str, tuple[str, ...]] = {
    "RunAction": (),
    "PythonAction": (),
    "CustomAction": (),
    "AgentAction": AGENTS,
    "BrowserAction": PAGES,
    "ApproveAction": GATES,
}
WRITES_STEPS = ("documents/openchrome", "documents/plan_change.py", "documents/recorded_plan.py")
"""They write steps of certain kinds into files."""
BROWSER_WRITTEN = {"recoup.steps.browser.written"}


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Those that could name a kind: to read all of them takes a while."""
    texts = [(path.relative_to(SOURCE).as_posix(), path.read_text()) for path in sorted(SOURCE.rglob("*.py"))]
    return [(place, ast.parse(text)) for place, text in texts if "Action" in text or "recoup.steps" in text]


def names_in(tree: ast.Module) -> set[str]:
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return named | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_nobody_else_knows_what_a_kind_is_made_of() -> None:
    """The lists above may become shorter, and never longer."""
    for place, tree in modules():
        if not place.startswith(OWN):
            known = {
                name for name in names_in(tree) & MAY_NAME.keys() if not place.startswith(MAY_NAME[name])
            }
            assert not known, f"{place} knows {known}: ask the kind, by steps.registry"


def test_nobody_else_imports_a_kind() -> None:
    of_kinds = {f"recoup.steps.{key}" for key in BUILT_IN}
    for place, tree in modules():
        imported = {
            node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
        }
        kinds = {name for name in imported if ".".join(name.split(".")[:3]) in of_kinds} - BROWSER_WRITTEN
        assert not kinds or place.startswith(("steps/", "testing/", *WRITES_STEPS)), (
            f"{place} imports {kinds}: ask steps.registry"
        )


def test_every_folder_of_a_kind_is_in_the_registry() -> None:
    folders = {path.parent.name for path in SOURCE.glob("steps/*/__init__.py")}
    assert folders == set(BUILT_IN)


@pytest.mark.parametrize("key", BUILT_IN)
def test_a_kind_answers_for_itself(key: str) -> None:
    kind = kind_named(key)
    assert isinstance(kind, StepKind)
    assert kind.key == key
    assert key in set(kind.shape.keys()), "the keys that people write have the key of the kind"
    assert kind.shape.phrase, "the schema says what such a step does"


def test_kinds_come_in_the_order_in_which_people_are_told_them() -> None:
    assert [kind.key for kind in all_kinds()][: len(BUILT_IN)] == list(BUILT_IN)
    assert [kind.key for kind in kinds_in({"approve": "?", "id": "a", "run": "true"})] == ["run", "approve"]


def test_an_action_leads_to_its_kind() -> None:
    assert step_kind(RunAction("true")).key == "run"
    assert step_kind(ApproveAction("?")).is_work is False
    assert step_kind(BrowserAction(verb=BrowserVerb.GOTO)).needs == {"browser"}


def test_asking_a_kind_how_it_is_performed_loads_nothing_for_files() -> None:
    """A worker reads no plan files."""
    import subprocess

    asked = (
        "import sys; from recoup.model.plan import RunAction; from recoup.steps.registry import step_kind;"
        "step_kind(RunAction('true')).instructions(RunAction('true')); print('pydantic' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_a_kind_that_does_not_say_what_it_must_cannot_be_made() -> None:
    class Half(StepKind[RunAction]):
        key = "half"

        def texts(self, action: RunAction) -> tuple[str, ...]:
            return ()

    with pytest.raises(TypeError, match=r"fill.*instructions"):
        Half()  # type: ignore[abstract]
