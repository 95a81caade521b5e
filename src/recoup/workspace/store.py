"""The private store of a run: a bare repository whose objects are only ever added."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from recoup.aside import remove_file
from recoup.durable import sync_directory, write_whole
from recoup.errors import CheckpointBroken, WorkspaceError
from recoup.machine import write_trouble
from recoup.workspace.blobs import CHUNK_BYTES, moved
from recoup.workspace.disk import private_folder, sync_file
from recoup.workspace.git import (
    Conversation,
    Git,
    GitFailed,
    in_our_place,
    trouble_below,
    unless_in_trouble,
)
from recoup.workspace.pack import FileSource, PackWriter

PINNED: Final = "refs/recoup/pinned"
# Whoever looks into the store with git sees the bytes that the step wrote.
ATTRIBUTES: Final = b"* -text -crlf -eol -filter -ident -working-tree-encoding\n"

_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def make_store(git: Git, path: Path, object_format: str) -> None:
    # By a name without folders: git would make those that are missing, and with them a home that is away.
    kind = f"--object-format={object_format}"
    git.run("init", "--quiet", "--bare", "--template=", kind, path.name, cwd=path.parent)
    write_whole(private_folder(path / "info") / "attributes", ATTRIBUTES)


class Store:
    """Objects in, objects out, every one checked against its id."""

    def __init__(
        self, git: Git, path: Path, object_format: str, known: set[str], aside: Path | None = None
    ) -> None:
        """`known`: ids that were seen in the store or made durable in it; outlives this object. `aside`: the folder of
        the driver that adds to it."""
        self._git = git
        self._path = path
        self._format = object_format
        self._known = known
        self._aside = aside

    def git(self, *args: str | bytes | Path, stdin: bytes = b"") -> bytes:
        with unless_in_trouble(self._path):
            return self._git.run(f"--git-dir={self._path}", *args, stdin=stdin)

    def talking(self, *args: str) -> AbstractContextManager[Conversation]:
        return self._git.talking(f"--git-dir={self._path}", *args)

    def sizes(self, ids: Iterable[str]) -> dict[str, int]:
        asked = sorted(set(ids))
        answers = self._checked("%(objectname) %(objectsize)", asked)
        return {id_: _size(line) for id_, line in zip(asked, answers, strict=True)}

    def absent(self, ids: Iterable[str]) -> set[str]:
        asked = sorted(set(ids) - self._known)
        if not asked:
            return set()
        answers = self._checked("%(objectname)", asked)
        absent = {id_ for id_, line in zip(asked, answers, strict=True) if b" " in line}
        self._known.update(set(asked) - absent)
        return absent

    def add(self, blobs: Mapping[str, FileSource], trees: Mapping[str, bytes]) -> None:
        """Durable when this returns. Raises Moved if a file is not what its id says any more."""
        if not blobs and not trees:
            return
        with in_our_place(self._path):
            self._keep(lambda aside: self._packed(aside, blobs, trees))
        self._known.update(blobs, trees)

    def add_pack(self, chunks: Iterable[bytes]) -> None:
        """A pack of somebody else's making, durable when this returns. What is in it has the id that it deserves,
        which may be another one than its maker says."""
        self._keep(lambda aside: self._copied(aside, chunks))

    def contents(self, ids: Sequence[str]) -> Iterator[Iterator[bytes]]:
        """For each blob its contents in pieces, to be exhausted in turn; raises if one does not fit."""
        if not ids:
            return
        with tempfile.TemporaryFile() as questions:
            questions.write("\n".join([*ids, ""]).encode())
            questions.seek(0)
            with self._git.talking(f"--git-dir={self._path}", "cat-file", "--batch", stdin=questions) as talk:
                for id_ in ids:
                    yield self._content(talk, id_)

    def _checked(self, fields: str, ids: Sequence[str]) -> list[bytes]:
        """One line for each id, in their order. Raises MachineTrouble."""
        if not ids:
            return []
        questions = "\n".join([*ids, ""]).encode()
        with in_our_place(self._path):
            answers = self.git("cat-file", f"--batch-check={fields}", stdin=questions).splitlines()
        if len(answers) != len(ids):
            raise trouble_below(
                self._path, f"git cat-file gave {len(answers)} answers to {len(ids)} questions"
            )
        return answers

    def _keep(self, write: Callable[[Path], str]) -> None:
        """`write` makes the pack and returns its name. Raises LeaseLost."""
        folder = self._path / "objects" / "pack"
        aside = folder / f"tmp_pack_{secrets.token_hex(8)}"
        index = folder / f"tmp_idx_{secrets.token_hex(8)}"
        made = [aside, index]
        try:
            name = write(aside)
            self._indexed(aside, index)
            made += [folder / f"pack-{name}.idx", folder / f"pack-{name}.pack"]
            # The index makes the pack visible, so it comes last.
            aside.rename(made[3])
            index.rename(made[2])
            sync_directory(folder)
        except BaseException:
            # Also what is visible already: it may not be durable, and would be taken for stored next time. But once we
            # were replaced, a pack of that name may be the heir's.
            for path in made:
                remove_file(path, self._aside)
            raise

    def _packed(self, aside: Path, blobs: Mapping[str, FileSource], trees: Mapping[str, bytes]) -> str:
        with PackWriter(aside, self._format, len(blobs) + len(trees)) as pack:
            for id_, source in blobs.items():
                self._git.go_on()
                if pack.add_blob(source) != id_:
                    raise moved(source.path)
            for content in trees.values():
                pack.add_tree(content)
            return pack.finish()

    def _copied(self, aside: Path, chunks: Iterable[bytes]) -> str:
        end = b""
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
            for chunk in chunks:
                self._git.go_on()
                file.write(chunk)
                end = (end + chunk)[-hashlib.new(self._format).digest_size :]
            file.flush()
            os.fsync(file.fileno())
        return end.hex()

    def _indexed(self, pack: Path, index: Path) -> None:
        """Git reads back all that we wrote."""
        self.git("index-pack", "--no-rev-index", "-o", index, pack)
        index.chmod(0o400)  # git gives it to everybody
        sync_file(index)

    def _content(self, talk: Conversation, id_: str) -> Iterator[bytes]:
        header = talk.stdout.readline().split()
        if len(header) != 3 or header[1] != b"blob":
            raise self._broken(talk, id_, header)
        left = int(header[2])
        hasher = hashlib.new(self._format, b"blob %d\0" % left)
        while left:
            chunk = talk.stdout.read(min(left, CHUNK_BYTES))
            if not chunk:
                raise self._broken(talk, id_, [])
            hasher.update(chunk)
            left -= len(chunk)
            yield chunk
        talk.stdout.read(1)
        if hasher.hexdigest() != id_:
            raise CheckpointBroken(f"an object of the store was altered: {id_}")

    def _broken(self, talk: Conversation, id_: str, header: list[bytes]) -> WorkspaceError:
        if header[1:] == [b"missing"]:
            return CheckpointBroken(f"an object of the store is missing: {id_}")
        if header:
            return CheckpointBroken(f"an object of the store is not what it should be: {id_}")
        error = talk.ended_early()
        if not isinstance(error, GitFailed):
            return error
        if write_trouble(self._path) is not None:
            return trouble_below(self._path, error.message)
        return CheckpointBroken(f"an object of the store is damaged: {id_}: {error.stderr}")


def _size(line: bytes) -> int:
    id_, _, size = line.partition(b" ")
    if not size.isdigit():
        raise CheckpointBroken(f"an object of the store is missing: {id_.decode()}")
    return int(size)


def checked_id(id_: str) -> str:
    """Before it becomes an argument of git."""
    if not _ID.fullmatch(id_):
        raise CheckpointBroken(f"not the id of a tree: {id_!r}")
    return id_
