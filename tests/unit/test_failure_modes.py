"""The page of failure modes covers every failure, and names only tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/failure-modes.md").read_text()
PARTS = re.split(r"^### ", PAGE, flags=re.M)[1:]
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`( \(soak)?")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def known_in(path: Path) -> dict[str, bool]:
    """By name as pytest says it, and whether it is a long one. Methods of a suite count for every class that has it."""
    module, found = tree_of(path), dict[str, bool]()
    all_soak = any(_is_soak(node) for node in module.body if isinstance(node, ast.Assign))
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = all_soak or any(_is_soak(one) for one in node.decorator_list)
        elif isinstance(node, ast.ClassDef) and node.bases:
            found |= {f"{node.name}::{name}": all_soak for name in _methods_of_suites(module)}
        elif isinstance(node, ast.Assign) and _is_machine(node):
            found[f"{node.targets[0].id}::runTest"] = all_soak  # type: ignore[attr-defined]
    return found


def _is_soak(node: ast.AST) -> bool:
    """The mark itself; not one that a single parameter has."""
    if isinstance(node, ast.Assign):
        return _is_pytestmark(node) and "pytest.mark.soak" in ast.unparse(node.value)
    return ast.unparse(node) == "pytest.mark.soak"


def _is_pytestmark(node: ast.Assign) -> bool:
    return ast.unparse(node.targets[0]) == "pytestmark"


def _is_machine(node: ast.Assign) -> bool:
    return isinstance(node.targets[0], ast.Name) and ast.unparse(node.value).endswith(".TestCase")


def _methods_of_suites(module: ast.Module) -> list[str]:
    names = [node.module for node in module.body if isinstance(node, ast.ImportFrom) and node.module]
    suites = [name for name in names if name.startswith("recoup.testing.")]
    trees = [tree_of(ROOT / "src" / f"{name.replace('.', '/')}.py") for name in suites]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    return [
        one.name
        for node in classes
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_the_faults_are_numbered_in_order() -> None:
    assert len(PARTS) >= 38
    assert [part.split()[0] for part in PARTS] == [f"F{number}" for number in range(1, len(PARTS) + 1)]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.split()[0])
def test_every_fault_has_its_promise_its_means_and_tests_that_are_there(part: str) -> None:
    for word in ("What happens", "Guarantee", "How"):
        assert re.search(rf"^- \*\*{word}\.\*\*(?: \S|\n  - \S)", part, re.M), word
    assert "<summary>Tests</summary>" in part
    named = TEST.findall(part)
    assert named, "nothing proves it"
    assert part.count("`tests/") == len(named), "a test is named in another form"
    for path, name, soak in named:
        assert (ROOT / path).is_file(), path
        tests = known_in(ROOT / path)
        assert name in tests, f"{path} has no {name}"
        assert tests[name] is bool(soak), f"{path}::{name}: which of `make test` and `make soak` runs it?"
    assert any(not soak for _, _, soak in named), "only `make soak` proves it"


def test_the_rooms_that_keep_the_promises_are_there() -> None:
    for name in re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", re.sub(TEST, "", PAGE)):
        assert (ROOT / "src/recoup" / name).exists(), name
