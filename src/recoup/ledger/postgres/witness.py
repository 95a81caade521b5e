"""What the processes of one home had acknowledged last, in files outside the database.

A server that loses commits cannot say so. These files can: each names one event that the server has acknowledged. Where
that event is missing, everything acknowledged after it is missing, too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec

from recoup.durable import write_whole

FILES_MAX = 16
"""Kept of processes that are gone. The newest one that is confirmed speaks for all before it."""
_SUFFIX = ".json"


class Acknowledged(msgspec.Struct, frozen=True, rename="camel"):
    """One event that the server has confirmed to be durable."""

    ledger_id: str
    """Of the ledger that it is in: another database knows nothing of it."""
    stream: str
    seq: int
    wall_us: int
    boot_us: int
    boot_id: str
    number: int | None = None
    """In the order of all events. Earlier versions did not write it."""
    start: str | None = None
    """Of the server, when it confirmed the event."""


_decode = msgspec.json.Decoder(Acknowledged).decode
_encode = msgspec.json.Encoder().encode


class Witness:
    """The folder, and this process's own file in it. Without a folder nothing outlives the process."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        self._written: Acknowledged | None = None

    def write(self, last: Acknowledged, *, durable: bool) -> None:
        """Raises OSError."""
        if self._folder is None or (last == self._written and not durable):
            return
        write_whole(self._folder / self._name, _encode(last), durable=durable)
        self._written = last

    def read(self, ledger_id: str) -> Iterator[tuple[Path, Acknowledged]]:
        """What all processes of this home have written about this ledger. A damaged file says nothing."""
        for path in self._files():
            with contextlib.suppress(OSError, msgspec.DecodeError):
                last = _decode(path.read_bytes())
                if last.ledger_id == ledger_id:
                    yield path, last

    def tidy(self) -> None:
        for path in self._files()[FILES_MAX:]:
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        """The newest first."""
        if self._folder is None or not self._folder.is_dir():
            return []
        times = {}
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                times[path] = path.stat().st_mtime_ns
        return sorted(times, key=lambda path: times[path], reverse=True)
