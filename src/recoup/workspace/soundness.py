"""Whether git can still use the repository of a workspace. Its own configuration is read, and never followed."""

from __future__ import annotations

import re
from pathlib import Path

from recoup.files.named import read_named
from recoup.workspace.git import Git, GitFailed

_HEAD = re.compile(rb"(ref: refs/[^\0\n]+|[0-9a-f]{40}([0-9a-f]{24})?)\n?")
_COMMIT = re.compile(rb"[0-9a-f]{40}([0-9a-f]{24})?\n?")
_HEAD_BYTES_MAX = 4096
_REFS_BYTES_MAX = 64 << 20


def damage(git: Git, store: Path, workspace: Path) -> str | None:
    """Why git cannot use it, in words; None if it can."""
    try:
        return _damage(git, store, workspace / ".git")
    except PermissionError as error:
        return f"{Path(error.filename or '.git').relative_to(workspace)} cannot be read: {error.strerror}"


def _damage(git: Git, store: Path, inside: Path) -> str | None:
    if not inside.is_dir():
        return ".git is gone or is not a folder any more"
    missing = [name for name in ("objects", "refs") if not (inside / name).is_dir()]
    if missing:
        return f".git/{missing[0]} is gone"
    head = _start_of(inside / "HEAD", _HEAD_BYTES_MAX)
    if not _HEAD.fullmatch(head):
        return ".git/HEAD names no branch and no commit"
    if (inside / "index").exists() and _start_of(inside / "index", 4) != b"DIRC":
        return ".git/index is not an index"
    return _config_damage(git, store, inside / "config") or _object_damage(git, store, inside, head)


def _start_of(path: Path, limit_bytes: int) -> bytes:
    """Raises PermissionError; anything else that cannot be read is as good as empty."""
    try:
        return read_named(path, limit_bytes)
    except PermissionError:
        raise
    except OSError:
        return b""


def _config_damage(git: Git, store: Path, config: Path) -> str | None:
    if not config.is_file():
        return None
    try:
        git.run(f"--git-dir={store}", "config", "--file", config, "--no-includes", "--list", "--name-only")
    except GitFailed as error:
        return f".git/config cannot be read: {error.stderr}"
    return None


def _object_damage(git: Git, store: Path, inside: Path, head: bytes) -> str | None:
    """Of what HEAD leads to. A branch without a commit leads to nothing."""
    commit = _commit_of(inside, head)
    if commit is None:
        return None
    try:
        git.run(
            *(f"--git-dir={store}", "rev-list", "--objects", "--quiet", "-n", "1", commit, "--"),
            env={"GIT_OBJECT_DIRECTORY": str(inside / "objects")},
        )
    except GitFailed as error:
        return f"an object of HEAD is missing or damaged: {error.stderr}"
    return None


def _commit_of(inside: Path, head: bytes) -> str | None:
    if not head.startswith(b"ref: "):
        return head.decode().strip()
    name = head.removeprefix(b"ref: ").strip()
    found = _start_of(inside / name.decode(errors="surrogateescape"), _HEAD_BYTES_MAX)
    if _COMMIT.fullmatch(found):
        return found.decode().strip()
    packed = _start_of(inside / "packed-refs", _REFS_BYTES_MAX).splitlines()
    return next((line.split()[0].decode() for line in packed if line.split()[1:] == [name]), None)
