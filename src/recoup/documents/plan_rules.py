"""What must hold in a plan beyond the shape of each part: ids, references, and no plan that runs itself.

Works on the data as written, so that these problems are found beside those of the shape.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from recoup.documents.forms import WORD_BYTES_MAX
from recoup.documents.shape import as_written
from recoup.documents.step_shape import default_id
from recoup.documents.tree import Place, Tree, clipped
from recoup.documents.wording import NO_VALUE, Finding, suggestion
from recoup.kernel.template import Reference, TemplateError, check_condition, references, substitute_shell

FILLED_IN_KEYS = ("run", "env", "when")
"""The keys of a step in which `${{ … }}` is filled in."""

LITERAL_KEYS = ("title", "expect", "outputs")
"""Those in which it would stay as it stands, and mislead."""

LINE_CHARS_MAX = 10_000
"""Longer lines are not searched for a plan that runs itself."""

_NOT_FILLED_IN = (
    "`${{ … }}` is not filled in here: write the text itself, or use it in `run`, `env` or `when`"
)
_SEPARATOR = re.compile(r"[();<>|&]+")


class Origin(msgspec.Struct, frozen=True):
    """Where a plan comes from."""

    folder: Path
    file: Path | None = None


def broken_rules(tree: Tree, origin: Origin) -> Iterator[Finding]:
    plan = _Written(tree)
    yield from _without_value(tree.data, ())
    yield from _duplicate_ids(plan)
    yield from _bad_references(plan)
    yield from _bad_conditions(plan)
    yield from _misplaced_references(plan)
    yield from _diffs_without_workspace(plan)
    yield from _runs_itself(plan, origin)


class _Written:
    """The parts of a plan that have the right shape, by place."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.data: Mapping[str, Any] = tree.data
        self.inputs = frozenset(_mapping(self.data.get("inputs")))
        steps = self.data.get("steps")
        self.steps = [_mapping(step) for step in steps] if isinstance(steps, list) else []
        self.ids = [_id(step, number) for number, step in enumerate(self.steps, 1)]

    def checks(self) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        for index, step in enumerate(self.steps):
            expect = step.get("expect")
            for n, check in enumerate(expect if isinstance(expect, list) else []):
                yield ("steps", index, "expect", n), _mapping(check)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _id(step: Mapping[str, Any], number: int) -> str | None:
    written = as_written(step.get("id", default_id(number)))
    return written if isinstance(written, str) else None


def _without_value(value: Any, place: Place) -> Iterator[Finding]:
    if value is None and place:
        yield Finding(place, NO_VALUE)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not (key == "equals" and place[2:3] == ("expect",)):
                yield from _without_value(item, (*place, key))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _without_value(item, (*place, n))


def _duplicate_ids(plan: _Written) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for index, step_id in enumerate(plan.ids):
        if step_id is None:
            continue
        if step_id in first:
            yield Finding(("steps", index, "id"), _taken(plan, step_id, first[step_id]))
        first.setdefault(step_id, index)


def _taken(plan: _Written, step_id: str, index: int) -> str:
    line = plan.tree.line(("steps", index, "id"))
    where = f"steps[{index}]" + (f" (line {line})" if line else "")
    return f"id `{clipped(step_id)}` is already used by {where}: ids must differ"


def _bad_references(plan: _Written) -> Iterator[Finding]:
    for index, step in enumerate(plan.steps):
        for key in FILLED_IN_KEYS:
            for place, text in _texts(step.get(key), ("steps", index, key)):
                in_script = place == ("steps", index, "run")
                yield from (Finding(place, words) for words in _wrong_in(text, in_script, index, plan))


def _texts(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str) and "${{" in value:
        yield place, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*place, key))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _texts(item, (*place, n))


def _wrong_in(text: str, in_script: bool, index: int, plan: _Written) -> Iterator[str]:
    try:
        found = references(text)
        if in_script and len(text) <= WORD_BYTES_MAX:
            substitute_shell(text, dict.fromkeys((reference.name for reference in found), "0"))
    except TemplateError as error:
        yield _of_this_text(error)
        return
    for reference in found:
        if wrong := _wrong_with(reference, index, plan):
            yield wrong


def _wrong_with(reference: Reference, index: int, plan: _Written) -> str | None:
    if reference.step_id is not None:
        return _wrong_step(reference.step_id, index, plan)
    return _wrong_input(reference.field, plan) if reference.root == "inputs" else None


def _wrong_input(name: str, plan: _Written) -> str | None:
    if name in plan.inputs:
        return None
    meant = suggestion(name, plan.inputs) or "add it under `inputs`"
    return f"`inputs.{clipped(name)}` is not an input of this plan: {meant}"


