"""A checkpoint that was lost or altered is noticed, and leaves nothing behind."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.repositories import git, new_repository

from recoup.errors import CheckpointBroken
from recoup.model.workspace import GitSource, Snapshot
from recoup.workspace.workspaces import GitWorkspaces


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "users", {f"file{number}": f"{number}\n" * 100 for number in range(5)})


@pytest.fixture
def workspaces(tmp_path: Path) -> GitWorkspaces:
    return GitWorkspaces(tmp_path / "run")


async def test_a_checkpoint_with_paths_too_long_for_its_new_place_is_broken_and_leaves_nothing(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    folder = workspaces.path(1).joinpath(*["n" * 199] * 14)
    folder.mkdir(parents=True)
    (folder / "file").write_text("deep")
    snapshot = await workspaces.snapshot(1)
    assert await workspaces.restore(snapshot) == 2
    moved = tmp_path.joinpath(*["d" * 199] * 6)
    moved.mkdir(parents=True)
    (tmp_path / "run").rename(moved / "run")
    there = GitWorkspaces(moved / "run")
    with pytest.raises(CheckpointBroken, match="too long"):
        await there.restore(snapshot)
    assert not any((moved / "run" / ".aside").iterdir())


class Damaged:
    """A store with loose objects, which can be damaged one by one."""

    def __init__(self, run: Path, snapshot: Snapshot) -> None:
        self.run = run
        self.snapshot = snapshot
        self.store = run / "private" / "store.git"
        packs = self.store / "objects" / "pack"
        for pack in list(packs.glob("*.pack")):
            moved = run / pack.name
            pack.rename(moved)
            pack.with_suffix(".idx").unlink()
            git(self.store, "unpack-objects", "-q", stdin=moved.read_bytes())
            moved.unlink()

    def id(self, path: str) -> str:
        return git(self.store, "rev-parse", f"{self.snapshot.tree}:{path}")

    def object(self, id_: str) -> Path:
        path = self.store / "objects" / id_[:2] / id_[2:]
        path.chmod(0o600)
        return path

    def manifest(self) -> Path:
        return self.run / "private" / "manifests" / f"{self.snapshot.manifest.removeprefix('sha256:')}.json"


def delete_blob(damaged: Damaged) -> None:
    damaged.object(damaged.id("new")).unlink()


def exchange_blob(damaged: Damaged) -> None:
    damaged.object(damaged.id("new")).write_bytes(zlib.compress(b"blob 5\0other"))


def garble_blob(damaged: Damaged) -> None:
    damaged.object(damaged.id("new")).write_bytes(b"no zlib at all")


def truncate_blob(damaged: Damaged) -> None:
    path = damaged.object(damaged.id("new"))
    path.write_bytes(path.read_bytes()[:-4])


def empty_blob(damaged: Damaged) -> None:
    damaged.object(damaged.id("new")).write_bytes(b"")


def delete_tree(damaged: Damaged) -> None:
    damaged.object(damaged.snapshot.tree).unlink()


def exchange_tree(damaged: Damaged) -> None:
    """Well-formed, and tells git to write outside of the workspace."""
    entry = b"100644 ../../escaped\0" + bytes.fromhex(damaged.id("new"))
    damaged.object(damaged.snapshot.tree).write_bytes(zlib.compress(b"tree %d\0%s" % (len(entry), entry)))


def exchange_tree_for_another(damaged: Damaged) -> None:
    entry = b"100644 other\0" + bytes.fromhex(damaged.id("new"))
    damaged.object(damaged.snapshot.tree).write_bytes(zlib.compress(b"tree %d\0%s" % (len(entry), entry)))


def delete_manifest(damaged: Damaged) -> None:
    damaged.manifest().unlink()


def alter_manifest(damaged: Damaged) -> None:
    document = json.loads(damaged.manifest().read_bytes())
    document["work"]["modes"]["new"] = "0777"
    damaged.manifest().write_text(json.dumps(document, sort_keys=True, separators=(",", ":")))


def truncate_manifest(damaged: Damaged) -> None:
    damaged.manifest().write_bytes(damaged.manifest().read_bytes()[:-1])


def delete_git_tree(damaged: Damaged) -> None:
    document = json.loads(damaged.manifest().read_bytes())
    damaged.object(document["git_folders"][".git"]["tree"]).unlink()


def delete_store(damaged: Damaged) -> None:
    shutil.rmtree(damaged.store)


def delete_pinned_commit(damaged: Damaged) -> None:
    damaged.object(git(damaged.store, "rev-parse", "refs/recoup/pinned")).unlink()


def delete_pinned_file(damaged: Damaged) -> None:
    """Not in the checkpoint any more, but in the commit that the workspace's HEAD names."""
    damaged.object(git(damaged.store, "rev-parse", "refs/recoup/pinned:file4")).unlink()


DAMAGES = [
    *(delete_blob, exchange_blob, garble_blob, truncate_blob, empty_blob, delete_tree, exchange_tree),
    *(exchange_tree_for_another, delete_manifest, alter_manifest, truncate_manifest, delete_git_tree),
    *(delete_store, delete_pinned_commit, delete_pinned_file),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_a_damaged_checkpoint_is_broken_and_leaves_nothing(
    damage: Callable[[Damaged], None], tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    (workspaces.path(1) / "new").write_text("new\n" * 50)
    (workspaces.path(1) / "file4").unlink()
    taken = await workspaces.snapshot(1)
    damaged = Damaged(tmp_path / "run", taken)
    assert await workspaces.restore(taken) == 2
    damage(damaged)
    before = sorted(path for path in tmp_path.rglob("*") if "store.git" not in str(path))
    for driver in (workspaces, GitWorkspaces(tmp_path / "run")):
        with pytest.raises(CheckpointBroken) as caught:
            await driver.restore(taken)
        assert len(caught.value.message) > 20
    assert sorted(path for path in tmp_path.rglob("*") if "store.git" not in str(path)) == before


async def test_damage_to_one_checkpoint_leaves_the_others(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    baseline = await workspaces.create(GitSource(str(repository)))
    (workspaces.path(1) / "new").write_text("new\n" * 50)
    taken = await workspaces.snapshot(1)
    delete_blob(Damaged(tmp_path / "run", taken))
    with pytest.raises(CheckpointBroken, match="an object of the store is missing"):
        await workspaces.restore(taken)
    assert await workspaces.restore(Snapshot(tree=baseline.tree, manifest=baseline.manifest)) == 2
    # What was lost is stored again with the next checkpoint that holds it.
    again = await workspaces.snapshot(1)
    assert again.manifest == taken.manifest
    assert await workspaces.restore(again) == 3


async def test_a_manifest_of_another_tree_is_refused(repository: Path, workspaces: GitWorkspaces) -> None:
    baseline = await workspaces.create(GitSource(str(repository)))
    (workspaces.path(1) / "new").write_text("new\n")
    taken = await workspaces.snapshot(1)
    for snapshot in (
        Snapshot(tree=baseline.tree, manifest=taken.manifest),
        Snapshot(tree=taken.tree, manifest=baseline.manifest),
        Snapshot(tree=taken.tree, manifest="sha256:" + "0" * 64),
        Snapshot(tree=taken.tree, manifest="../../../etc/passwd"),
    ):
        with pytest.raises(CheckpointBroken):
            await workspaces.restore(snapshot)
        assert not await workspaces.matches(1, snapshot)
