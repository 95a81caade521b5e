"""Makes the first workspace from a folder of the user's, which is only read."""

# ruff: noqa: PTH101, PTH102, PTH115, PTH123, PTH211
# File names are bytes here, which pathlib does not take.

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from recoup.errors import WorkspaceError
from recoup.files.named import open_named
from recoup.model.workspace import FolderSource
from recoup.workspace.blobs import CHUNK_BYTES
from recoup.workspace.git import Git
from recoup.workspace.layout import Layout
from recoup.workspace.names import joined
from recoup.workspace.walk import (
    Gap,
    Why,
    gitfile_target,
    is_too_deep,
    read_gitfile,
    special_kind,
    too_deep,
)


def find(source: FolderSource, layout: Layout) -> Path:
    path = Path(os.path.realpath(source.path))
    if not path.is_dir():
        raise WorkspaceError(
            f"there is no folder {path}", hint="Name it in the plan: workspace: {folder: …}."
        )
    if Path(os.path.realpath(layout.workspaces)).is_relative_to(path):
        raise WorkspaceError(
            f"{path} contains the folder of this run, {layout.run_dir}: a copy would contain itself",
            hint="Set RECOUP_HOME to a folder outside of it.",
        )
    return path


class Copier:
    """Copies one folder: links stay links, modes and times are kept, what is no file is named."""

    def __init__(self, git: Git, source: Path, bytes_max: int, entries_max: int) -> None:
        self.gaps: list[Gap] = []
        self._git = git
        self._source = os.fsencode(source)
        self._bytes_left = self._bytes_max = bytes_max
        self._entries_left = self._entries_max = entries_max

    def copy(self, target: Path) -> None:
        root = os.fsencode(target)
        os.mkdir(root, 0o700)
        folders = [b""]
        for folder in folders:  # grows while we go
            folders += self._copy_folder(folder, root)
        for folder in reversed(folders):
            self._copy_status(folder, root)

    def _copy_folder(self, folder: bytes, root: bytes) -> list[bytes]:
        self._git.go_on()
        try:
            with os.scandir(joined(self._source, folder)) as entries:
                children = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        except OSError as error:
            return self._unreadable(folder + b"/", error)
        self._count(len(children))
        return [
            path for name, status in children for path in self._copy_child(joined(folder, name), status, root)
        ]

    def _copy_child(self, path: bytes, status: os.stat_result, root: bytes) -> list[bytes]:
        """The path again if it is a folder."""
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            if is_too_deep(path):
                self.gaps.append(too_deep(path))
                return []
            os.mkdir(joined(root, path), 0o700)
            return [path]
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(joined(self._source, path)), joined(root, path))
        elif not stat.S_ISREG(mode):
            self.gaps.append(Gap(Why.SPECIAL, path, f"a {special_kind(mode)}"))
        elif self._leads_out(path):
            self.gaps.append(
                Gap(
                    Why.REPOSITORY,
                    path,
                    "a link to a git folder outside of this folder, which would be shared",
                )
            )
        else:
            self._copy_file(path, status, root)
        return []

    def _leads_out(self, path: bytes) -> bool:
        """Git in the copy would write into the user's repository."""
        folder, _, name = path.rpartition(b"/")
        if name != b".git":
            return False
        return gitfile_target(folder, read_gitfile(joined(self._source, path))) is None

    def _copy_file(self, path: bytes, status: os.stat_result, root: bytes) -> None:
        self._bytes_left -= status.st_size
        if self._bytes_left < 0:
            raise _too_large(self._source, f"{self._bytes_max} bytes")
        try:
            fd = open_named(joined(self._source, path), follow_links=False)
        except OSError as error:
            self._unreadable(path, error)
            return
        with os.fdopen(fd, "rb") as file:
            self._pour(file, joined(root, path), status)

    def _pour(self, source: IO[bytes], target: bytes, status: os.stat_result) -> None:
        with open(target, "xb") as file:
            while chunk := source.read(CHUNK_BYTES):
                self._git.go_on()
                file.write(chunk)
        _take_over(target, status)

    def _copy_status(self, folder: bytes, root: bytes) -> None:
        status = os.lstat(joined(self._source, folder))
        _take_over(joined(root, folder), status)

    def _unreadable(self, path: bytes, error: OSError) -> list[bytes]:
        self.gaps.append(Gap(Why.UNREADABLE, path, f"unreadable: {error.strerror}"))
        return []

    def _count(self, entries: int) -> None:
        self._entries_left -= entries
        if self._entries_left < 0:
            raise _too_large(self._source, f"{self._entries_max} files and folders")


def _take_over(path: bytes, status: os.stat_result) -> None:
    os.chmod(path, stat.S_IMODE(status.st_mode))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _too_large(source: bytes, limit: str) -> WorkspaceError:
    return WorkspaceError(
        f"{os.fsdecode(source)} is too large to be copied: more than {limit}",
        hint="Name a smaller folder, or say `git:` to have a commit of it cloned.",
    )
