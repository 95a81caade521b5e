"""Pieces of a log, in whole characters."""

from __future__ import annotations

from pathlib import Path
from typing import Final

LOG_BYTES_MAX: Final = 256_000


def log_piece(path: Path, offset: int, limit: int) -> tuple[int, bytes]:
    """From there, whole characters; from the beginning where the log is shorter than that: it was begun anew."""
    try:
        with path.open("rb") as file:
            begin = offset if offset <= path.stat().st_size else 0
            file.seek(begin)
            return begin, whole(file.read(limit))
    except FileNotFoundError:
        return offset, b""


def whole(raw: bytes) -> bytes:
    """Without the beginning of a character whose end has not come yet."""
    for back in range(1, min(4, len(raw)) + 1):
        lead = raw[-back]
        if lead & 0xC0 == 0x80:
            continue
        length = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        return raw[:-back] if length > back else raw
    return raw
