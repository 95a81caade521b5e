"""Whether git can still use the repository of a workspace. Its own configuration is read, and never followed."""

from __future__ import annotations

import re
from pathlib import Path

from recoup.files.named import read_named
from recoup.workspace.git import Git, GitFailed

_HEAD = re.compile(rb"(ref: refs/[^\0\n]+|[0-9a-f]{40}([0-9a-f]{24})?)\n?")
_HEAD_BYTES_MAX = 4096


def damage(git: Git, store: Path, workspace: Path) -> str | None:
    """Why git cannot use it, in words; None if it can."""
    inside = workspace / ".git"
    if not inside.is_dir():
        return ".git is gone or is not a folder any more"
    missing = [name for name in ("objects", "refs") if not (inside / name).is_dir()]
    if missing:
        return f".git/{missing[0]} is gone"
    if not _HEAD.fullmatch(_start_of(inside / "HEAD", _HEAD_BYTES_MAX)):
        return ".git/HEAD names no branch and no commit"
    if (inside / "index").exists() and _start_of(inside / "index", 4) != b"DIRC":
        return ".git/index is not an index"
    return _config_damage(git, store, inside / "config")


def _start_of(path: Path, limit_bytes: int) -> bytes:
    try:
        return read_named(path, limit_bytes)
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
