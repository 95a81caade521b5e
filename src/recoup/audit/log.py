"""The end of the chain, open for writing. Only under the folder's lock."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from recoup.audit.folder import AuditFolder, NotedHead, number_of
from recoup.audit.line import LINE_BYTES_MAX, Entry, Head, chained
from recoup.durable import OWNER_ONLY, sync_directory
from recoup.errors import StateError

FILE_BYTES_MAX = 64 << 20
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class AuditLog:
    """After an OSError it must not be used again: what was written of the last lines is found by who opens it next."""

    def __init__(self, folder: AuditFolder, path: Path | None, head: Head, file_bytes_max: int) -> None:
        self._folder = folder
        self._path = path or folder.file(1)
        self.head = head
        self._file_bytes_max = file_bytes_max
        self._file = os.open(self._path, _FLAGS) if path else self._created(self._path)
        self._size = os.fstat(self._file).st_size

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    @property
    def path(self) -> Path:
        return self._path

    def append(self, entries: Iterable[Entry]) -> None:
        """Durable when it returns."""
        lines: list[bytes] = []
        head, size = self.head, self._size
        for entry in entries:
            line, head = chained(entry, head)
            if len(line) > LINE_BYTES_MAX:
                raise StateError(
                    f"event {entry.seq} of {entry.stream} makes a line of {len(line)} bytes; "
                    f"the audit takes {LINE_BYTES_MAX}",
                    hint="Nothing of it was written. Forget its run when it has ended: recoup prune",
                )
            if size and size + len(line) > self._file_bytes_max:
                self._write(lines)
                self._begin_file()
                lines, size = [], 0
            lines.append(line)
            size += len(line)
        self._write(lines)
        self.head = head
        self._folder.note_head(NotedHead(self._path.name, self._size, head))

    def _write(self, lines: list[bytes]) -> None:
        left = memoryview(b"".join(lines))
        self._size += len(left)
        while left:
            left = left[os.write(self._file, left) :]
        os.fsync(self._file)

    def _begin_file(self) -> None:
        """What stands in the old one is durable before there is a new one."""
        path = self._folder.file(number_of(self._path) + 1)
        file = self._created(path)
        os.close(self._file)
        self._file, self._path, self._size = file, path, 0

    def _created(self, path: Path) -> int:
        file = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        sync_directory(self._folder.root)
        return file
