"""A named pipe from a step to its driver. What goes through it is never on a disk, even if both are killed."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from recoup.model.outcome import Order

_READ_BYTES_MAX = 64 << 10
_DRAINS_MAX = 64
"""Four times what a pipe can hold: somebody who goes on writing is not waited for."""


def pipe_path(order: Order, suffix: str) -> Path:
    """Beside the file that the attempt may write its outputs into, which is private. Raises OSError without one.

    A new name each time: a driver that was frozen and replaced may make the pipes of an attempt that its heir performs.
    """
    output = order.env.get("RECOUP_OUTPUT")
    if not output:
        raise FileNotFoundError("the attempt has no private folder (RECOUP_OUTPUT)")
    return Path(f"{output}.{secrets.token_hex(4)}.{suffix}")


class NamedPipe:
    """Open in both directions here, so that no writer ever waits for a reader; drained as things come.

    Raises OSError.
    """

    def __init__(self, path: Path, take: Callable[[bytes], None]) -> None:
        self.path = path
        self._take = take
        self._loop = asyncio.get_running_loop()
        os.mkfifo(path, 0o600)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._loop.add_reader(self._fd, self._read)

    def __enter__(self) -> NamedPipe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def drain(self) -> None:
        """Take what is there. After the last writer has ended that is all there will ever be."""
        for _ in range(_DRAINS_MAX):
            if not self._read():
                return

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        with suppress(OSError):
            self.path.unlink()

    def _read(self) -> bool:
        try:
            chunk = os.read(self._fd, _READ_BYTES_MAX)
        except BlockingIOError:
            return False
        self._take(chunk)
        return bool(chunk)
