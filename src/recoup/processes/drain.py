"""Reads a pipe to its end, whatever comes, without keeping the event loop from anything else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

READ_BYTES_MAX: Final = 256 << 10


class Drain:
    """One pipe on its way into a sink; `ended` is done when its last writer is gone."""

    def __init__(self, fd: int, sink: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(fd, self._read)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        if not self.ended.done():
            self.ended.set_result(None)

    def _read(self) -> None:
        try:
            chunk = os.read(self._fd, READ_BYTES_MAX)
        except BlockingIOError:
            return
        if chunk:
            self._sink(chunk)
        else:
            self.close()
