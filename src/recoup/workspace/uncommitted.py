"""Counts what a clone of the user's repository would not have, without reading that repository's configuration: filters
there are commands, and `git status` runs them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from recoup.workspace.git import Git, GitFailed
from recoup.workspace.layout import Origin

# They say how files compare with the index, and no value of theirs is ever executed.
_HARMLESS = re.compile(r"core\.(filemode|symlinks|ignorecase|precomposeunicode|autocrlf|eol)")


class WorkTree(NamedTuple):
    """Where the user's git keeps what it knows of a work tree."""

    folder: Path
    index_file: Path
    objects: Path
    exclude: Path
    attributes: Path


def count_changes(git: Git, folder: Path, origin: Origin) -> int:
    """Files that are changed or new against the commit; 0 for a bare repository."""
    tree = _work_tree(git, folder)
    if tree is None:
        return 0
    with tempfile.TemporaryDirectory(prefix="recoup-status-") as stand_in:
        _make_stand_in(Path(stand_in), tree, origin)
        status = git.run(
            *_harmless_options(git, folder),
            *(f"--git-dir={stand_in}", f"--work-tree={folder}"),
            *("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all"),
            cwd=folder,
            env={"GIT_INDEX_FILE": str(tree.index_file), "GIT_OBJECT_DIRECTORY": str(tree.objects)},
        )
    return status.count(b"\0")


def _work_tree(git: Git, folder: Path) -> WorkTree | None:
    names = ("index", "objects", "info/exclude", "info/attributes")
    asked = [word for name in names for word in ("--git-path", name)]
    answer = os.fsdecode(git.run("-C", folder, "rev-parse", "--is-inside-work-tree", *asked))
    inside, *paths = answer.removesuffix("\n").split("\n")
    if inside != "true" or len(paths) != len(names):
        return None  # the second: a path with a line break in it
    return WorkTree(folder, *(folder / path for path in paths))


def _make_stand_in(path: Path, tree: WorkTree, origin: Origin) -> None:
    """A repository of ours that borrows all but the configuration. Split indexes lie beside the index."""
    for name in ("objects", "refs", "info"):
        (path / name).mkdir()
    (path / "HEAD").write_text(f"{origin.commit}\n")
    (path / "config").write_text(
        "[core]\n\trepositoryFormatVersion = 1\n\tbare = false\n"
        f"[extensions]\n\tobjectFormat = {origin.object_format}\n"
    )
    (path / "info" / "exclude").symlink_to(tree.exclude)
    (path / "info" / "attributes").symlink_to(tree.attributes)
    for shared in tree.index_file.parent.glob("sharedindex.*"):
        (path / shared.name).symlink_to(shared)


def _harmless_options(git: Git, folder: Path) -> Iterator[str]:
    try:
        listed = git.run("-C", folder, "config", "-z", "--local", "--get-regexp", f"^{_HARMLESS.pattern}$")
    except GitFailed:
        return  # none is set
    for entry in os.fsdecode(listed).split("\0"):
        name, has_value, value = entry.partition("\n")
        if _HARMLESS.fullmatch(name):
            yield "-c"
            yield f"{name}={value}" if has_value else name
