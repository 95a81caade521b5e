"""Packs a store and its checkpoints into files that another machine can unpack, and unpacks them. Nothing that comes in
is trusted: git reads every object back, and a checkpoint counts only if all that it names is there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from recoup.durable import sync_directory, write_whole
from recoup.errors import CheckpointBroken
from recoup.model.workspace import Snapshot
from recoup.workspace import manifest as manifests
from recoup.workspace.adoption import check_whole, trees_of
from recoup.workspace.blobs import CHUNK_BYTES
from recoup.workspace.disk import private_folder, sync_all_below
from recoup.workspace.git import Git, GitFailed
from recoup.workspace.layout import Layout, Origin
from recoup.workspace.manifest import Manifest
from recoup.workspace.restore import check_pinned
from recoup.workspace.store import PINNED, Store, checked_id, make_store

REFS_BYTES_MAX = 256 << 20


class Load(msgspec.Struct, frozen=True):
    """What is in a file: texts of these lengths, one after the other, and the rest is a git pack.

    Of a source its refs and where its history was cut; of a checkpoint its manifest.
    """

    origin: Origin
    refs_bytes: int = 0
    shallow_bytes: int = 0
    manifest_bytes: int = 0


class Packed(NamedTuple):
    load: Load
    path: Path


def pack_source(git: Git, layout: Layout, origin: Origin, into: Path) -> Load:
    """All that the store was made of: what the workspaces borrow from it."""
    refs, shallow = _text(layout.store / "packed-refs"), _text(layout.store / "shallow")
    with _new(into) as file:
        file.write(refs + shallow)
        if refs:
            _pack(git, layout.store, [], file, "--all")
    return Load(origin, refs_bytes=len(refs), shallow_bytes=len(shallow))


def pack_checkpoint(
    git: Git, layout: Layout, origin: Origin, snapshot: Snapshot, without: str | None, into: Path
) -> Load:
    """Its objects, but for those of the source and of the checkpoint whose manifest `without` names."""
    manifest = _manifest(layout, snapshot)
    encoded, wanted = manifest.encoded(), [checked_id(tree) for tree in trees_of(manifest)]
    known = [f"{PINNED}^{{tree}}"] if origin.commit else []
    try:
        if without is not None:
            known += [checked_id(tree) for tree in trees_of(manifests.load(layout.manifests, without))]
        _write_checkpoint(git, layout, encoded, [*wanted, *(f"^{tree}" for tree in known)], into)
    except (CheckpointBroken, GitFailed):
        # The other one is damaged here. Then this one goes whole, if it is whole.
        into.unlink(missing_ok=True)
        _write_checkpoint(git, layout, encoded, wanted, into)
    return Load(origin, manifest_bytes=len(encoded))


def unpack_anew(git: Git, layout: Layout, packed: Sequence[Packed], wanted: Snapshot) -> None:
    """A whole store, the source first, in the place of whatever is there; that stays unless the new one is in order."""
    for folder in (layout.private, layout.manifests, layout.workspaces):
        private_folder(folder)
    origin = packed[0].load.origin
    aside = layout.building("store")
    try:
        _make_store(git, aside, packed[0], origin)
        _take_in(git, Store(git, aside, origin.object_format, set()), layout, origin, packed[1:], wanted)
        sync_all_below(aside)
        layout.discard(layout.store)
        layout.publish(aside, layout.store)
    except BaseException:
        layout.discard(aside)
        raise
    sync_directory(layout.private)
    write_whole(layout.origin, msgspec.json.encode(origin), aside=layout.aside)


def unpack_more(git: Git, layout: Layout, origin: Origin, packed: Sequence[Packed], wanted: Snapshot) -> None:
    """Into the store that is there."""
    store = Store(git, layout.store, origin.object_format, set(), layout.aside)
    _take_in(git, store, layout, origin, packed, wanted)


def _take_in(
    git: Git, store: Store, layout: Layout, origin: Origin, packed: Sequence[Packed], wanted: Snapshot
) -> None:
    for load, path in packed:
        if load.origin.object_format != origin.object_format:
            raise CheckpointBroken("the parts of the checkpoint are of different formats")
        encoded, *_ = _texts(path, load.manifest_bytes)
        _add_pack(git, store, path, load.manifest_bytes)
        manifests.save(layout.manifests, encoded, set())
    manifest = _manifest(layout, wanted)
    check_whole(store, [checked_id(tree) for tree in trees_of(manifest)])
    check_pinned(store, manifest.pinned)


def _make_store(git: Git, path: Path, source: Packed, origin: Origin) -> None:
    if origin.object_format not in ("sha1", "sha256"):
        raise CheckpointBroken(f"the store has an unknown format: {origin.object_format[:20]!r}")
    make_store(git, path, origin.object_format)
    load = source.load
    refs, shallow = _texts(source.path, load.refs_bytes, load.shallow_bytes)
    # Where history was cut must be known before git looks at what is there.
    for name, text in (("shallow", shallow), ("packed-refs", refs)):
        if text:
            write_whole(path / name, text)
    store = Store(git, path, origin.object_format, set())
    _add_pack(git, store, source.path, load.refs_bytes + load.shallow_bytes)


def _add_pack(git: Git, store: Store, path: Path, start: int) -> None:
    if path.stat().st_size <= start:
        return
    try:
        store.add_pack(_chunks(git, path, start))
    except GitFailed as error:
        raise CheckpointBroken(f"a pack of the checkpoint is damaged: {error.stderr}") from None


def _chunks(git: Git, path: Path, start: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while chunk := file.read(CHUNK_BYTES):
            git.go_on()
            yield chunk


def _texts(path: Path, *lengths: int) -> list[bytes]:
    if any(not 0 <= length <= manifests.MANIFEST_BYTES_MAX for length in lengths):
        raise CheckpointBroken("a part of the checkpoint is too large")
    with path.open("rb") as file:
        texts = [file.read(length) for length in lengths]
    if [len(text) for text in texts] != list(lengths):
        raise CheckpointBroken("a part of the checkpoint is cut short")
    return texts


def _write_checkpoint(git: Git, layout: Layout, encoded: bytes, revisions: Sequence[str], into: Path) -> None:
    with _new(into) as file:
        file.write(encoded)
        _pack(git, layout.store, revisions, file)


def _pack(git: Git, store: Path, revisions: Sequence[str], file: IO[bytes], *more: str) -> None:
    # What is compressed well already is copied; looking for more takes longer than it saves.
    args = (f"--git-dir={store}", "pack-objects", "--revs", "--stdout", "--quiet", "--window=0", *more)
    with tempfile.TemporaryFile() as questions:
        questions.write("\n".join([*revisions, ""]).encode())
        questions.seek(0)
        with git.talking(*args, stdin=questions) as talk:
            while chunk := talk.stdout.read(CHUNK_BYTES):
                file.write(chunk)
            talk.finished()


def _new(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _text(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        if path.stat().st_size > REFS_BYTES_MAX:
            raise CheckpointBroken(f"the store has too many refs: {path}")
        return path.read_bytes()
    return b""


def _manifest(layout: Layout, snapshot: Snapshot) -> Manifest:
    manifest = manifests.load(layout.manifests, snapshot.manifest)
    if manifest.work.tree != snapshot.tree:
        raise CheckpointBroken(f"the manifest does not belong to the tree {snapshot.tree}")
    return manifest
