"""Group commit: work that waits shares one transaction; a lone piece of work is committed at once.

Work is committed on the event loop's thread when no other process is in the way. Otherwise one worker thread
waits for the turn and commits, so that another process never blocks the loop; what arrives meanwhile joins.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from recoup.errors import LedgerBusy, LedgerError
from recoup.ledger.holders import lock_holders
from recoup.ledger.outcomes import Outcome, tell
from recoup.ledger.turnstile import Turnstile
from recoup.ledger.writer import Busy, Deed, Job, Writer

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

JOBS_MAX = 512
ALONE_S = 0.01
_RETRY_S = 0.002

T = TypeVar("T")


class Ticket(msgspec.Struct, frozen=True):
    job: Job[Any]
    future: asyncio.Future[Any]


Done = list[tuple[Ticket, Outcome]]


class Commits:
    """The queue before the writer, for one event loop."""

    def __init__(self, path: Path, busy_max_s: float, turn_patience_s: float) -> None:
        self._path = path
        self._busy_max_s = busy_max_s
        self._writer = Writer(path)
        try:
            self._turnstile = Turnstile(path, turn_patience_s)
        except LedgerError:
            self._writer.close()
            raise
        self._waiting: deque[Ticket] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing_on: asyncio.AbstractEventLoop | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._closed = False
        self._turned_s = 0.0

    async def commit(self, job: Job[T]) -> T:
        """The job's value, durable. When the caller is cancelled its work may be done or not."""
        if self._closed:
            raise LedgerError(f"the ledger {self._path} was closed", hint="Open it again.")
        if self._is_alone(self._running_loop()):
            outcome = self._commit_alone(job)
            if outcome is not None:
                if outcome.error:
                    raise outcome.error
                value: T = outcome.value
                return value
        return await self._enqueue(job)

    async def close(self) -> None:
        """What waits is committed first."""
        if self._closed:
            return
        self._closed = True
        if self._flushing_on:
            with contextlib.suppress(LedgerError):
                await self._enqueue(Deed(lambda _: None))
        if self._worker:
            self._worker.shutdown()
        self._writer.close()
        self._turnstile.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Remembered: to ask for it costs a system call each time."""
        if self._loop is None or not self._loop.is_running():
            self._loop = asyncio.get_running_loop()
        return self._loop

    def _is_alone(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Nobody could join this commit: nothing waits here, and nothing else is ready to run on the loop. The loop
        still gets its turn every few milliseconds, for timers and for what arrives from outside."""
        if self._flushing_on is not None or self._waiting or getattr(loop, "_ready", True):
            return False
        return time.monotonic() - self._turned_s < ALONE_S

    def _commit_alone(self, job: Job[Any]) -> Outcome | None:
        """None: another process is in the way."""
        if not self._turnstile.try_enter():
            return None
        try:
            return self._writer.transact([job])[0]
        except Busy:
            return None
        finally:
            self._turnstile.leave()

    def _enqueue(self, job: Job[T]) -> asyncio.Future[T]:
        loop = self._running_loop()
        assert self._flushing_on in (None, loop), "a ledger belongs to one event loop"
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(Ticket(job, future))
        if not self._flushing_on:
            self._flushing_on = loop
            self._flush(loop)
        return future

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        done = self._commit_at_once()
        if done is not None:
            self._deliver(loop, done)
            return
        waiting = loop.run_in_executor(self._waiter(), self._commit_in_turn)
        waiting.add_done_callback(lambda ended: self._deliver(loop, ended.result()))

    def _waiter(self) -> ThreadPoolExecutor:
        """Made when another process is first in the way: most commands meet none."""
        if self._worker is None:
            from concurrent.futures import ThreadPoolExecutor

            self._worker = ThreadPoolExecutor(1, "recoup-ledger")
        return self._worker

    def _deliver(self, loop: asyncio.AbstractEventLoop, done: Done) -> None:
        # One turn of the loop later, so that others run in between. Behind the callers, where there are several: their
        # next ones gather until then. Before a lone caller: its next one need not wait for anybody.
        lone = len(done) == 1 and not self._waiting
        if lone:
            loop.call_soon(self._go_on, loop)
        for ticket, outcome in done:
            tell(ticket.future, outcome)
        if not lone:
            loop.call_soon(self._go_on, loop)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self._turned_s = time.monotonic()
        if self._waiting:
            self._flush(loop)
        else:
            self._flushing_on = None

    def _commit_at_once(self) -> Done | None:
        """None: another process is in the way."""
        if not self._turnstile.try_enter():
            return None
        tickets: list[Ticket] = []
        try:
            return self._transact(tickets)
        except Busy:
            self._waiting.extendleft(reversed(tickets))
            return None
        finally:
            self._turnstile.leave()

    def _commit_in_turn(self) -> Done:
        """In the worker thread."""
        deadline_s = time.monotonic() + self._busy_max_s
        tickets: list[Ticket] = []
        while True:
            entered = self._turnstile.enter()
            try:
                return self._transact(tickets)
            except Busy:
                if time.monotonic() >= deadline_s:
                    return [(ticket, Outcome(error=self._busy())) for ticket in tickets]
            finally:
                if entered:
                    self._turnstile.leave()
            time.sleep(_RETRY_S)

    def _transact(self, tickets: list[Ticket]) -> Done:
        """Of the tickets, and of those that wait: they are added to `tickets`."""
        while self._waiting and len(tickets) < JOBS_MAX:
            tickets.append(self._waiting.popleft())
        wanted = [ticket for ticket in tickets if not ticket.future.cancelled()]
        try:
            outcomes = self._writer.transact([ticket.job for ticket in wanted]) if wanted else []
        except Busy:
            raise
        except BaseException as error:  # noqa: BLE001 - nobody may wait for ever: each caller gets it
            outcomes = [Outcome(error=error) for _ in wanted]
        return list(zip(wanted, outcomes, strict=True))

    def _busy(self) -> LedgerBusy:
        holders = ", ".join(str(pid) for pid in lock_holders(self._path))
        hint = f"Process {holders} holds it: resume or end it." if holders else "Try again a little later."
        return LedgerBusy(f"no turn at the ledger {self._path} within {self._busy_max_s:g} s", hint=hint)
