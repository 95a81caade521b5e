"""What is kept of output that may be endless: its beginning and its end."""

from __future__ import annotations

from collections import deque

from recoup.model.outcome import Captured


class Capture:
    """Half of the limit for the beginning, half for the end. Memory stays within the limit plus one chunk."""

    def __init__(self, limit_bytes: int) -> None:
        self._half = max(1, limit_bytes // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._total = 0

    def feed(self, chunk: bytes) -> None:
        self._total += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._push(chunk)

    def captured(self) -> Captured:
        return Captured(bytes(self._head), b"".join(self._tail)[-self._half :], self._total)

    def _push(self, chunk: bytes) -> None:
        self._tail.append(chunk)
        self._tail_bytes += len(chunk)
        while self._tail_bytes - len(self._tail[0]) >= self._half:
            self._tail_bytes -= len(self._tail.popleft())
