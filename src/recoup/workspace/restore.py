"""Brings a checkpoint back: laid out aside, then compared with what the checkpoint says."""

# ruff: noqa: PTH101, PTH211
# File names are bytes here, which pathlib does not take.

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from recoup.errors import CheckpointBroken
from recoup.files.folders import make_folder
from recoup.workspace.checkpoint import USUAL_FOLDER_MODE, Place, describe, look
from recoup.workspace.git import Git, GitFailed
from recoup.workspace.index import Entry, with_status
from recoup.workspace.manifest import Manifest, StoredFolder, digest_of
from recoup.workspace.names import bytes_of, joined, shown
from recoup.workspace.store import PINNED, Store, checked_id
from recoup.workspace.trees import EXECUTABLE, LINK


class _File(NamedTuple):
    path: bytes
    kind: bytes
    mode: int
    id: str


def lay_out(store: Store, manifest: Manifest, root: bytes) -> None:
    """Into a folder that does not exist yet."""
    check_pinned(store, manifest.pinned)
    folders: dict[bytes, int] = {}
    files: list[_File] = []
    for at, stored in _stored_folders(manifest):
        files += _listed(store, at, stored, folders)
    _make_folders(root, folders)
    for path, link in manifest.gitfiles.items():
        _write(joined(root, _safe(bytes_of(path))), 0o644, iter((bytes_of(link),)))
    indexes = {joined(bytes_of(path), b"index") for path in manifest.git_folders}
    files.sort(key=lambda file: file.path in indexes)  # They tell the status of the other files.
    placed = {file.path: file for file in files}
    for file, content in zip(files, store.contents([file.id for file in files]), strict=True):
        _place(root, file, _index(root, file, content, placed) if file.path in indexes else content)
    _set_modes(root, folders)


def verify(git: Git, place: Place, manifest: Manifest) -> None:
    """Looks at the restored workspace as if for a new checkpoint; that must come out the same."""
    left_out = {bytes_of(path) for path in manifest.left_out}
    found = describe(look(git, place), place.origin, left_out).manifest
    if found != manifest or digest_of(found.encoded()) != digest_of(manifest.encoded()):
        raise CheckpointBroken(
            f"the restored workspace is not what the checkpoint says: {_difference(found, manifest)}"
        )


def check_pinned(store: Store, commit: str | None) -> None:
    """What the workspace borrows from the store: the pinned commit whole, every other tip at least there."""
    if commit is None:
        return
    try:
        store.git("rev-list", "--quiet", "--no-walk", "--objects", checked_id(commit), PINNED, "--")
        store.git("rev-list", "--quiet", "--no-walk", "--all", "--")
    except GitFailed as error:
        raise CheckpointBroken(f"the pinned commit {commit} is gone from the store: {error.stderr}") from None


def _stored_folders(manifest: Manifest) -> Iterator[tuple[bytes, StoredFolder]]:
    yield b"", manifest.work
    for path, stored in sorted(manifest.git_folders.items()):
        yield _safe(bytes_of(path)), stored


def _listed(store: Store, at: bytes, stored: StoredFolder, folders: dict[bytes, int]) -> Iterator[_File]:
    """The files of one tree; its folders are added to `folders`."""
    modes = {bytes_of(path): _mode(mode) for path, mode in stored.modes.items()}
    folders[at] = USUAL_FOLDER_MODE
    for kind, id_, path in _entries(store, stored.tree):
        if kind == b"040000":
            folders[joined(at, path)] = USUAL_FOLDER_MODE
        else:
            usual = 0o755 if kind == EXECUTABLE else 0o644
            yield _File(joined(at, path), kind, modes.get(path, usual), id_)
    for folder, mode in stored.folders.items():
        folders[joined(at, _safe(bytes_of(folder))) if folder else at] = _mode(mode)


def _entries(store: Store, tree: str) -> Iterator[tuple[bytes, str, bytes]]:
    try:
        listed = store.git("ls-tree", "-r", "-t", "-z", "--full-tree", checked_id(tree))
    except GitFailed as error:
        raise CheckpointBroken(
            f"a tree of the checkpoint is missing or damaged: {tree}: {error.stderr}"
        ) from None
    for line in listed.split(b"\0")[:-1]:
        meta, _, path = line.partition(b"\t")
        kind, _, id_ = meta.split(b" ")
        yield kind, id_.decode(), _safe(path)


def _safe(path: bytes) -> bytes:
    """A store or manifest that was tampered with must not write outside of the new workspace."""
    if not path or any(part in (b"", b".", b"..") for part in path.split(b"/")) or b"\0" in path:
        raise CheckpointBroken(f"the checkpoint holds a path that leads elsewhere: {shown(path)}")
    return path


def _make_folders(root: bytes, folders: Iterable[bytes]) -> None:
    for folder in sorted(folders):
        make_folder(Path(os.fsdecode(joined(root, folder))))


def _place(root: bytes, file: _File, content: Iterator[bytes]) -> None:
    path = joined(root, file.path)
    if file.kind == LINK:
        os.symlink(b"".join(content), path)
    else:
        _write(path, file.mode, content)


def _index(
    root: bytes, index: _File, content: Iterator[bytes], placed: dict[bytes, _File]
) -> Iterator[bytes]:
    """With the status of the files as they are now, so that git finds them unchanged without reading them."""
    repository = index.path.removesuffix(b".git/index")

    def status_of(entry: Entry) -> os.stat_result | None:
        file = placed.get(repository + entry.path)
        is_same = file is not None and file.id == entry.id and int(file.kind, 8) == entry.mode
        return os.lstat(joined(root, repository + entry.path)) if is_same else None

    yield with_status(b"".join(content), status_of)


def _write(path: bytes, mode: int, content: Iterator[bytes]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        for chunk in content:
            _write_all(fd, chunk)
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _write_all(fd: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(fd, view) :]


def _set_modes(root: bytes, folders: dict[bytes, int]) -> None:
    """The deepest first: a folder may be closed to its owner."""
    for folder in sorted(folders, reverse=True):
        os.chmod(joined(root, folder), folders[folder])


def _mode(octal: str) -> int:
    try:
        mode = int(octal, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o7777:
        raise CheckpointBroken(f"the manifest of the checkpoint holds a mode that is none: {octal!r}")
    return mode


def _difference(found: Manifest, wanted: Manifest) -> str:
    if found.work.tree != wanted.work.tree:
        return f"its tree is {found.work.tree}, not {wanted.work.tree}"
    names = [name for name in Manifest.__struct_fields__ if getattr(found, name) != getattr(wanted, name)]
    return f"it differs in {', '.join(names)}"
