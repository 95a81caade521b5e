"""Small git repositories, made without a look at how git is set up on this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SOMEBODY: Final = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@localhost",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@localhost",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder: Path, *words: str, stdin: bytes = b"") -> str:
    """What it printed, without the end of the last line."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **_SOMEBODY}
    done = subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, input=stdin)
    return done.stdout.decode(errors="surrogateescape").rstrip("\n")


def commit_all(folder: Path, message: str) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def new_repository(path: Path, files: Mapping[str, str | bytes]) -> Path:
    """With these files in its first commit, on the branch `main`."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    git(path, "init", "--quiet", "--initial-branch=main")
    commit_all(path, "first")
    return path
