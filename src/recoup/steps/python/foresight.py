"""Whether a function is there, told without importing it."""

from __future__ import annotations

import ast
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Final

from recoup.files.named import read_named

_SOURCE_BYTES_MAX: Final = 1 << 20


def missing_function(target: str, folder: Path) -> str | None:
    """Nothing is imported: what a module does when it is loaded is the step's business."""
    module, _, path = target.partition(":")
    spec = _spec(module, folder)
    if spec is None:
        return f"there is no module {module} in {folder}, nor is it installed here"
    names = _names_in(spec)
    first = path.partition(".")[0]
    return (
        f"the module {module} has no function {first}" if names is not None and first not in names else None
    )


def _spec(module: str, folder: Path) -> ModuleSpec | None:
    spec, where = None, [str(folder), *sys.path]
    if module.partition(".")[0] in sys.builtin_module_names:
        return ModuleSpec(module, None)
    for part in module.split("."):
        spec = PathFinder.find_spec(part, where)
        if spec is None:
            return None
        where = list(spec.submodule_search_locations or ())
    return spec


def _names_in(spec: ModuleSpec) -> set[str] | None:
    """What the module defines at its top level; None where that cannot be told by reading it."""
    source = Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    if source is None or not source.is_file() or source.stat().st_size > _SOURCE_BYTES_MAX:
        return None
    try:
        tree = ast.parse(read_named(source))
    except (SyntaxError, ValueError, RecursionError):
        return None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return None if names & {"*", "__getattr__", "globals", "setattr", "exec"} else names