def _wrong_step(step_id: str, index: int, plan: _Written) -> str | None:
    shown = f"`steps.{clipped(step_id)}`"
    if step_id in plan.ids[:index]:
        return None
    if step_id == plan.ids[index]:
        return f"{shown} is this step itself, which has no outputs yet: name an earlier step"
    if step_id in plan.ids[index:]:
        return f"{shown} comes later in the plan: move it before this step"
    meant = (
        suggestion(step_id, [known for known in plan.ids[:index] if known])
        or "name an earlier step by its id"
    )
    return f"{shown} is not a step of this plan: {meant}"


def _bad_conditions(plan: _Written) -> Iterator[Finding]:
    for index, step in enumerate(plan.steps):
        condition = as_written(step.get("when"))
        if isinstance(condition, str) and (wrong := _wrong_condition(condition)):
            yield Finding(("steps", index, "when"), wrong)


def _wrong_condition(condition: str) -> str | None:
    try:
        check_condition(condition)
    except TemplateError as error:
        return _of_this_text(error)
    return None


def _of_this_text(error: TemplateError) -> str:
    """It counts lines from the beginning of the text, not of the file."""
    return re.sub(r"^(line \d+, column \d+):", r"\1 of this text:", str(error))


def _misplaced_references(plan: _Written) -> Iterator[Finding]:
    places: list[tuple[Place, Any]] = [((key,), plan.data.get(key)) for key in ("objective", "workspace")]
    places += [
        (("steps", n, key), step.get(key)) for n, step in enumerate(plan.steps) for key in LITERAL_KEYS
    ]
    for place, value in places:
        for where, _ in _texts(value, place):
            yield Finding(where, _NOT_FILLED_IN)


def _diffs_without_workspace(plan: _Written) -> Iterator[Finding]:
    if plan.data.get("workspace") is not None:
        return
    for place, check in plan.checks():
        if "diff" in check:
            message = (
                "nothing is known about changes without a workspace: add `workspace: {git: .}` to the plan"
            )
            yield Finding((*place, "diff"), message)


def _runs_itself(plan: _Written, origin: Origin) -> Iterator[Finding]:
    if origin.file is None:
        return
    files = _both_spellings(origin.file)
    names = {Path(file).name for file in files}
    folders = {spelling for folder in _folders(plan, origin) for spelling in _both_spellings(folder)}
    for place, command in _commands(plan):
        if any(_starts_plan(words, files, folders) for words in _command_words(command, names)):
            yield Finding(place, _never_ends(plan, place))


def _both_spellings(path: Path) -> set[str]:
    return {os.path.normpath(path), os.path.realpath(path)}


def _folders(plan: _Written, origin: Origin) -> list[Path]:
    workspace = _mapping(plan.data.get("workspace"))
    named = [path for key in ("git", "folder") if isinstance(path := workspace.get(key), str)]
    return [origin.folder, *(origin.folder / path for path in named)]


def _commands(plan: _Written) -> Iterator[tuple[Place, Any]]:
    for index, step in enumerate(plan.steps):
        yield ("steps", index, "run"), step.get("run")
    for place, check in plan.checks():
        yield (*place, "run"), check.get("run")


def _command_words(command: Any, names: set[str]) -> Iterator[list[str]]:
    """The words of each simple command, as far as that can be told without running a shell."""
    if isinstance(command, str):
        yield from _script_words(command, names)
    elif isinstance(command, list):
        words = [word for word in map(as_written, command) if isinstance(word, str)]
        yield words
        for word in words:
            yield from _script_words(word, names)


def _script_words(script: str, names: set[str]) -> Iterator[list[str]]:
    for line in script.replace("\\\n", " ").splitlines() if "recoup" in script else ():
        if "recoup" in line and len(line) <= LINE_CHARS_MAX and any(name in line for name in names):
            yield from _simple_commands(_shell_words(line))


def _shell_words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return line.split()


def _simple_commands(words: list[str]) -> Iterator[list[str]]:
    command: list[str] = []
    for word in words:
        if _SEPARATOR.fullmatch(word):
            yield command
            command = []
        else:
            command.append(word)
    yield command


def _starts_plan(words: list[str], files: set[str], folders: set[str]) -> bool:
    operands = _after(("run", "submit"), _after(("recoup",), words))
    alike = [word for word in operands if any(file.endswith(Path(word).name) for file in files)]
    return any(os.path.normpath(Path(folder, word)) in files for word in alike for folder in folders)


def _after(names: tuple[str, ...], words: list[str]) -> list[str]:
    """What follows the first of these words; a program counts under any folder."""
    for n, word in enumerate(words):
        if word.rpartition("/")[2] in names:
            return words[n + 1 :]
    return []


def _never_ends(plan: _Written, place: Place) -> str:
    index = place[1]
    assert isinstance(index, int), "the place of a command begins with its step"
    return f"step `{clipped(plan.ids[index] or '')}` runs this plan itself: it would never end"
