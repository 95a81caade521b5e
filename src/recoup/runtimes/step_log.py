"""The log of a step: redacted, in one file for all its attempts, each within a limit and with its gap marked."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from types import TracebackType

from recoup.aside import open_to_append
from recoup.files.folders import make_folder
from recoup.model.redacted import Redacted
from recoup.ports import RedactionStream, Redactor

_TAIL_SHARE = 4
_LEAD_IN = 64 << 10
"""Dropped from the end part after redaction: a secret that the gap cut in two is at most this long."""


class StepLog:
    """Takes raw output of two streams, writes redacted lines. The streams never share a line, so that two halves of a
    secret cannot meet in the file."""

    def __init__(
        self, path: Path, redactor: Redactor, limit_bytes: int, heading: str, aside: Path | None = None
    ) -> None:
        """`aside`: the folder of the run's driver. Raises LeaseLost."""
        self._redactor = redactor
        self._streams: dict[str, RedactionStream] = {"stdout": redactor.stream(), "stderr": redactor.stream()}
        self._tail_max = limit_bytes // _TAIL_SHARE
        self._room = limit_bytes - self._tail_max
        self._tails: dict[str, _Ring] = {}
        self._last_stream = ""
        self._at_line_start = True
        make_folder(path.parent)
        self._file = open_to_append(path, aside)
        self._write(redactor.redact(heading + "\n").data)

    def __enter__(self) -> StepLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def feed(self, stream: str, chunk: bytes) -> Redacted | None:
        """The redacted part that was written, for people who watch; None once the gap has begun."""
        if self._room <= 0:
            self._tails.setdefault(stream, _Ring(self._tail_max // 2 + _LEAD_IN)).push(chunk)
            return None
        redacted = self._streams[stream].feed(chunk)
        self._put(stream, redacted)
        self._room -= len(redacted)
        return redacted

    def redacted(self, text: str) -> Redacted:
        """For words about the attempt that are shown and not kept."""
        return self._redactor.redact(text)

    def note(self, words: str) -> None:
        """A line of our own."""
        self._new_line()
        self._write(self._redactor.redact(words + "\n").data)

    def close(self) -> None:
        if self._file < 0:
            return
        for name, stream in self._streams.items():
            self._put_end(name, stream)
        self._new_line()
        os.close(self._file)
        self._file = -1

    def _put_end(self, name: str, stream: RedactionStream) -> None:
        """Without a gap it is the same stream that goes on: a secret may have its other half in the beginning."""
        ring = self._tails.get(name)
        if ring is not None and not ring.dropped:
            self._put(name, stream.feed(ring.content()))
        self._put(name, stream.flush())
        if ring is not None and ring.dropped:
            self._put_tail(name, ring)

    def _put_tail(self, name: str, ring: _Ring) -> None:
        kept = self._redactor.redact(ring.content()).data
        lead_in = min(_LEAD_IN, len(kept))
        self._new_line()
        self._write(f"[{ring.dropped + lead_in} bytes of {name} left out: over log_bytes_max]\n".encode())
        self._write(kept[lead_in:])

    def _put(self, stream: str, redacted: Redacted) -> None:
        if not redacted.data:
            return
        if stream != self._last_stream:
            self._new_line()
            self._last_stream = stream
        self._write(redacted.data)

    def _new_line(self) -> None:
        if not self._at_line_start:
            self._write(b"\n")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        if data:
            self._at_line_start = data.endswith(b"\n")


class _Ring:
    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self.dropped = 0

    def push(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        while self._bytes - len(self._chunks[0]) >= self._limit:
            gone = len(self._chunks.popleft())
            self._bytes -= gone
            self.dropped += gone

    def content(self) -> bytes:
        return b"".join(self._chunks)
