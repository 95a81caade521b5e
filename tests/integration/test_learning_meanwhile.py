"""What others do between two of our calls: nobody is told of damage that there is not, and nothing in use is removed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.learning_child import WORKFLOW, parts, stored

from recoup.errors import LearningError, VersionDamaged
from recoup.learning import folder as folder_module
from recoup.learning import stamped
from recoup.learning.folder import WorkflowFolder, folder_name
from recoup.learning.store import VersionedStore


@pytest.fixture
def store(tmp_path: Path) -> VersionedStore:
    made = VersionedStore(tmp_path / "learning", wait_s=0.05)
    for mark in "abc":
        stored(made, mark)
    return made


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    return tmp_path / "learning" / folder_name(WORKFLOW) / "versions"


def once_before(patch: pytest.MonkeyPatch, owner: Any, name: str, deed: Callable[[], object]) -> None:
    """Somebody does this just before our next such call."""
    call = getattr(owner, name)

    def late(*arguments: Any, **named: Any) -> Any:
        patch.setattr(owner, name, call)
        deed()
        return call(*arguments, **named)

    patch.setattr(owner, name, late)


def test_what_was_replaced_and_removed_is_looked_for_again(store: VersionedStore, monkeypatch: Any) -> None:
    def others() -> None:
        stored(store, "d")
        assert len(store.cleanup_old_versions(WORKFLOW, keep=1)) == 3

    once_before(monkeypatch, WorkflowFolder, "read", others)
    loaded = store.current(WORKFLOW)
    assert loaded is not None and loaded.components == parts("d") and not loaded.trouble


def test_an_ancestor_does_not_serve_for_what_was_only_removed(
    store: VersionedStore, monkeypatch: Any
) -> None:
    def others() -> None:
        store.rollback_to_previous(WORKFLOW)
        stored(store, "d")
        assert store.cleanup_old_versions(WORKFLOW, keep=2) == ("v000001", "v000003")

    once_before(monkeypatch, WorkflowFolder, "read", others)
    loaded = store.current(WORKFLOW)
    assert loaded is not None and loaded.components == parts("d") and not loaded.trouble


def test_versions_removed_while_they_are_listed_are_not_damaged(
    store: VersionedStore, monkeypatch: Any
) -> None:
    once_before(monkeypatch, WorkflowFolder, "read", lambda: store.cleanup_old_versions(WORKFLOW, keep=1))
    assert [(info.version_id, info.trouble) for info in store.list_versions(WORKFLOW)] == [("v000003", "")]


def test_a_version_that_is_being_removed_cannot_be_pinned(store: VersionedStore, versions: Path) -> None:
    handle = os.open(versions / "v000001", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with (
        pytest.raises(VersionDamaged, match="v000001 is being removed"),
        store._folder(WORKFLOW).pinned("v000001"),
    ):
        pass
    os.close(handle)


@pytest.mark.parametrize("another", [True, False])
def test_a_version_removed_between_opening_and_locking_is_not_pinned(
    store: VersionedStore, versions: Path, monkeypatch: Any, another: bool
) -> None:
    def others() -> None:
        shutil.rmtree(versions / "v000001")
        if another:
            shutil.copytree(versions / "v000002", versions / "v000001")

    once_before(monkeypatch, folder_module, "_locked", others)
    with pytest.raises(VersionDamaged, match="not there any more"), store._folder(WORKFLOW).pinned("v000001"):
        pass


def test_leftovers_that_somebody_still_reads_stay_until_the_next_time(
    store: VersionedStore, versions: Path
) -> None:
    """Left by a clean-up that was killed after the pointer had been swapped."""
    shutil.copytree(versions / "v000001", versions / "v000009")
    handle = os.open(versions / "v000009", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    stored(store, "d")
    assert (versions / "v000009").exists()
    os.close(handle)
    stored(store, "e")
    assert sorted(path.name for path in versions.iterdir()) == [f"v{number:06d}" for number in range(1, 6)]


def test_files_that_may_not_be_read_are_trouble_and_not_damage(
    store: VersionedStore, monkeypatch: Any
) -> None:
    """The rest would be taken for good, and what cannot be read just now for lost."""

    def refused() -> None:
        raise PermissionError(13, "Permission denied", "manifest.json")

    once_before(monkeypatch, stamped, "open_named", refused)
    with pytest.raises(LearningError, match="Permission denied") as caught:
        store.current(WORKFLOW)
    assert not isinstance(caught.value, VersionDamaged)


def test_a_version_goes_up_to_an_event(store: VersionedStore) -> None:
    with pytest.raises(LearningError, match="none has the number -1"):
        stored(store, "d", -1)
