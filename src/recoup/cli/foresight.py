"""What a plan names and is not there now. Only notes: an earlier step, or another machine, may have it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from recoup.kernel.references import TemplateError, references
from recoup.model.plan import Handler, Plan, Step
from recoup.model.workspace import FolderSource
from recoup.steps.registry import step_kind

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
    kind = step_kind(work.action)
    yield from filter(None, map(_missing_program, kind.programs(work.action)))
    if folder is not None:
        yield from kind.missing(work.action, folder)


def _missing_program(name: str) -> str | None:
    from recoup.runtimes.agent.clis import DIALECTS

    if name in DIALECTS or any(sign in name for sign in _UNSURE) or shutil.which(name):
        return None  # of those that are known another note says how to get them
    return f"{name} is not on the PATH here"


def _unknown_outputs(plan: Plan) -> Iterator[str]:
    """A step may write more outputs than it declares; one that is written nowhere in it is probably misspelt."""
    from recoup.engine.arguments import texts_of
    from recoup.shapes.wording import suggestion

    declared = {
        step.id: step for step in plan.steps if step.outputs and step_kind(step.action).names_its_outputs
    }
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
