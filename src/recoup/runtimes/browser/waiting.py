"""Browsers that stay open while their runs wait for a person: for how long, and how many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class _Wait:
    epoch: int
    timer: asyncio.TimerHandle


class WaitingBrowsers:
    """The runs whose browser stays open, the longest waiting first. `close` is called when the time of one is over."""

    def __init__(self, close: Callable[[str], Awaitable[None]]) -> None:
        self._close = close
        self._waits: dict[str, _Wait] = {}
        self._closing: set[asyncio.Future[None]] = set()

    @property
    def epochs(self) -> Mapping[str, int]:
        """The epoch of the last driver, by run."""
        return {run_id: wait.epoch for run_id, wait in self._waits.items()}

    def add(self, run_id: str, epoch: int, seconds: float) -> None:
        self.forget(run_id)
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, run_id)
        self._waits[run_id] = _Wait(epoch, timer)

    def forget(self, run_id: str) -> int | None:
        """The epoch of its last driver; None: it does not wait."""
        wait = self._waits.pop(run_id, None)
        if wait is None:
            return None
        wait.timer.cancel()
        return wait.epoch

    def beyond(self, most: int) -> tuple[str, ...]:
        """Those that are too many, the longest waiting first."""
        return tuple(self._waits)[: max(0, len(self._waits) - most)]

    def _expire(self, run_id: str) -> None:
        closing = asyncio.ensure_future(self._close(run_id))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
