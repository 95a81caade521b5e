"""Notices that a process tree makes no progress: by timestamps and one timer, however much it prints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

ACTIVITY_LOOKS: Final = 8
"""How often the tree's activity is looked at per idle time: silence is noticed an eighth too late at most."""
ANSWER_S: Final = 1.0


class Idle:
    """The time since the last progress, and what happens when it gets too long.

    `ask`, if given, asks for a mark of the tree's activity, to be given to `answer`; a new mark is progress.
    """

    def __init__(
        self, limit_s: float | None, expire: Callable[[], None], ask: Callable[[], None] | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit_s = limit_s
        self._expire = expire
        self._ask = ask
        self._mark = ""
        self._last_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    def progress(self) -> None:
        self._last_s = self._loop.time()

    def quiet_s(self) -> float:
        return self._loop.time() - self._last_s

    def answer(self, mark: str) -> None:
        if mark != self._mark:
            self._mark = mark
            self.progress()
        elif self._limit_s is not None and self.quiet_s() >= self._limit_s:
            self._give_up()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._limit_s is None:
            return
        wait_s = self._limit_s / ACTIVITY_LOOKS if self._ask else self._limit_s - self.quiet_s()
        self._timer = self._loop.call_later(wait_s, self._look, self._limit_s)

    def _look(self, limit_s: float) -> None:
        if self.quiet_s() >= limit_s + (ANSWER_S if self._ask else 0):
            self._give_up()
            return
        if self._ask:
            self._ask()
        self._arm()

    def _give_up(self) -> None:
        self.close()
        self._expire()
