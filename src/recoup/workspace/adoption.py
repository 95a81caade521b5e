"""Brings checkpoints over from the private store of another run. Nothing of it is trusted: git reads every object back,
and only what is what its id says is there afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recoup.errors import CheckpointBroken
from recoup.model.workspace import Adopted, Snapshot
from recoup.workspace import manifest as manifests
from recoup.workspace.blobs import CHUNK_BYTES
from recoup.workspace.git import Git, GitFailed
from recoup.workspace.layout import Layout
from recoup.workspace.manifest import Manifest
from recoup.workspace.store import Store, checked_id


class Crossing(NamedTuple):
    """From the store of one run into that of another."""

    git: Git
    source: Layout
    target: Layout
    store: Store
    """The target's."""
    object_format: str
    saved: set[str]


def adopt(crossing: Crossing, snapshots: Sequence[Snapshot]) -> Adopted:
    """All together, because that is one pack and a few processes; one by one only to find the one that is broken."""
    try:
        _bring(crossing, snapshots)
    except CheckpointBroken as error:
        return Adopted(0, error.message) if len(snapshots) == 1 else _one_by_one(crossing, snapshots)
    return Adopted(len(snapshots))


def _one_by_one(crossing: Crossing, snapshots: Sequence[Snapshot]) -> Adopted:
    for count, snapshot in enumerate(snapshots):
        try:
            _bring(crossing, [snapshot])
        except CheckpointBroken as error:
            return Adopted(count, error.message)
    return Adopted(len(snapshots))


def _bring(crossing: Crossing, snapshots: Sequence[Snapshot]) -> None:
    wanted = [_manifest(crossing, snapshot) for snapshot in dict.fromkeys(snapshots)]
    trees = sorted({checked_id(tree) for manifest in wanted for tree in trees_of(manifest)})
    absent = crossing.store.absent(_objects(crossing, trees))
    if absent:
        _carry(crossing, sorted(absent))
    check_whole(crossing.store, trees)
    for manifest in wanted:
        manifests.save(crossing.target.manifests, manifest.encoded(), crossing.saved)


def _manifest(crossing: Crossing, snapshot: Snapshot) -> Manifest:
    manifest = manifests.load(crossing.source.manifests, snapshot.manifest)
    if manifest.work.tree != snapshot.tree or manifests.digest_of(manifest.encoded()) != snapshot.manifest:
        raise CheckpointBroken(f"the manifest does not belong to the tree {snapshot.tree}")
    if manifest.object_format != crossing.object_format:
        raise CheckpointBroken(
            f"the checkpoint is of format {manifest.object_format}, not {crossing.object_format}"
        )
    return manifest


def trees_of(manifest: Manifest) -> list[str]:
    return [manifest.work.tree, *(folder.tree for folder in manifest.git_folders.values())]


def _objects(crossing: Crossing, trees: Sequence[str]) -> list[str]:
    """All that these trees are made of, by what the other store says."""
    questions = "\n".join([*trees, ""]).encode()
    try:
        listed = crossing.git.run(
            f"--git-dir={crossing.source.store}",
            *("rev-list", "--objects", "--no-object-names", "--stdin"),
            stdin=questions,
        )
    except GitFailed as error:
        raise CheckpointBroken(f"a tree of the checkpoint is missing or damaged: {error.stderr}") from None
    return listed.decode("ascii", "replace").split()


def _carry(crossing: Crossing, ids: Sequence[str]) -> None:
    try:
        crossing.store.add_pack(_packed(crossing, ids))
    except GitFailed as error:
        raise CheckpointBroken(f"an object of the checkpoint is damaged: {error.stderr}") from None


def _packed(crossing: Crossing, ids: Sequence[str]) -> Iterator[bytes]:
    arguments = (f"--git-dir={crossing.source.store}", "pack-objects", "--stdout", "--quiet", "--window=0")
    with tempfile.TemporaryFile() as questions:
        questions.write("\n".join([*ids, ""]).encode())
        questions.seek(0)
        with crossing.git.talking(*arguments, stdin=questions) as talk:
            while chunk := talk.stdout.read(CHUNK_BYTES):
                yield chunk
            talk.finished()


def check_whole(store: Store, trees: Sequence[str]) -> None:
    """In our own store now: every tree, and everything that it names."""
    try:
        store.git("rev-list", "--objects", "--quiet", "--stdin", stdin="\n".join([*trees, ""]).encode())
    except GitFailed as error:
        raise CheckpointBroken(f"the checkpoint is not whole: {error.stderr}") from None
