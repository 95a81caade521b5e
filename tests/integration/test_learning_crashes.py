"""Killed at any instant, and several processes at once: what serves is all-old or all-new."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.learning_child import WORKFLOW, parts, stored

from recoup.errors import LearningError
from recoup.learning.folder import folder_name
from recoup.learning.store import VersionedStore

CHILD = Path(__file__).with_name("learning_child.py")

Child = subprocess.Popen[str]
Starter = Callable[..., Child]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "learning"


@pytest.fixture
def start(base: Path) -> Iterator[Starter]:
    children: list[Child] = []

    def starter(mode: str, *rest: object) -> Child:
        command = [sys.executable, str(CHILD), mode, str(base), *map(str, rest)]
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return children[-1]

    yield starter
    for child in children:
        child.kill()
        child.communicate()


def filled(base: Path, marks: str = "abcd") -> VersionedStore:
    store = VersionedStore(base)
    for mark in marks:
        stored(store, mark)
    return store


def seen(base: Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """What serves, and which versions there are: all whole."""
    store = VersionedStore(base)
    loaded, listed = store.current(WORKFLOW), store.list_versions(WORKFLOW)
    assert not [info.trouble for info in listed if info.trouble]
    assert loaded is None or not loaded.trouble
    return dict(loaded.components) if loaded is not None else {}, tuple(info.version_id for info in listed)


ALL = ("v000001", "v000002", "v000003", "v000004")
DEEDS = {
    "snapshot": ((parts("d"), ALL), (parts("new"), (*ALL, "v000005"))),
    "rollback": ((parts("d"), ALL), (parts("c"), ALL)),
    "named": ((parts("d"), ALL), (parts("a"), ALL)),
    "cleanup": ((parts("d"), ALL), (parts("d"), ("v000003", "v000004"))),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_killed_at_any_call_it_is_all_old_or_all_new(base: Path, start: Starter, deed: str) -> None:
    filled(base)
    old, new = DEEDS[deed]
    found = [assert_whole(base.with_name(name), old, new) for name in killed_copies(start, deed)]
    assert set(found) == {True, False} or old == new, "cuts before and after the one that decides"
    assert len(found) >= 4


def test_killed_at_any_call_of_the_first_version(base: Path, start: Starter) -> None:
    old, new = (dict[str, bytes](), ()), (parts("new"), ("v000001",))
    found = [assert_whole(base.with_name(name), old, new) for name in killed_copies(start, "snapshot")]
    assert set(found) == {True, False}


def killed_copies(start: Starter, deed: str) -> list[str]:
    out, err = start("die", deed).communicate(timeout=100)
    told = [line.split() for line in out.splitlines()]
    assert told and told[-1][0] == "whole", f"not every call was reached: {err}"
    return [name for how, name in told if how == "killed"]


def assert_whole(
    base: Path,
    old: tuple[dict[str, bytes], tuple[str, ...]],
    new: tuple[dict[str, bytes], tuple[str, ...]],
) -> bool:
    """True: all-new. And work goes on, over whatever was left half done."""
    found = seen(base)
    assert found in (old, new), f"{base.name}: {found[1]}"
    version = stored(VersionedStore(base), "next")
    assert seen(base) == (parts("next"), (*found[1], version))
    left = [path.name for path in (base / folder_name(WORKFLOW)).rglob(".*")]
    assert not left, f"{base.name}: left {left}"
    return found == new


def test_several_processes_at_once_lose_nothing(base: Path, start: Starter) -> None:
    filled(base, "a")
    reader = start("read")
    assert reader.stdout is not None
    first = reader.stdout.readline()
    writers = [start("snapshots", f"p{number}", 15) for number in range(3)]
    told: list[str] = []
    for writer in writers:
        out, err = writer.communicate(timeout=100)
        assert writer.returncode == 0, err
        told += out.split()
    assert sorted(told) == [f"v{number:06d}" for number in range(2, 47)], "each number once"
    assert reader.poll() is None, reader.communicate()[1]
    read = [first.strip()]
    for line in reader.stdout:
        read.append(line.strip())
        if read[-1] == "v000046":
            break
    reader.kill()
    assert len(set(read)) > 1 and read == sorted(read)
    assert len(seen(base)[1]) <= 4


def test_a_version_that_another_process_uses_is_not_removed(base: Path, start: Starter) -> None:
    store = filled(base)
    holder = start("hold", "v000001")
    assert holder.stdout and holder.stdout.readline() == "held\n"
    assert store.cleanup_old_versions(WORKFLOW, keep=1) == ("v000002", "v000003")
    holder.kill()
    holder.wait()
    assert store.cleanup_old_versions(WORKFLOW, keep=1) == ("v000001",), "the dead hold nothing"


def test_waiting_for_another_writer_has_an_end(base: Path, start: Starter) -> None:
    filled(base)
    holder = start("lock")
    assert holder.stdout and holder.stdout.readline() == "held\n"
    with pytest.raises(
        LearningError, match=r"another process has been writing what 'approve invoices' learned"
    ):
        stored(VersionedStore(base, wait_s=0.05), "e")
    assert seen(base)[0] == parts("d"), "readers wait for nobody"
    holder.communicate("\n", timeout=60)
    assert stored(VersionedStore(base), "e") == "v000005"
