"""Which files of a repository are ignored, and which it tracks in spite of that.

Git is asked, with our store as the git folder, so that the repository's own configuration is never read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

from recoup.workspace.git import Conversation, Git, GitFailed

# Less than a pipe holds: a batch can be written before its answers are read, without a deadlock.
_BATCH_BYTES_MAX = 32 << 10
_SUBMODULE = b"160000"


class Tracked:
    """The names in a repository's index, relative to its root."""

    def __init__(
        self, files: frozenset[bytes], submodules: frozenset[bytes], everything: bool = False
    ) -> None:
        self.files = files
        self.submodules = submodules
        self.everything = everything

    @cached_property
    def folders(self) -> frozenset[bytes]:
        return _folders_of(self.files | self.submodules)

    def has(self, path: bytes) -> bool:
        return self.everything or path in self.files or path in self.submodules or path in self.folders


NOTHING_TRACKED = Tracked(frozenset(), frozenset())
# An index that git cannot read says nothing, so nothing is left out because of it.
ANYTHING_TRACKED = Tracked(frozenset(), frozenset(), everything=True)


def read_index(git: Git, store: Path, index: bytes) -> Tracked:
    try:
        listed = git.run(f"--git-dir={store}", "ls-files", "--stage", "-z", env={"GIT_INDEX_FILE": index})
    except GitFailed:
        return ANYTHING_TRACKED
    entries = [line.split(b"\t", 1) for line in listed.split(b"\0") if line]
    submodules = frozenset(path for meta, path in entries if meta.startswith(_SUBMODULE))
    return Tracked(frozenset(path for _, path in entries) - submodules, submodules)


class IgnoreRules:
    """The .gitignore files below `root` and one exclude file. One process answers for a whole walk."""

    def __init__(self, git: Git, store: Path, root: bytes, exclude: bytes | None, until: ExitStack) -> None:
        self._git = git
        self._store = store
        self._root = root
        self._exclude = exclude
        self._until = until
        self._conversation: Conversation | None = None

    def ignored(self, paths: Sequence[bytes]) -> list[bool]:
        """For paths relative to `root`, in their order."""
        answers: list[bool] = []
        for batch in _batches(paths):
            answers += self._asked(batch)
        return answers

    def _asked(self, batch: Sequence[bytes]) -> list[bool]:
        talk = self._conversation = self._conversation or self._start()
        assert talk.stdin is not None, "check-ignore is asked through a pipe"
        try:
            talk.stdin.write(b"".join(b"./%s\0" % path for path in batch))
            talk.stdin.flush()
        except BrokenPipeError:
            raise talk.ended_early() from None
        return [_is_ignored(pattern) for pattern in _patterns(talk, len(batch))]

    def _start(self) -> Conversation:
        return self._until.enter_context(
            self._git.talking(
                "-c",
                b"core.excludesFile=" + (self._exclude or b"/dev/null"),
                f"--git-dir={self._store}",
                "--work-tree=.",
                *("check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching"),
                cwd=self._root,
            )
        )


def _patterns(talk: Conversation, count: int) -> Iterator[bytes]:
    """Each answer is: source NUL line NUL pattern NUL path NUL."""
    answer = b""
    fields = 4 * count
    while answer.count(b"\0") < fields:
        chunk = os.read(talk.stdout.fileno(), 1 << 16)
        if not chunk:
            raise talk.ended_early()
        answer += chunk
    return iter(answer.split(b"\0")[2:fields:4])


def _is_ignored(pattern: bytes) -> bool:
    return bool(pattern) and not pattern.startswith(b"!")


def _batches(paths: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    start, size = 0, 0
    for at, path in enumerate(paths):
        if size + len(path) + 3 > _BATCH_BYTES_MAX and at > start:
            yield paths[start:at]
            start, size = at, 0
        size += len(path) + 3
    if start < len(paths):
        yield paths[start:]


def _folders_of(paths: frozenset[bytes]) -> frozenset[bytes]:
    folders: set[bytes] = set()
    for path in paths:
        folder = path.rpartition(b"/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition(b"/")[0]
    return frozenset(folders)
