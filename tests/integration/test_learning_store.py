"""Versions of what was learned, on a real file system: stored whole, gone back to whole, cleaned up with care."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.integration.learning_child import NOW, WORKFLOW, parts, stored

from recoup.errors import LearningError
from recoup.learning import store as store_module
from recoup.learning.folder import NAME_CHARS_MAX, folder_name
from recoup.learning.store import VersionedStore
from recoup.learning.versions import COMPONENTS_MAX, VERSIONS_MAX


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "learning"


@pytest.fixture
def store(base: Path) -> VersionedStore:
    return VersionedStore(base)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with room for 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def served(store: VersionedStore) -> dict[str, bytes]:
    loaded = store.current(WORKFLOW)
    assert loaded is not None and not loaded.trouble
    return dict(loaded.components)


def names(store: VersionedStore) -> list[str]:
    return [info.version_id for info in store.list_versions(WORKFLOW)]


def test_nothing_is_there_before_the_first_version(store: VersionedStore, base: Path) -> None:
    assert store.current(WORKFLOW) is None
    assert store.list_versions(WORKFLOW) == []
    assert not base.exists(), "looking makes nothing"


def test_a_version_comes_back_as_it_was_stored(store: VersionedStore) -> None:
    made = store.snapshot_version(WORKFLOW, parts("a"), up_to=7, success_rate_before=0.9, now=NOW)
    loaded = store.current(WORKFLOW)
    assert loaded is not None
    assert loaded.components == parts("a")
    assert loaded.info == made
    assert (made.version_id, made.workflow_id, made.up_to) == ("v000001", WORKFLOW, 7)
    assert made.created_at == NOW.iso() and made.success_rate_before == 0.9
    assert made.components_versioned == ("index", "memory", "prototypes")
    assert VersionedStore(store._base).list_versions(WORKFLOW) == [made]


def test_a_version_has_the_name_that_others_know_it_by(store: VersionedStore) -> None:
    made = store.snapshot_version(WORKFLOW, parts("a"), up_to=7, now=NOW, version="v000012")
    assert made.version_id == "v000012"
    assert store.snapshot_version(WORKFLOW, parts("b"), up_to=8, now=NOW).version_id == "v000013"
    for name in ("v000012", "../v000020", "12"):
        with pytest.raises(LearningError, match=r"has a version|no version's name"):
            store.snapshot_version(WORKFLOW, parts("c"), up_to=9, now=NOW, version=name)


def test_a_version_is_discarded_alone_or_with_all_the_others(store: VersionedStore, base: Path) -> None:
    for mark in "abc":
        store.snapshot_version(WORKFLOW, parts(mark), up_to=1, now=NOW)
    store.discard(WORKFLOW, "v000003")
    assert names(store) == ["v000001", "v000002"] and served(store) == parts("b"), "what it came from serves"
    assert store.snapshot_version(WORKFLOW, parts("d"), up_to=2, now=NOW, version="v000003").current
    assert served(store) == parts("d")
    store.discard(WORKFLOW)
    assert names(store) == [] and store.current(WORKFLOW) is None
    assert not list(base.rglob("*.part"))


def test_going_back_follows_what_a_version_came_from(store: VersionedStore) -> None:
    for mark in "abc":
        stored(store, mark)
    assert store.rollback_to_previous(WORKFLOW).version_id == "v000002"
    assert served(store) == parts("b")
    assert stored(store, "d") == "v000004", "no number is given twice"
    assert store.rollback_to_previous(WORKFLOW).version_id == "v000002", (
        "what was taken back stays taken back"
    )
    assert store.rollback_to_previous(WORKFLOW).version_id == "v000001"
    with pytest.raises(LearningError, match="no earlier version"):
        store.rollback_to_previous(WORKFLOW)
    assert served(store) == parts("a")


def test_a_named_version_is_gone_back_to_or_forward(store: VersionedStore) -> None:
    for mark in "abc":
        stored(store, mark)
    assert store.rollback_to_previous(WORKFLOW, "v000001").current
    assert store.rollback_to_previous(WORKFLOW, "v000003").components_versioned
    assert served(store) == parts("c")
    with pytest.raises(LearningError, match=r"no version 'v9'; there are: v000001, v000002, v000003"):
        store.rollback_to_previous(WORKFLOW, "v9")


def test_cleaning_up_keeps_the_current_one_and_the_newest(store: VersionedStore) -> None:
    for mark in "abcdefg":
        stored(store, mark)
    assert store.cleanup_old_versions(WORKFLOW, keep=5) == ("v000001", "v000002")
    store.rollback_to_previous(WORKFLOW, "v000003")
    assert store.cleanup_old_versions(WORKFLOW, keep=2) == ("v000004", "v000005", "v000006")
    assert names(store) == ["v000003", "v000007"]
    assert stored(store, "h") == "v000008"
    with pytest.raises(LearningError, match="at least one"):
        store.cleanup_old_versions(WORKFLOW, keep=0)


def test_what_is_cleaned_up_leaves_no_file(store: VersionedStore, base: Path) -> None:
    for mark in "abc":
        stored(store, mark)
    store.cleanup_old_versions(WORKFLOW, keep=1)
    left = {path.name for path in (base / folder_name(WORKFLOW)).rglob("*") if path.is_dir()}
    assert left == {"versions", "v000003"}


def test_a_pinned_version_is_passed_by(store: VersionedStore) -> None:
    for mark in "abc":
        stored(store, mark)
    with store._folder(WORKFLOW).pinned("v000001"):
        assert VersionedStore(store._base).cleanup_old_versions(WORKFLOW, keep=1) == ("v000002",)
        assert store.load(WORKFLOW, "v000001").components == parts("a")
    assert store.cleanup_old_versions(WORKFLOW, keep=1) == ("v000001",)


def test_only_the_owner_may_read(store: VersionedStore, base: Path) -> None:
    stored(store, "a")
    for path in [base, *base.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@given(first=st.text(min_size=1, max_size=60), second=st.text(min_size=1, max_size=60))
def test_any_name_is_one_safe_folder_of_its_own(first: str, second: str) -> None:
    name = folder_name(first)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") and len(name) <= 80
    assert (name == folder_name(second)) == (first == second)


@pytest.mark.parametrize("name", ["../../etc", "a/b", "\0", ".", "ü" * NAME_CHARS_MAX, "CON", "-", "a\nb"])
def test_workflows_with_strange_names_are_kept_apart(store: VersionedStore, base: Path, name: str) -> None:
    store.snapshot_version(name, parts("strange"), up_to=1, now=NOW)
    stored(store, "plain")
    loaded = store.current(name)
    assert loaded is not None and loaded.components == parts("strange")
    assert len(list(base.iterdir())) == 2


@pytest.mark.parametrize("name", ["", "x" * (NAME_CHARS_MAX + 1), "\ud800"])
def test_names_that_cannot_be_are_refused(store: VersionedStore, name: str) -> None:
    with pytest.raises(LearningError, match="name of a workflow"):
        store.snapshot_version(name, parts("a"), up_to=1, now=NOW)


@pytest.mark.parametrize(
    "components", [{}, {"../x": b""}, {"Manifest": b""}, {f"c{n}": b"" for n in range(COMPONENTS_MAX + 1)}]
)
def test_components_that_cannot_be_are_refused(store: VersionedStore, components: dict[str, bytes]) -> None:
    with pytest.raises(LearningError, match="component"):
        store.snapshot_version(WORKFLOW, components, up_to=1, now=NOW)
    assert store.current(WORKFLOW) is None


def test_a_component_has_a_limit(store: VersionedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "COMPONENT_BYTES_MAX", 10)
    with pytest.raises(LearningError, match="memory has 11 bytes"):
        store.snapshot_version(WORKFLOW, {"memory": b"x" * 11}, up_to=1, now=NOW)


def test_versions_have_a_limit(store: VersionedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert VERSIONS_MAX == 100
    monkeypatch.setattr(store_module, "VERSIONS_MAX", 2)
    stored(store, "a")
    stored(store, "b")
    with pytest.raises(LearningError, match="Clean up"):
        stored(store, "c")


def test_a_full_disk_leaves_everything_as_it_was(small_disk: Path) -> None:
    store = VersionedStore(small_disk / "learning")
    stored(store, "a")
    before = store.list_versions(WORKFLOW)
    with pytest.raises(LearningError, match="No space left"):
        store.snapshot_version(WORKFLOW, {"memory": b"x", "index": b"x" * (2 << 20)}, up_to=2, now=NOW)
    assert store.list_versions(WORKFLOW) == before
    assert served(store) == parts("a")
    assert stored(store, "b") == "v000002", "what was begun does not fill the disk"


def test_a_disk_that_fills_up_anywhere_leaves_everything_as_it_was(small_disk: Path) -> None:
    """By every page that is left: components, manifest, the pointer and its copy all meet the end of the disk."""
    store, filler = VersionedStore(small_disk / "learning"), small_disk / "filler"
    stored(store, "a")
    refused = 0
    for pages in range(16):
        filler.write_bytes(b"")
        free = os.statvfs(small_disk).f_bavail * 4096
        filler.write_bytes(b"x" * (free - pages * 4096))
        before = store.list_versions(WORKFLOW)
        if is_refused(store, f"p{pages}"):
            refused += 1
            assert store.list_versions(WORKFLOW) == before
        assert served(store)
    filler.unlink()
    assert 3 <= refused < 16
    assert served(store) == parts("p15")


def is_refused(store: VersionedStore, mark: str) -> bool:
    try:
        stored(store, mark)
    except LearningError as error:
        if "No space left" not in str(error):
            raise
        return True
    return False


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "learning").write_text("a file")
    with pytest.raises(LearningError, match="state folder cannot be used"):
        stored(VersionedStore(tmp_path / "learning"), "a")


class Versions(RuleBasedStateMachine):
    """Property 4: whatever is stored, gone back to and cleaned up, what serves is all of one version."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = VersionedStore(Path(self.folder.name))
        self.made: dict[str, tuple[str, tuple[str, ...]]] = {}
        """By version: its mark, and what it came from."""
        self.current = ""

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(mark=st.text("abcdefgh", min_size=1, max_size=4))
    def snapshot(self, mark: str) -> None:
        came_from = (self.current, *self.made[self.current][1]) if self.current else ()
        self.current = stored(self.store, mark)
        self.made[self.current] = mark, came_from

    @precondition(lambda self: self.current)
    @rule()
    def go_back(self) -> None:
        there = [name for name in self.made[self.current][1] if name in self.made]
        if there:
            assert self.store.rollback_to_previous(WORKFLOW).version_id == there[0]
            self.current = there[0]
        else:
            with pytest.raises(LearningError):
                self.store.rollback_to_previous(WORKFLOW)

    @precondition(lambda self: self.current)
    @rule(data=st.data())
    def go_to(self, data: st.DataObject) -> None:
        self.current = data.draw(st.sampled_from(sorted(self.made)))
        self.store.rollback_to_previous(WORKFLOW, self.current)

    @rule(keep=st.integers(1, 4))
    def clean_up(self, keep: int) -> None:
        removed = self.store.cleanup_old_versions(WORKFLOW, keep)
        assert self.current not in removed
        assert len(self.made) - len(removed) == min(keep, len(self.made))
        for name in removed:
            del self.made[name]

    @invariant()
    def all_of_one_version(self) -> None:
        assert names(self.store) == sorted(self.made)
        loaded = self.store.current(WORKFLOW)
        if not self.current:
            assert loaded is None
        else:
            assert loaded is not None and not loaded.trouble
            assert loaded.info.version_id == self.current
            assert loaded.components == parts(self.made[self.current][0])


Versions.TestCase.settings = settings(
    max_examples=8, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestVersions = Versions.TestCase
