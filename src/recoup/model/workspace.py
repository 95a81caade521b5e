"""Workspaces, the trees they held, and the checkpoints that bring them back."""

from __future__ import annotations

import msgspec

from recoup.model.ident import Ident


class GitSource(msgspec.Struct, frozen=True, tag="git"):
    """A repository of the user's, to be cloned at `ref` (or at its HEAD)."""

    path: str
    ref: str | None = None


class FolderSource(msgspec.Struct, frozen=True, tag="folder"):
    """A folder of the user's, to be copied."""

    path: str


Source = GitSource | FolderSource


class Missing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something in the workspace that a checkpoint could not store."""

    path: str
    why: str
    stored: bool = False
    """Its contents are in the checkpoint; only something else about it is not."""


class Baseline(msgspec.Struct, frozen=True, rename="camel"):
    """Where a run's workspace began: the pinned commit (git only) and the tree of its first snapshot."""

    tree: Ident
    manifest: Ident
    commit: Ident | None = None
    branch: str | None = None
    missing: tuple[Missing, ...] = ()
    missing_count: int = 0


class Snapshot(msgspec.Struct, frozen=True, rename="camel"):
    """A workspace as stored: a git tree and the digest of the manifest that goes with it."""

    tree: Ident
    manifest: Ident
    missing: tuple[Missing, ...] = ()
    missing_count: int = 0
    bytes_stored: int = 0


class Change(msgspec.Struct, frozen=True):
    """The difference between two trees; `hash` is None when there is none."""

    hash: str | None
    files: tuple[str, ...] = ()
    files_count: int = 0


class Adopted(msgspec.Struct, frozen=True):
    """How many checkpoints of another run could be brought over, in their order, and why not the next one."""

    count: int
    problem: str | None = None
