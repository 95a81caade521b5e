"""The folder of the audit: names, the lock, and the note of where the chain ends. Owner-only."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from recoup.audit.line import Head
from recoup.durable import write_whole
from recoup.errors import StateError
from recoup.files.folders import make_folder

_NAME = re.compile(r"audit-([0-9]{6,})\.jsonl")
_POLL_S = 0.02


class NotedHead(msgspec.Struct, frozen=True):
    """What was durable when it was written: the end of the chain, and the file and place where it lies.

    It saves reading the last file again, and tells that the end of the chain was taken away. Without it the last
    file is read whole.
    """

    file: str
    bytes: int
    head: Head


class AuditFolder:
    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self) -> None:
        make_folder(self.root)
        if self.root.stat().st_mode & 0o077:
            self.root.chmod(0o700)

    def sweep(self) -> None:
        """Only under the lock: what killed writers left unfinished."""
        for path in self.root.glob(".*.tmp"):
            path.unlink()

    def files(self) -> list[Path]:
        """In the order of the chain. Raises StateError for what is no plain file: a pipe would never end."""
        found = [path for path in self.root.glob("audit-*.jsonl") if _NAME.fullmatch(path.name)]
        for path in found:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise StateError(f"{path} is not a plain file", hint="Move it away, then export again.")
        return sorted(found, key=number_of)

    def file(self, number: int) -> Path:
        return self.root / f"audit-{number:06d}.jsonl"

    def noted_head(self) -> NotedHead | None:
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
            return msgspec.json.decode(self._note.read_bytes(), type=NotedHead)
        return None

    def note_head(self, noted: NotedHead) -> None:
        write_whole(self._note, msgspec.json.encode(noted), durable=False)

    @contextlib.asynccontextmanager
    async def locked(self, wait_s: float, *, shared: bool = False) -> AsyncIterator[bool]:
        """True: nobody else writes now. False: somebody did all the time."""
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield await _taken(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, wait_s)
        finally:
            os.close(descriptor)

    @property
    def _note(self) -> Path:
        return self.root / "head.json"


def number_of(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    assert found is not None, f"{path} is no file of an audit"
    return int(found[1])


async def _taken(descriptor: int, how: int, wait_s: float) -> bool:
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                return False
            await asyncio.sleep(_POLL_S)
        else:
            return True
