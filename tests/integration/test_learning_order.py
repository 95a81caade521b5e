"""A power cut loses what was not synced: all that a pointer names is synced before the pointer is swapped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.learning_child import WORKFLOW, stored

from recoup.learning.store import VersionedStore


class Disk:
    """What the disk may still lose: files and folders that were changed and not synced since."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.unsynced: set[Path] = set()
        self.at_swap: list[set[Path]] = []
        """What could have been lost at each swap of the pointer or its copy."""
        for name in ("write", "fsync", "mkdir", "rename", "replace"):
            patch.setattr(os, name, self._watched(getattr(os, name), getattr(self, f"_{name}")))

    def _watched(self, call: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            done = call(*arguments, **named)
            note(*arguments)
            return done

        return watched

    def _write(self, handle: int, _: bytes) -> None:
        self.unsynced.add(_path_of(handle))

    def _fsync(self, handle: int) -> None:
        self.unsynced.discard(_path_of(handle))

    def _mkdir(self, path: Path, _: int = 0) -> None:
        self.unsynced.add(Path(path).parent)

    def _rename(self, old: Path, new: Path) -> None:
        if Path(new).name.startswith("current"):
            self.at_swap.append(set(self.unsynced))
        self.unsynced = {
            Path(new) / path.relative_to(old) if path.is_relative_to(old) else path for path in self.unsynced
        }
        self.unsynced.add(Path(new).parent)

    _replace = _rename


def _path_of(handle: int) -> Path:
    return Path(f"/proc/self/fd/{handle}").readlink()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_everything_is_synced_before_it_is_pointed_at(tmp_path: Path, disk: Disk) -> None:
    store = VersionedStore(tmp_path / "state" / "learning")
    (tmp_path / "state").mkdir()
    disk.unsynced.clear()
    for mark in "abc":
        stored(store, mark)
    store.rollback_to_previous(WORKFLOW)
    store.cleanup_old_versions(WORKFLOW, keep=1)
    assert len(disk.at_swap) == 2 * (1 + 3 + 1 + 1), (
        "the first pointer, three versions, back, clean-up; with the copies"
    )
    assert not [lost for lost in disk.at_swap if lost]
    assert not disk.unsynced
    assert [info.version_id for info in store.list_versions(WORKFLOW)] == ["v000002"]


def test_a_write_that_is_not_synced_would_be_seen(tmp_path: Path, disk: Disk) -> None:
    handle = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(handle, b"x")
    assert disk.unsynced == {tmp_path / "file"}
    os.fsync(handle)
    os.close(handle)
    assert not disk.unsynced
    os.rename(tmp_path / "file", tmp_path / "current")  # noqa: PTH104 the call itself is what is watched
    assert disk.unsynced == {tmp_path} and disk.at_swap == [set()]
