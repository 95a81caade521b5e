"""What a process prints: always drained, kept redacted in two files of limited size, and limited in its cost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from recoup.files.folders import make_folder
from recoup.ports import RedactionStream, Redactor

RATE_BYTES_S: Final = 1 << 20
BURST_BYTES: Final = 4 << 20
LINE_BYTES_MAX: Final = 64 << 10


class Sluice:
    """Lets so many bytes pass in a second and counts the rest: a flood must not cost the other resources their probe.

    After a gap it goes on with a new line, so that no half of a secret is taken for something else.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._room = float(BURST_BYTES)
        self._at_s = now_s()
        self._gap = False
        self.dropped = 0

    def passes(self, chunk: bytes) -> bytes:
        """As much of it as may pass."""
        now_s = self._now_s()
        self._room = min(BURST_BYTES, self._room + RATE_BYTES_S * (now_s - self._at_s))
        self._at_s = now_s
        if self._room < len(chunk):
            self._gap = True
            self.dropped += len(chunk)
            return b""
        if self._gap:
            chunk = self._after_gap(chunk)
        self._room -= len(chunk)
        return chunk

    def _after_gap(self, chunk: bytes) -> bytes:
        begins = chunk.find(b"\n") + 1
        self.dropped += begins or len(chunk)
        self._gap = not begins
        return chunk[begins:] if begins else b""


class OutputLog:
    """Redacted text in one file; when that is full it becomes the older one."""

    def __init__(self, path: Path, redactor: Redactor, limit_bytes: int) -> None:
        self._path = path
        self._redactor = redactor
        self._half_bytes = max(1, limit_bytes // 2)
        self._streams: dict[str, RedactionStream] = {}
        self._file = -1
        self._size = 0
        self._last = ""
        self._at_line_start = True

    def note(self, words: str) -> None:
        """A line of the probe's own. What was printed before it ends there: half of a secret is seen as such only at an
        end."""
        self._flush()
        self._put("", self._redactor.redact(f"--- {words}\n").data)

    def feed(self, stream: str, chunk: bytes) -> None:
        if stream not in self._streams:
            self._streams[stream] = self._redactor.stream()
        self._put(stream, self._streams[stream].feed(chunk).data)

    def close(self) -> None:
        self._flush()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _flush(self) -> None:
        for name, stream in self._streams.items():
            self._put(name, stream.flush().data)
        self._streams.clear()

    def _put(self, stream: str, data: bytes) -> None:
        if not data:
            return
        if stream != self._last and not self._at_line_start:
            data = b"\n" + data
        self._last, self._at_line_start = stream, data.endswith(b"\n")
        self._open()
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        self._size += len(data)

    def _open(self) -> None:
        if self._file >= 0 and self._size >= self._half_bytes:
            os.close(self._file)
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = -1
        if self._file < 0:
            make_folder(self._path.parent)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._file).st_size


class Lines:
    """Cuts chunks into lines of limited length."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._rest: dict[str, bytes] = {}

    def feed(self, stream: str, chunk: bytes) -> None:
        *lines, rest = (self._rest.get(stream, b"") + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            lines, rest = [*lines, rest], b""
        self._rest[stream] = rest
        for line in lines:
            self._take(line[:LINE_BYTES_MAX])
