"""Looks at a workspace: everything in it, sorted into what a checkpoint stores and what it cannot."""

# ruff: noqa: PTH112, PTH113
# File names are bytes here, which pathlib does not take.

from __future__ import annotations

import codecs
import os
import posixpath
import stat
from collections.abc import Callable
from contextlib import ExitStack
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from recoup.errors import WorkspaceRuined
from recoup.workspace.blobs import chunks_of, moved
from recoup.workspace.git import Git
from recoup.workspace.ignore import NOTHING_TRACKED, IgnoreRules, Tracked
from recoup.workspace.names import joined, shown

REPOSITORIES_MAX = 32
GITFILE_BYTES_MAX = 4096
FOLDER_PATH_BYTES_MAX = 3_000
"""From the root of the workspace. The system takes paths of 4,095 bytes: a restore puts the folder of the run before
this, here or on another machine, and the name of a file after it."""

_GIT = b".git"


class Why(IntEnum):
    """Why something is not in a checkpoint; the most surprising first."""

    LIMIT = 0
    UNREADABLE = 1
    REPOSITORY = 2
    SPECIAL = 3
    SUBMODULE = 4
    POINTER = 5
    LINKED = 6
    LOCK = 7
    IGNORED = 8


class Gap(NamedTuple):
    """A path that is not stored, or not fully."""

    why: Why
    path: bytes
    detail: str


