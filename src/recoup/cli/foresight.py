"""What a plan names and is not there now. Only notes: an earlier step, or another machine, may have it."""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Final

from recoup.files.named import read_named
from recoup.kernel.references import TemplateError, references
from recoup.model.plan import AgentAction, Handler, Plan, PythonAction, RunAction, Step
from recoup.model.workspace import FolderSource

_SOURCE_BYTES_MAX: Final = 1 << 20
_UNSURE: Final = frozenset({"${{", "$", "`", "*", "~"})


def missing_parts(plan: Plan) -> Iterator[str]:
    """In words, each with the step. Files are looked for only where a step begins in a folder that is here."""
    folder = _folder(plan)
    for step in plan.steps:
        works: tuple[Step | Handler, ...] = (step, *step.rescue, *step.on_empty, *step.always)
        for work in works:
            yield from (f"{step.id}: {words}" for words in _missing_for(work, folder))
    yield from _unknown_outputs(plan)


def _folder(plan: Plan) -> Path | None:
    """Of a repository nothing is said: what counts is the commit, and not the files that are there now."""
    if plan.workspace is None:
        return Path(plan.folder)
    return Path(plan.workspace.path) if isinstance(plan.workspace, FolderSource) else None


def _missing_for(work: Step | Handler, folder: Path | None) -> Iterator[str]:
    match work.action:
        case PythonAction(target=target) if folder is not None:
            yield from filter(None, [_missing_function(target, folder)])
        case AgentAction(cli=cli):
            yield from filter(None, [_missing_agent(cli.partition(" ")[0])])
        case RunAction(command=command) if folder is not None:
            lines = command.splitlines() if isinstance(command, str) else [command[0]]
            yield from filter(None, [_missing_script(line, folder) for line in lines[:1]])


def _missing_agent(name: str) -> str | None:
    from recoup.cli.extras import AGENTS

    if name in AGENTS or any(sign in name for sign in _UNSURE) or shutil.which(name):
        return None  # of those that are known another note says how to get them
    return f"{name} is not on the PATH here"


def _missing_script(line: str, folder: Path) -> str | None:
    """The first word of a script, if it is a path in the folder: later ones may be made by what is before them."""
    name = line.split()[0] if line.split() else ""
    if not name.startswith(("./", "../")) or any(
        sign in name for sign in (*_UNSURE, ";", "|", "&", '"', "'")
    ):
        return None
    path = folder / name
    if not path.exists():
        return f"there is no {name} in {folder}"
    return None if os.access(path, os.X_OK) else f"{name} may not be executed: chmod +x {name}"


def _missing_function(target: str, folder: Path) -> str | None:
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
    import sys

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


def _unknown_outputs(plan: Plan) -> Iterator[str]:
    """A step may write more outputs than it declares; one that is written nowhere in it is probably misspelt."""
    from recoup.documents.wording import suggestion
    from recoup.engine.arguments import texts_of

    declared = {step.id: step for step in plan.steps if step.outputs and isinstance(step.action, RunAction)}
    for step in plan.steps:
        for text in texts_of(step):
            for reference in _references(text):
                of = declared.get(reference[0])
                if of is None or reference[1] in of.outputs or reference[1] in str(of.action):
                    continue
                meant = suggestion(reference[1], of.outputs) or f"it declares {', '.join(sorted(of.outputs))}"
                yield f"{step.id}: {of.id} declares no output {reference[1]}: {meant}"


def _references(text: str) -> list[tuple[str, str]]:
    try:
        return [(one.step_id, one.field) for one in references(text) if one.step_id is not None]
    except TemplateError:
        return []
