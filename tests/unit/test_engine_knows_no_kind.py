"""The engine asks a kind of step through its hooks, and knows none by its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "recoup"
FILES = sorted((SOURCE / "engine").rglob("*.py"))
STATEFUL = re.compile("browser|page|target", re.IGNORECASE)
"""What a kind that keeps something is about."""
EXCEPTIONS: dict[str, dict[str, str]] = {
    "operators.py": {
        "page_question": "a question of the kernel's that is settled by a control",
        "_settle_page": "the same",
    },
}


def names_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.ImportFrom(module=module, names=imported):
                yield from ((module or ""), *(one.name for one in imported))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_name_in_the_engine_is_about_one_kind(path: Path) -> None:
    allowed = EXCEPTIONS.get(path.name, {})
    found = {name for name in names_in(ast.parse(path.read_text())) if STATEFUL.search(name)}
    assert sorted(found - allowed.keys()) == [], (
        f"{path.name}: a kind says this through its hooks (recoup/steps/hooks.py)"
    )


def test_the_engine_imports_no_kind() -> None:
    kinds = {path.parent.name for path in (SOURCE / "steps").glob("*/__init__.py")}
    assert kinds
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recoup.steps."):
                assert (node.module or "").split(".")[2] not in kinds, f"{path.name} imports {node.module}"
