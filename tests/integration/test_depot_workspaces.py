"""Checkpoints in a depot: real git, two folders of one run, and everything that can happen to what lies between."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.repositories import git, new_repository

from recoup.depot import workspaces as shipped
from recoup.depot.folder import FolderDepot
from recoup.depot.parcels import Parcels
from recoup.depot.private import PrivateParcels
from recoup.depot.sealing import KeySeal
from recoup.depot.workspaces import ShippedWorkspaces
from recoup.errors import CheckpointBroken, LeaseLost, SettingsError
from recoup.evidence.run_folder import RunFolder
from recoup.model.workspace import FolderSource, GitSource, Snapshot, Source
from recoup.workspace.workspaces import GitWorkspaces

RUN = "run-1"
SEAL = KeySeal("a key " + "of many machines")


class Watched(FolderDepot):
    """Notes what is read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[str] = []
        self.hear: Callable[[], object] = lambda: None

    async def get(self, name: str) -> bytes:
        self.read.append(name)
        self.hear()
        return await super().get(name)


class Machines:
    """Any number of them, by name, around one depot."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.depot = Watched(root / "depot")

    def at(
        self, name: str, run_id: str = RUN, seal: KeySeal = SEAL, files: RunFolder | None = None
    ) -> ShippedWorkspaces:
        """A new driver on that machine."""
        files = files or RunFolder(self.run_dir(name, run_id))
        files.private.mkdir(parents=True, exist_ok=True)
        return ShippedWorkspaces(
            GitWorkspaces(files.root, aside=files.aside),
            run_id,
            files,
            lambda other: self.parcels(other, seal),
        )

    def parcels(self, run_id: str, seal: KeySeal = SEAL) -> Parcels:
        return Parcels(self.depot, seal, f"runs/{run_id}", piece_bytes=2_000)

    def run_dir(self, name: str, run_id: str = RUN) -> Path:
        return self._root / name / run_id

    def objects(self) -> list[Path]:
        return sorted(path for path in (self._root / "depot").rglob("*") if path.is_file())


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files: dict[str, str | bytes] = {"one": "1\n", "noise": os.urandom(3_000)}
    path = new_repository(tmp_path_factory.mktemp("source") / "repository", files)
    git(path, "branch", "other")
    return path


async def two_steps(here: ShippedWorkspaces, source: Source) -> tuple[Snapshot, Snapshot]:
    await here.create(source)
    (here.path(1) / "two").write_bytes(os.urandom(3_000))
    (here.path(1) / "empty").mkdir()
    first = await here.snapshot(1)
    (here.path(1) / "one").write_text("changed\n")
    (here.path(1) / "one").chmod(0o640)
    return first, await here.snapshot(1)


def contents(path: Path) -> dict[str, bytes | None]:
    return {
        str(one.relative_to(path)): one.read_bytes() if one.is_file() else None
        for one in path.rglob("*")
        if ".git" not in one.relative_to(path).parts
    }


def source_of(kind: str, repository: Path, folder: Path) -> Source:
    if kind == "shallow":
        git(folder, "clone", "-q", str(repository), "full")
        git(folder / "full", "commit", "-q", "--allow-empty", "-m", "second")
        git(folder, "clone", "-q", "--depth", "1", f"file://{folder}/full", "shallow")
        return GitSource(str(folder / "shallow"))
    return FolderSource(str(repository)) if kind == "folder" else GitSource(str(repository))


@pytest.mark.parametrize("kind", ["git", "folder", "shallow"])
async def test_every_checkpoint_is_restored_on_a_machine_that_has_nothing(
    machines: Machines, repository: Path, tmp_path: Path, kind: str
) -> None:
    here = machines.at("a")
    first, second = await two_steps(here, source_of(kind, repository, tmp_path))
    last = contents(here.path(1))
    shutil.rmtree(machines.run_dir("a"))
    there = machines.at("b")
    assert contents(there.path(await there.restore(second))) == last
    number = await there.restore(first)
    assert contents(there.path(number)) == {**last, "one": b"1\n"}
    assert await there.matches(number, first)
    assert (await there.change(first.tree, second.tree)).files == ("one",)
    if kind != "folder":
        subprocess.run(["git", "-C", str(there.path(number)), "fsck", "--connectivity-only"], check=True)
        subprocess.run(["git", "-C", str(there.path(number)), "log", "-p"], check=True, capture_output=True)
    assert not list((machines.run_dir("b") / "private").glob(".carried-*"))


@pytest.mark.parametrize(
    "harm", ["lost", "flipped", *(pytest.param(one, marks=pytest.mark.soak) for one in ("cut", "swapped"))]
)
async def test_a_harmed_parcel_is_a_broken_checkpoint_and_never_another_tree(
    machines: Machines, repository: Path, harm: str
) -> None:
    here = machines.at("a")
    _, second = await two_steps(here, GitSource(str(repository)))
    last, objects = contents(here.path(1)), machines.objects()
    assert len(objects) >= 6
    for number, path in enumerate(objects):
        kept = path.read_bytes()
        if harm == "lost":
            path.unlink()
        elif harm == "flipped":
            path.write_bytes(kept[:-9] + bytes([kept[-9] ^ 1]) + kept[-8:])
        elif harm == "cut":
            path.write_bytes(kept[: len(kept) // 2])
        else:
            path.write_bytes(objects[number - 1].read_bytes())
        there = machines.at(f"b{number}")
        with pytest.raises(CheckpointBroken):
            await there.restore(second)
        assert not there.path(1).exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(kept)
    there = machines.at("b0")
    assert contents(there.path(await there.restore(second))) == last


async def test_a_wrong_key_breaks_nothing(machines: Machines, repository: Path) -> None:
    _, second = await two_steps(machines.at("a"), GitSource(str(repository)))
    there = machines.at("b", seal=KeySeal("another"))
    with pytest.raises(SettingsError, match="another key"):
        await there.restore(second)
    assert await machines.at("b").restore(second) == 1


async def test_damage_on_this_machine_is_mended_from_the_depot(machines: Machines, repository: Path) -> None:
    here = machines.at("a")
    first, second = await two_steps(here, GitSource(str(repository)))
    for pack in (machines.run_dir("a") / "private" / "store.git" / "objects" / "pack").iterdir():
        pack.unlink()
    again = machines.at("a")
    number = await again.restore(second)
    assert (again.path(number) / "one").read_text() == "changed\n"
    await again.restore(first)


async def test_a_machine_fetches_only_what_it_lacks(machines: Machines, repository: Path) -> None:
    _, second = await two_steps(machines.at("a"), GitSource(str(repository)))
    there = machines.at("b")
    await there.restore(second)
    (there.path(1) / "three").write_text("3\n")
    third = await there.snapshot(1)
    machines.depot.read.clear()
    here = machines.at("a")
    assert (here.path(await here.restore(third)) / "three").read_text() == "3\n"
    assert len(machines.depot.read) == 1, machines.depot.read


async def test_what_was_sent_is_not_sent_again(machines: Machines, repository: Path) -> None:
    here = machines.at("a")
    _, second = await two_steps(here, GitSource(str(repository)))
    before = machines.objects()
    assert await here.snapshot(1) == Snapshot(second.tree, second.manifest)
    again = machines.at("a")
    await again.snapshot(1)
    assert machines.objects() == before
    (again.path(1) / "small").write_text("x\n")
    await again.snapshot(1)
    (new,) = set(machines.objects()) - set(before)
    assert new.stat().st_size < 3_000, "only what is new"


async def test_no_chain_of_parcels_grows_without_a_limit(
    machines: Machines, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "LINKS_MAX", 3)
    here = machines.at("a")
    await here.create(FolderSource(str(repository)))
    taken = []
    for number in range(7):
        (here.path(1) / "count").write_text(f"{number}\n")
        taken.append(await here.snapshot(1))
    machines.depot.read.clear()
    there = machines.at("b")
    assert (there.path(await there.restore(taken[-1])) / "count").read_text() == "6\n"
    assert len({name for name in machines.depot.read if "/pieces/" not in name}) <= 5
    for number, snapshot in enumerate(taken):
        assert (there.path(await there.restore(snapshot)) / "count").read_text() == f"{number}\n"


async def test_a_large_change_is_not_carried_along_for_ever(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "GROWTH_BYTES", 10_000)
    (tmp_path / "plain").mkdir()
    here = machines.at("a")
    await here.create(FolderSource(str(tmp_path / "plain")))
    taken = []
    for _ in range(7):
        (here.path(1) / "large").write_bytes(os.urandom(8_000))
        taken.append(await here.snapshot(1))
    await machines.at("b").restore(taken[-1])
    fetched = sum((machines.depot._root / name).stat().st_size for name in set(machines.depot.read))
    assert fetched < 5 * 9_500


async def test_two_drivers_of_one_run_do_not_spoil_each_others_checkpoints(
    machines: Machines, repository: Path
) -> None:
    """One of them has lost the run and does not know it yet."""
    first, _ = await two_steps(machines.at("a"), GitSource(str(repository)))
    zombie, heir = machines.at("a"), machines.at("b")
    number = await heir.restore(first)
    (zombie.path(1) / "by").write_text("zombie\n")
    (heir.path(number) / "by").write_text("heir\n")
    await zombie.snapshot(1)
    ours = await heir.snapshot(number)
    (zombie.path(1) / "by").write_text("heir\n")
    (zombie.path(1) / "one").write_text("1\n")
    (zombie.path(1) / "one").chmod(0o644)
    assert await zombie.snapshot(1) == Snapshot(ours.tree, ours.manifest, bytes_stored=5)
    assert len(list((machines.depot._root / "runs" / RUN / "trees").glob(f"{ours.tree}-*"))) == 2
    # What the other one has sent under way is not what the heir builds on, although both hold the same in the end.
    (heir.path(number) / "next").write_text("heir\n")
    after = await heir.snapshot(number)
    there = machines.at("c")
    assert (there.path(await there.restore(after)) / "next").read_text() == "heir\n"
    assert (there.path(await there.restore(ours)) / "by").read_text() == "heir\n"


async def test_checkpoints_of_a_run_driven_elsewhere_are_adopted_and_become_our_own(
    machines: Machines, repository: Path
) -> None:
    source = GitSource(str(repository))
    first, second = await two_steps(machines.at("a"), source)
    here = machines.at("b", "run-2")
    await here.create(source)
    gone = Snapshot("0" * 40, "sha256:" + "0" * 64)
    adopted = await here.adopt(machines.run_dir("b"), [first, second, gone])
    assert (adopted.count, adopted.problem is not None) == (2, True)
    shutil.rmtree(machines.run_dir("a"))
    shutil.rmtree(machines.depot._root / "runs" / RUN)
    there = machines.at("c", "run-2")
    assert (there.path(await there.restore(second)) / "one").read_text() == "changed\n"


async def test_what_a_killed_driver_left_on_its_way_is_cleared(machines: Machines, repository: Path) -> None:
    first, _ = await two_steps(machines.at("a"), FolderSource(str(repository)))
    left = machines.run_dir("a") / "private" / ".carried-0123"
    left.mkdir()
    (left / "part").write_text("half")
    here = machines.at("a")
    (here.path(1) / "more").write_text("1")
    await here.snapshot(1)
    assert not left.exists()
    assert await here.restore(first) == 2


async def test_a_driver_that_was_replaced_is_told_so_when_it_sends(
    machines: Machines, repository: Path
) -> None:
    frozen = machines.at("a", files=RunFolder(machines.run_dir("a")).driven(1))
    await two_steps(frozen, FolderSource(str(repository)))
    RunFolder(machines.run_dir("a")).driven(2)
    (frozen.path(1) / "more").write_text("1")
    with pytest.raises(LeaseLost):
        await frozen.snapshot(1)


async def test_what_a_driver_fetches_lies_in_its_own_folder_meanwhile(machines: Machines) -> None:
    """Or nobody would ever remove what a killed one leaves of it: the plan, as it is to be run."""
    sender, files = RunFolder(machines.run_dir("a")), RunFolder(machines.run_dir("b")).driven(1)
    sender.write_plan(b"as it is to be run" * 1_000)
    await PrivateParcels(machines.parcels(RUN), sender).send(0)
    half_there = set[str]()
    machines.depot.hear = lambda: half_there.update(
        path.parent.name for path in files.root.rglob("*") if path.is_file()
    )
    assert await PrivateParcels(machines.parcels(RUN), files).fetch(replace=True)
    assert half_there == {".epoch-1"}
