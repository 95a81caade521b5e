"""Every flipped byte, truncation, deletion and swap is found before use; the previous good version serves."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.learning_child import NOW, WORKFLOW, parts, stored

from recoup.errors import LearningError, VersionDamaged
from recoup.learning.folder import folder_name
from recoup.learning.store import VersionedStore

CURRENT = "v000003"
FILES = ("prototypes.part", "index.part", "memory.part", "manifest.json")
POINTERS = ("current", "current.copy")

Harm = Callable[[Path, random.Random], None]


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def lengthen(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(chance.randint(1, 9)))


def delete(path: Path, chance: random.Random) -> None:
    path.unlink()


def swap(path: Path, chance: random.Random) -> None:
    """With a file of the same kind from another version, workflow or place."""
    others = [p for p in path.parents[3].rglob("*") if p.is_file() and p.read_bytes() != path.read_bytes()]
    same = [p for p in others if p.name == path.name] or others
    shutil.copyfile(chance.choice(sorted(same)), path)


def replace_by_folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def replace_by_link(path: Path, chance: random.Random) -> None:
    path.rename(path.with_name("aside"))
    path.symlink_to(path.with_name("aside"))


HARMS: tuple[Harm, ...] = (flip, truncate, lengthen, delete, swap, replace_by_folder, replace_by_link)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("prepared") / "learning"
    store = VersionedStore(base)
    for mark in "abc":
        stored(store, mark)
    store.snapshot_version("another", parts("x"), up_to=1, now=NOW)
    store.snapshot_version("another", parts("y"), up_to=1, now=NOW)
    store.snapshot_version("another", parts("z"), up_to=1, now=NOW)
    return base


@pytest.fixture
def root(prepared: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared, tmp_path / "learning")
    return tmp_path / "learning" / folder_name(WORKFLOW)


@contextmanager
def harmed(path: Path, harm: Harm, chance: random.Random) -> Iterator[None]:
    """And mended afterwards."""
    data = path.read_bytes()
    harm(path, chance)
    yield
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.with_name("aside").unlink(missing_ok=True)
    path.write_bytes(data)


def assert_served(root: Path, mark: str, *words: str) -> None:
    loaded = VersionedStore(root.parent).current(WORKFLOW)
    assert loaded is not None
    assert loaded.components == parts(mark)
    assert all(word in " ".join(loaded.trouble) for word in words), loaded.trouble


@pytest.mark.parametrize("times", [170, pytest.param(1_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_part_is_found_and_the_version_before_serves(root: Path, name: str, times: int) -> None:
    chance, open_files = random.Random(f"{name} {times}"), len([*Path("/proc/self/fd").iterdir()])
    for _ in range(times):
        with harmed(root / "versions" / CURRENT / name, chance.choice(HARMS), chance):
            assert_served(root, "b", CURRENT)
            with pytest.raises(VersionDamaged, match=CURRENT):
                VersionedStore(root.parent).load(WORKFLOW, CURRENT)
        assert_served(root, "c")
    assert len([*Path("/proc/self/fd").iterdir()]) == open_files, "what is damaged is closed, too"


@pytest.mark.parametrize("times", [160, pytest.param(1_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", POINTERS)
def test_a_damaged_pointer_is_found_and_its_copy_serves(root: Path, name: str, times: int) -> None:
    chance = random.Random(f"{name} {times}")
    for _ in range(times):
        with harmed(root / name, chance.choice([harm for harm in HARMS if harm is not swap]), chance):
            assert_served(root, "c", *([f"{root / name}"] if name == "current" else []))


def test_a_pointer_of_another_workflow_is_none(root: Path) -> None:
    other = root.parent / folder_name("another")
    for name in POINTERS:
        shutil.copyfile(other / name, root / name)
    assert_served(root, "c", "that of another workflow", "newest version that is whole")


def test_swapped_versions_are_found(root: Path) -> None:
    versions = root / "versions"
    versions.joinpath("v000002").rename(versions / "aside")
    versions.joinpath(CURRENT).rename(versions / "v000002")
    versions.joinpath("aside").rename(versions / CURRENT)
    assert_served(root, "a", CURRENT, "v000002")


def test_a_version_under_a_manifest_of_its_own_is_not_the_one_that_was_meant(
    root: Path, tmp_path: Path
) -> None:
    """Whole, and of this workflow, and with this name: but not what was stored here."""
    store = VersionedStore(tmp_path / "elsewhere")
    for mark in "ABC":
        stored(store, mark)
    shutil.rmtree(root / "versions" / CURRENT)
    shutil.copytree(tmp_path / "elsewhere" / root.name / "versions" / CURRENT, root / "versions" / CURRENT)
    assert_served(root, "b", "not the version that the pointer means")


def test_one_flipped_byte_does_not_undo_going_back(root: Path) -> None:
    store = VersionedStore(root.parent)
    store.rollback_to_previous(WORKFLOW)
    flip(root / "current", random.Random(1))
    assert_served(root, "b", "the pointer")
    stored(store, "d")
    assert_served(root, "d")
    assert store.rollback_to_previous(WORKFLOW).version_id == "v000002"


def test_what_was_taken_back_does_not_serve_where_the_rest_is_damaged(root: Path) -> None:
    store = VersionedStore(root.parent)
    store.rollback_to_previous(WORKFLOW, "v000001")
    delete(root / "versions" / "v000001" / "index.part", random.Random(1))
    with pytest.raises(LearningError, match="no version of what 'approve invoices' learned can be used"):
        store.current(WORKFLOW)
    stored(store, "d")
    assert_served(root, "d")


@pytest.mark.parametrize("harm", [flip, truncate, delete])
def test_without_any_pointer_the_newest_good_version_serves(root: Path, harm: Harm) -> None:
    for name in POINTERS:
        harm(root / name, random.Random(3))
    flip(root / "versions" / CURRENT / "memory.part", random.Random(3))
    assert_served(root, "b", "newest version that is whole is taken")
    store = VersionedStore(root.parent)
    assert [bool(info.trouble) for info in store.list_versions(WORKFLOW)] == [False, False, True]
    assert stored(store, "d") == "v000004", "also a damaged one keeps its number"
    assert_served(root, "d")


def test_where_nothing_is_good_it_is_said_and_work_can_go_on(root: Path) -> None:
    chance, store = random.Random(4), VersionedStore(root.parent)
    for path in [*root.glob("current*"), *root.rglob("manifest.json")]:
        truncate(path, chance)
    with pytest.raises(LearningError, match=r"no version of what .* can be used: the pointer"):
        store.current(WORKFLOW)
    with pytest.raises(LearningError, match="no earlier version"):
        store.rollback_to_previous(WORKFLOW)
    assert stored(store, "d") == "v000004"
    assert_served(root, "d")
    assert store.cleanup_old_versions(WORKFLOW, keep=5) == ("v000001", "v000002", CURRENT)


def test_damaged_versions_are_told_and_cleaned_up(root: Path) -> None:
    store = VersionedStore(root.parent)
    stored(store, "d")
    flip(root / "versions" / CURRENT / "memory.part", random.Random(3))
    flip(root / "versions" / "v000002" / "manifest.json", random.Random(3))
    told = {info.version_id: info for info in store.list_versions(WORKFLOW)}
    assert told[CURRENT].trouble == "memory of v000003 is not as it was written" and told[CURRENT].created_at
    assert told["v000002"].created_at == ""
    assert store.rollback_to_previous(WORKFLOW).version_id == "v000001", "the newest good one before it"
    store.rollback_to_previous(WORKFLOW, "v000004")
    assert store.cleanup_old_versions(WORKFLOW, keep=2) == ("v000002", CURRENT)
    assert_served(root, "d")


def test_a_version_that_is_no_folder_can_be_cleaned_up(root: Path) -> None:
    store = VersionedStore(root.parent)
    shutil.rmtree(root / "versions" / "v000001")
    (root / "versions" / "v000001").write_text("a file")
    shutil.rmtree(root / "versions" / "v000002")
    assert store.cleanup_old_versions(WORKFLOW, keep=3) == ("v000001", "v000002")
    assert [path.name for path in (root / "versions").iterdir()] == [CURRENT]


def test_going_back_to_a_damaged_version_changes_nothing(root: Path) -> None:
    store = VersionedStore(root.parent)
    flip(root / "versions" / "v000001" / "index.part", random.Random(3))
    with pytest.raises(VersionDamaged, match="index of v000001"):
        store.rollback_to_previous(WORKFLOW, "v000001")
    assert_served(root, "c")
