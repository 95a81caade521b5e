"""A plan must not run itself, as far as that can be told without running a shell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from recoup.shapes.command_words import LINE_CHARS_MAX, shell_words
from recoup.shapes.plan_written import Written, mapping
from recoup.shapes.shape import as_written
from recoup.shapes.tree import Place, clipped
from recoup.shapes.wording import Finding
from recoup.steps.registry import kinds_in

_SEPARATOR = re.compile(r"[();<>|&]+")


class Origin(msgspec.Struct, frozen=True):
    """Where a plan comes from."""

    folder: Path
    file: Path | None = None


def runs_itself(plan: Written, origin: Origin) -> Iterator[Finding]:
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


def _folders(plan: Written, origin: Origin) -> list[Path]:
    workspace = mapping(plan.data.get("workspace"))
    named = [path for key in ("git", "folder") if isinstance(path := workspace.get(key), str)]
    return [origin.folder, *(origin.folder / path for path in named)]


def _commands(plan: Written) -> Iterator[tuple[Place, Any]]:
    for part in plan.parts:
        for kind in kinds_in(part.data):
            for way, command in kind.shape.commands(part.data).items():
                yield (*part.place, *way), command
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
            yield from _simple_commands(shell_words(line))


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


def _never_ends(plan: Written, place: Place) -> str:
    index = place[1]
    assert isinstance(index, int), "the place of a command begins with its step"
    return f"step `{clipped(plan.ids[index] or '')}` runs this plan itself: it would never end"
