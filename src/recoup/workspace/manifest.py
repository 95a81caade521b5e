"""What a git tree cannot hold: exact modes, empty folders, the `.git` of every repository.

One JSON file per checkpoint, named by its digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import msgspec

from recoup.durable import write_whole
from recoup.errors import CheckpointBroken

VERSION = 1
MANIFEST_BYTES_MAX = 512 << 20

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class StoredFolder(msgspec.Struct, frozen=True):
    """A tree, and what it leaves open: modes other than 0644 and 0755, folders that are empty or not 0755."""

    tree: str
    modes: dict[str, str]
    folders: dict[str, str]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of a checkpoint. Deterministic: no times, no places."""

    version: int
    object_format: str
    pinned: str | None
    work: StoredFolder
    git_folders: dict[str, StoredFolder]
    gitfiles: dict[str, str]
    left_out: tuple[str, ...]

    def encoded(self) -> bytes:
        """ASCII, so that names which are not UTF-8 come back as they were."""
        return json.dumps(msgspec.to_builtins(self), sort_keys=True, separators=(",", ":")).encode("ascii")


def digest_of(encoded: bytes) -> str:
    return "sha256:" + hashlib.sha256(encoded).hexdigest()


def save(folder: Path, encoded: bytes, saved: set[str]) -> str:
    """Durable when this returns. `saved`: what was made durable before, and need not be again."""
    digest = digest_of(encoded)
    path = _path(folder, digest)
    if digest not in saved or not path.is_file():
        write_whole(path, encoded)
        saved.add(digest)
    return digest


def load(folder: Path, digest: str) -> Manifest:
    encoded = _read(folder, digest)
    if digest_of(encoded) != digest:
        raise CheckpointBroken(f"the manifest of the checkpoint was altered: {_path(folder, digest)}")
    try:
        manifest = msgspec.convert(json.loads(encoded), Manifest)
    except (ValueError, RecursionError) as error:
        raise CheckpointBroken(f"the manifest of the checkpoint cannot be read: {error}") from None
    if manifest.version != VERSION:
        raise CheckpointBroken(f"the checkpoint has format {manifest.version}; this version reads {VERSION}")
    return manifest


def _read(folder: Path, digest: str) -> bytes:
    path = _path(folder, digest)
    try:
        if path.stat().st_size > MANIFEST_BYTES_MAX:
            raise CheckpointBroken(f"the manifest of the checkpoint is too large: {path}")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointBroken(
            f"the manifest of the checkpoint is missing: {path}: {error.strerror}"
        ) from None


def _path(folder: Path, digest: str) -> Path:
    if not _DIGEST.fullmatch(digest):
        raise CheckpointBroken(f"not the digest of a manifest: {digest!r}")
    return folder / f"{digest.removeprefix('sha256:')}.json"