class Area:
    """Files and folders below one root that become one tree: the work tree, or one `.git`."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        self.files: dict[bytes, os.stat_result] = {}
        self.folders: dict[bytes, int] = {}

    @property
    def is_repository(self) -> bool:
        return b"HEAD" in self.files and b"objects" in self.folders and b"refs" in self.folders


class Walk:
    """What a workspace holds."""

    def __init__(self) -> None:
        self.work = Area(b"")
        self.git_folders: dict[bytes, Area] = {}
        self.gitfiles: dict[bytes, bytes] = {}
        self.gaps: list[Gap] = []


class Repository:
    """A part of the work tree with its own ignore rules."""

    def __init__(self, path: bytes, rules: IgnoreRules, tracked: Tracked, ruled: bool) -> None:
        self.path = path
        self.rules = rules
        self.tracked = tracked
        self.ruled = ruled
        self._cut = len(path) + 1 if path else 0

    def inner(self, path: bytes) -> bytes:
        return path[self._cut :]


class _Spot(NamedTuple):
    """A folder to look into. `ruled`: some ignore file may apply to what is in it."""

    path: bytes
    repository: Repository
    ruled: bool


_Children = dict[bytes, os.stat_result]
IndexReader = Callable[[bytes, os.stat_result], Tracked]


class Walker:
    """Walks one workspace once, level by level, so that ignored folders are never entered."""

    def __init__(self, root: bytes, git: Git, store: Path, read_index: IndexReader, entries_max: int) -> None:
        self._root = root
        self._git = git
        self._store = store
        self._read_index = read_index
        self._left = self._entries_max = entries_max
        self._found = Walk()
        self._until = ExitStack()
        self._device = 0

    def walk(self) -> Walk:
        status = _workspace_status(self._root)
        self._device = status.st_dev
        self._found.work.folders[b""] = stat.S_IMODE(status.st_mode)
        with self._until:
            level = [_Spot(b"", self._repository(b"", None, NOTHING_TRACKED), False)]
            while level:
                level = self._descend(level)
        self._name_hard_links()
        return self._found

    def _name_hard_links(self) -> None:
        """A checkpoint stores contents and no inodes: one file with two names is restored as two files."""
        first: dict[tuple[int, int], bytes] = {}
        for path, status in self._found.work.files.items():
            if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
                other = first.setdefault((status.st_dev, status.st_ino), path)
                if other is not path:
                    self._gap(Why.LINKED, path, f"a hard link to {shown(other)}; a restore makes it a copy")

    def _descend(self, level: list[_Spot]) -> list[_Spot]:
        listed = [self._entered(spot) for spot in level]
        ignored = self._ignored(listed)
        return [below for spot, children in listed for below in self._sorted(spot, children, ignored)]

    def _entered(self, spot: _Spot) -> tuple[_Spot, _Children]:
        """The folder's children without `.git`, and the repository that it turned out to be the root of."""
        self._git.go_on()
        children = self._list(spot.path)
        if _GIT in children:
            spot = self._with_git(spot, children.pop(_GIT))
            if spot.repository.path == spot.path and self._is_one_too_many(spot):
                return spot, {}
        rules = children.get(b".gitignore")
        if rules is not None and _is_special(rules.st_mode):
            raise _endless_rules(spot.path)
        return spot._replace(ruled=spot.ruled or spot.repository.ruled or rules is not None), children

    def _is_one_too_many(self, spot: _Spot) -> bool:
        if len(self._found.git_folders) + len(self._found.gitfiles) <= REPOSITORIES_MAX:
            return False
        self._found.git_folders.pop(joined(spot.path, _GIT), None)
        self._found.gitfiles.pop(joined(spot.path, _GIT), None)
        self._gap(
            Why.REPOSITORY, spot.path + b"/", f"more than {REPOSITORIES_MAX} repositories in one workspace"
        )
        return True

    def _with_git(self, spot: _Spot, status: os.stat_result) -> _Spot:
        path = joined(spot.path, _GIT)
        if stat.S_ISDIR(status.st_mode):
            area = self._found.git_folders[path] = self._git_folder(path, status)
            return self._rooted(spot, area) if area.is_repository else spot
        if stat.S_ISREG(status.st_mode) and (target := self._gitfile(spot.path)) is not None:
            return self._rooted(spot, self._git_folder_elsewhere(target))
        self._gap(
            Why.REPOSITORY, path, "a link to a git folder outside of this folder, which would be shared"
        )
        return spot

    def _gitfile(self, folder: bytes) -> bytes | None:
        """Where a relative `gitdir:` leads, if that is into a `.git` of this workspace: those are stored."""
        path = joined(folder, _GIT)
        content = read_gitfile(joined(self._root, path))
        target = gitfile_target(folder, content)
        if (
            target is None
            or _GIT not in target.split(b"/")
            or not os.path.isfile(self._full(target, b"HEAD"))
        ):
            return None
        self._found.gitfiles[path] = content
        return target

    def _git_folder(self, path: bytes, status: os.stat_result) -> Area:
        """Every file of a `.git`, by name; git is not asked."""
        area = Area(path)
        area.folders[b""] = stat.S_IMODE(status.st_mode)
        pending = [b""]
        while pending:
            folder = pending.pop()
            for name, child in self._list(joined(path, folder) if folder else path).items():
                inner = joined(folder, name)
                if stat.S_ISREG(child.st_mode) and name.endswith(b".lock"):
                    self._gap(Why.LOCK, joined(path, inner), "a lock whose owner is gone")
                elif self._filed(area, inner, child):
                    pending.append(inner)
        return area

    def _git_folder_elsewhere(self, path: bytes) -> Area:
        """A git folder that is stored as part of another: only what its rules need."""
        area = Area(path)
        for name in (b"index", b"info/exclude"):
            try:
                area.files[name] = os.lstat(self._full(path, name))
            except OSError:
                continue
        return area

    def _rooted(self, spot: _Spot, git_folder: Area) -> _Spot:
        index = git_folder.files.get(b"index")
        tracked = NOTHING_TRACKED
        if index is not None and stat.S_ISREG(index.st_mode):
            tracked = self._read_index(joined(git_folder.root, b"index"), index)
        self._name_submodules(spot.path, tracked)
        return _Spot(spot.path, self._repository(spot.path, git_folder, tracked), False)

    def _repository(self, path: bytes, git_folder: Area | None, tracked: Tracked) -> Repository:
        exclude = self._exclude(git_folder)
        rules = IgnoreRules(self._git, self._store, joined(self._root, path), exclude, self._until)
        return Repository(path, rules, tracked, ruled=exclude is not None)

    def _exclude(self, git_folder: Area | None) -> bytes | None:
        status = git_folder.files.get(b"info/exclude") if git_folder else None
        if git_folder is None or status is None or not stat.S_ISREG(status.st_mode):
            return None
        return self._full(git_folder.root, b"info/exclude")

    def _name_submodules(self, path: bytes, tracked: Tracked) -> None:
        for name in sorted(tracked.submodules):
            below = joined(path, name)
            folder = joined(self._root, below)
            if os.path.isdir(folder) and not os.path.lexists(joined(folder, _GIT)):
                self._gap(Why.SUBMODULE, below, "a submodule that was not fetched")

    def _ignored(self, listed: list[tuple[_Spot, _Children]]) -> set[bytes]:
        """All the questions of one level at once, per repository."""
        questions: dict[Repository, list[bytes]] = {}
        for spot, children in listed:
            if spot.ruled and not spot.repository.tracked.everything:
                questions.setdefault(spot.repository, []).extend(joined(spot.path, name) for name in children)
        ignored: set[bytes] = set()
        for repository, paths in questions.items():
            answers = repository.rules.ignored([repository.inner(path) for path in paths])
            ignored.update(path for path, answer in zip(paths, answers, strict=True) if answer)
        return ignored

    def _sorted(self, spot: _Spot, children: _Children, ignored: set[bytes]) -> list[_Spot]:
        below: list[_Spot] = []
        for name, status in children.items():
            path = joined(spot.path, name)
            if path in ignored and not self._is_needed(spot, name, status):
                self._gap(
                    Why.IGNORED, path + b"/" if stat.S_ISDIR(status.st_mode) else path, "ignored by git"
                )
            elif self._filed(self._found.work, path, status):
                below.append(_Spot(path, spot.repository, spot.ruled))
        return below

    def _is_needed(self, spot: _Spot, name: bytes, status: os.stat_result) -> bool:
        """In spite of being ignored: git tracks it, or what it lets in would be ignored where it is missing."""
        path = joined(spot.path, name)
        if spot.repository.tracked.has(spot.repository.inner(path)):
            return True
        return name == b".gitignore" and stat.S_ISREG(status.st_mode) and _lets_in(joined(self._root, path))

    def _filed(self, area: Area, path: bytes, status: os.stat_result) -> bool:
        """True if it is a folder to look into."""
        mode = status.st_mode
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            area.files[path] = status
            return False
        if not stat.S_ISDIR(mode):
            self._gap(Why.SPECIAL, joined(area.root, path), f"a {special_kind(mode)}")
            return False
        if is_too_deep(joined(area.root, path)):
            self._gap(*too_deep(joined(area.root, path)))
            return False
        area.folders[path] = stat.S_IMODE(mode)
        if status.st_dev != self._device:
            self._gap(Why.UNREADABLE, joined(area.root, path) + b"/", "on another file system")
            return False
        return True

    def _list(self, path: bytes) -> _Children:
        """Sorted by name, so that what a limit cuts off does not depend on the disk."""
        full = joined(self._root, path)
        try:
            with os.scandir(full) as entries:
                children = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
        except FileNotFoundError:
            raise moved(full) from None
        except OSError as error:
            if not path:
                raise ruined(self._root, f"it cannot be read: {error.strerror}") from None
            self._gap(Why.UNREADABLE, path + b"/", f"unreadable: {error.strerror}")
            return {}
        self._count(len(children))
        return dict(sorted(children.items()))

    def _full(self, path: bytes, name: bytes) -> bytes:
        return joined(self._root, joined(path, name))

    def _count(self, entries: int) -> None:
        self._left -= entries
        if self._left < 0:
            raise WorkspaceRuined(
                f"{os.fsdecode(self._root)} holds more than {self._entries_max} files and folders",
                hint="Name folders that can be made again in .gitignore.",
            )

    def _gap(self, why: Why, path: bytes, detail: str) -> None:
        self._found.gaps.append(Gap(why, path, detail))


