"""Bytes that arrive in pieces, as whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LINE_BYTES_MAX: Final = 8 << 20
"""A tool's result with a picture in it takes a few megabytes."""


class Lines:
    """Cuts a stream at its line ends. Of a line over the limit only the fact is told: None stands in its place."""

    def __init__(self, limit_bytes: int = LINE_BYTES_MAX) -> None:
        self._limit = limit_bytes
        self._rest = bytearray()
        self._overlong = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._take(piece)
            yield self.flush()
        self._take(rest)

    def flush(self) -> bytes | None:
        """The line so far, as if it had ended here."""
        line = None if self._overlong else bytes(self._rest)
        self._rest.clear()
        self._overlong = False
        return line

    @property
    def begun(self) -> bytes:
        """How the unfinished line begins; empty when none is."""
        return b"?" if self._overlong else bytes(self._rest[:16])

    def _take(self, piece: bytes) -> None:
        if self._overlong or len(self._rest) + len(piece) > self._limit:
            self._overlong = True
            self._rest.clear()
        else:
            self._rest += piece
