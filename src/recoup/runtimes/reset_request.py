"""What a step says when it gets no further by itself: a line of JSON into the pipe that RECOUP_RESET names.

It asks and does not decide: the attempt ends as one that failed, and what follows is the kernel's business. The first
request counts.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Literal

import msgspec

from recoup.model.failure import FailureKind
from recoup.model.outcome import Order
from recoup.runtimes.named_pipe import NamedPipe, pipe_path

RESET_VARIABLE: Final = "RECOUP_RESET"
ANSWER_S: Final = 0.5
"""Until the attempt is ended: whoever asked is to hear what was answered, and its agent to write it down."""
_LINE_BYTES_MAX: Final = 8 << 10


class Request(msgspec.Struct, frozen=True):
    """Soft: a fresh process. Hard: a fresh workspace, too."""

    kind: Literal["soft", "hard"]
    reason: str
    """Raw, and whole: it is cut where it has been redacted."""

    @property
    def failure(self) -> FailureKind:
        return FailureKind.HARD_RESET_REQUESTED if self.kind == "hard" else FailureKind.RESET_REQUESTED


class ResetPipe:
    """Where a step may ask. `stop` is set when the driver wants the attempt to end, or the step has asked for it."""

    def __init__(self, order: Order, told: asyncio.Event) -> None:
        self.stop = asyncio.Event()
        self.request: Request | None = None
        self._loop = asyncio.get_running_loop()
        self._told = told
        self._passing = self._loop.create_task(self._pass_on())
        self._timer: asyncio.TimerHandle | None = None
        self._line = b""
        try:
            self._pipe: NamedPipe | None = NamedPipe(pipe_path(order, "reset"), self._take)
        except OSError:
            self._pipe = None

    def __enter__(self) -> ResetPipe:
        self.is_told()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._timer is not None:
            self._timer.cancel()
        self._passing.cancel()

    @property
    def path(self) -> str:
        return str(self._pipe.path) if self._pipe is not None else "/dev/null"

    def drain(self) -> None:
        """An attempt may have asked and ended by itself."""
        if self._pipe is not None:
            self._pipe.drain()

    def is_told(self) -> bool:
        """Whether the driver wants the end; from then on `stop` says so, too, and not a turn later."""
        if self._told.is_set():
            self.stop.set()
        return self._told.is_set()

    async def _pass_on(self) -> None:
        await self._told.wait()
        self.stop.set()

    def _take(self, chunk: bytes) -> None:
        if self.request is not None:
            return
        *lines, rest = (self._line + chunk).split(b"\n")
        self._line = rest[: _LINE_BYTES_MAX + 1]
        self.request = next((asked for line in lines if (asked := request_in(line))), None)
        if self.request is not None:
            self._timer = self._loop.call_later(ANSWER_S, self.stop.set)


def request_in(line: bytes) -> Request | None:
    """None: it is none, and nothing follows from it."""
    if len(line) > _LINE_BYTES_MAX:
        return None
    try:
        return msgspec.json.decode(line, type=Request)
    except msgspec.DecodeError:
        return None