def is_too_deep(folder: bytes) -> bool:
    """Whether a restore could not make it again wherever the run may be."""
    return len(folder) > FOLDER_PATH_BYTES_MAX


def too_deep(folder: bytes) -> Gap:
    return Gap(
        Why.LIMIT,
        folder + b"/",
        f"too deep to be restored: its path has more than {FOLDER_PATH_BYTES_MAX} bytes",
    )


def _lets_in(rules: bytes) -> bool:
    """Whether a .gitignore takes something out of what others ignore. One that only ignores more is not missed: what
    was not ignored with it is not ignored without it."""
    chunks = chunks_of(rules)
    try:
        lines = next(chunks, b"").removeprefix(codecs.BOM_UTF8).split(b"\n")
        return any(line.startswith(b"!") for line in lines) or next(chunks, None) is not None
    except OSError:
        return False


def read_gitfile(path: bytes) -> bytes:
    try:
        content = next(chunks_of(path), b"")
    except OSError:
        return b""
    return content if len(content) <= GITFILE_BYTES_MAX else b""


def gitfile_target(folder: bytes, content: bytes) -> bytes | None:
    """Where `.git` of `folder` leads, if it leads to another place below the same root by a relative path."""
    if not content.startswith(b"gitdir: "):
        return None
    target = content.removeprefix(b"gitdir: ").rstrip(b"\r\n")
    if posixpath.isabs(target):
        return None
    landed = posixpath.normpath(posixpath.join(folder, target))
    return None if landed == b".." or landed.startswith(b"../") else landed


def _workspace_status(root: bytes) -> os.stat_result:
    try:
        status = os.lstat(root)
    except OSError as error:
        raise ruined(root, error.strerror) from None
    if not stat.S_ISDIR(status.st_mode):
        raise ruined(root, "it is not a folder any more")
    return status


def ruined(root: bytes, why: str | None) -> WorkspaceRuined:
    return WorkspaceRuined(
        f"the workspace cannot be stored: {os.fsdecode(root)}: {why}",
        hint="The last checkpoint is restored by: recoup resume RUN",
    )


def _endless_rules(folder: bytes) -> WorkspaceRuined:
    return WorkspaceRuined(
        f"{shown(joined(folder, b'.gitignore'))} is not a regular file: reading it could last for ever",
        hint="Remove it.",
    )


def _is_special(mode: int) -> bool:
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def special_kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "named pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
