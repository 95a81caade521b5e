"""Makes the store and the first workspace of a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from recoup.durable import sync_directory, write_whole
from recoup.model.workspace import FolderSource, GitSource, Source
from recoup.workspace import cloning, copying
from recoup.workspace.disk import private_folder, sync_all_below
from recoup.workspace.git import Git, in_our_place
from recoup.workspace.layout import Layout, Origin
from recoup.workspace.store import make_store
from recoup.workspace.walk import Gap


class SourceLimits(NamedTuple):
    """How much may be copied."""

    bytes_max: int
    entries_max: int


class Recipe(NamedTuple):
    """How a source becomes a store and a workspace; the source itself was found to be in order."""

    origin: Origin
    make_store: Callable[[Path], None]
    make_workspace: Callable[[Path], None]
    gaps: list[Gap]


def prepare(git: Git, layout: Layout, source: Source, limits: SourceLimits) -> Recipe:
    """All that can be wrong with the source is found before anything is written."""
    with cloning.reading_the_source():
        return (
            _clone(git, layout, source)
            if isinstance(source, GitSource)
            else _copy(git, layout, source, limits)
        )


def build(layout: Layout, recipe: Recipe) -> None:
    """Built aside, then renamed: neither the store nor the workspace is ever seen half-made."""
    for folder in (layout.private, layout.manifests, layout.workspaces):
        private_folder(folder)
    _make(layout, recipe.make_store, layout.store)
    write_whole(layout.origin, msgspec.json.encode(recipe.origin), aside=layout.aside)
    _make(layout, recipe.make_workspace, layout.workspace(1))
    sync_directory(layout.workspaces)


def clear(layout: Layout) -> None:
    """Everything of ours, so that an interrupted creation can begin again."""
    for path in (
        layout.pointer,
        layout.workspaces,
        layout.store,
        layout.manifests,
        layout.origin,
        layout.clock,
    ):
        # Moved away, then removed: a git that a killed driver left may still be writing there.
        layout.discard(path)
    layout.sweep()
    with suppress(OSError):
        layout.private.rmdir()


def _make(layout: Layout, build: Callable[[Path], None], path: Path) -> None:
    aside = layout.building(path.name)
    try:
        build(aside)
        layout.publish(aside, path)
    except BaseException:
        layout.discard(aside)
        raise


def _clone(git: Git, layout: Layout, source: GitSource) -> Recipe:
    repository = cloning.find(git, source)
    origin = cloning.pin(git, repository, source.ref)
    return Recipe(
        origin=origin,
        make_store=lambda path: cloning.clone_store(git, repository, origin, path),
        make_workspace=lambda path: cloning.check_out(git, layout, origin, path),
        gaps=[],
    )


def _copy(git: Git, layout: Layout, source: FolderSource, limits: SourceLimits) -> Recipe:
    folder = copying.find(source, layout)
    copier = copying.Copier(git, folder, limits.bytes_max, limits.entries_max)
    return Recipe(
        origin=Origin("sha1"),
        make_store=lambda path: _empty_store(git, path),
        make_workspace=copier.copy,
        gaps=copier.gaps,
    )


def _empty_store(git: Git, path: Path) -> None:
    with in_our_place(path.parent):
        make_store(git, path, "sha1")
    sync_all_below(path)
