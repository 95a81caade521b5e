"""How far the gateway has followed, in a small file beside the ledger.

It may be lost or old: then events are sent again, which does no harm. It is never ahead of what was acknowledged.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from recoup.files.folders import make_folder

CURSOR_FILE = "gateway.json"


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    gateway: str
    acknowledged_seq: int = 0
    trouble: str | None = None
    """Why events are not being delivered; None: they are."""
    trouble_since_unix: float | None = None


def read_cursor(folder: Path) -> Cursor | None:
    """None: there is none, or none that can be read."""
    try:
        cursor = msgspec.json.decode((folder / CURSOR_FILE).read_bytes(), type=Cursor)
    except (OSError, msgspec.DecodeError):
        return None
    return cursor if cursor.acknowledged_seq >= 0 else None


def write_cursor(folder: Path, cursor: Cursor) -> None:
    """Whole or not at all. A disk that is full costs a repetition, no more."""
    new = folder / f".{CURSOR_FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        make_folder(folder)
        new.write_bytes(msgspec.json.encode(cursor))
        new.replace(folder / CURSOR_FILE)
