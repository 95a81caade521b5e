"""A process that uses a store of versions until it ends or is killed: `python learning_child.py MODE BASE …`.

Every line that it prints stands for something that has happened.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from recoup.learning.store import VersionedStore
from recoup.model.instant import Instant
from recoup.testing.dying import die_at

WORKFLOW = "approve invoices"
NOW = Instant(1_800_000_000_000_000, 1, "boot")
CALLS_MAX = 300


def say(*words: object) -> None:
    print(*words, flush=True)


def parts(mark: str) -> dict[str, bytes]:
    """Components that say which version they belong to."""
    return {name: f"{name} of {mark} ".encode() * 50 for name in ("prototypes", "index", "memory")}


def stored(store: VersionedStore, mark: str, up_to: int = 1) -> str:
    return store.snapshot_version(WORKFLOW, parts(mark), up_to=up_to, now=NOW).version_id


def perform(deed: str, base: Path) -> None:
    store = VersionedStore(base)
    match deed:
        case "snapshot":
            stored(store, "new", 9)
        case "rollback":
            store.rollback_to_previous(WORKFLOW)
        case "named":
            store.rollback_to_previous(WORKFLOW, "v000001")
        case "cleanup":
            store.cleanup_old_versions(WORKFLOW, keep=2)


def die_at_every_call(prepared: Path, deed: str) -> None:
    """For each call that changes a file or a folder: a copy, and a process that is killed in the midst of this call."""
    for number in range(1, CALLS_MAX):
        base = prepared.with_name(f"{prepared.name}-{deed}-{number}")
        if prepared.exists():
            shutil.copytree(prepared, base)
        child = os.fork()
        if child == 0:
            die_at(number, CUTS)
            perform(deed, base)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            say("whole", base.name)
            return
        assert os.WIFSIGNALED(status), status
        say("killed", base.name)


CUTS = dict.fromkeys(("fsync", "rename", "replace", "mkdir", "rmdir", "unlink")) | {"write": 1}


def snapshots(base: Path, name: str, rounds: int) -> None:
    """As several drivers of one workflow do it, each with a clean-up."""
    store = VersionedStore(base)
    for number in range(rounds):
        version = stored(store, f"{name}-{number}")
        store.cleanup_old_versions(WORKFLOW, keep=3)
        say(version)


def read_for_ever(base: Path) -> None:
    """Says what it read, as long as all parts were of one version."""
    store = VersionedStore(base)
    while True:
        loaded = store.current(WORKFLOW)
        assert loaded is not None
        assert not loaded.trouble, loaded.trouble
        marks = {data.split(b" of ", 1)[1].split(b" ")[0] for data in loaded.components.values()}
        assert len(marks) == 1, marks
        assert not [info.trouble for info in store.list_versions(WORKFLOW) if info.trouble]
        say(loaded.info.version_id)


def hold(base: Path, version: str) -> None:
    with VersionedStore(base)._folder(WORKFLOW).pinned(version):
        say("held")
        sys.stdin.readline()
    say("released")


def hold_the_lock(base: Path) -> None:
    store = VersionedStore(base)
    with store._writing(WORKFLOW):
        say("held")
        sys.stdin.readline()


def main(mode: str, base: Path, *rest: str) -> None:
    match mode:
        case "die":
            die_at_every_call(base, rest[0])
        case "snapshots":
            snapshots(base, rest[0], int(rest[1]))
        case "read":
            read_for_ever(base)
        case "hold":
            hold(base, rest[0])
        case "lock":
            hold_the_lock(base)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
