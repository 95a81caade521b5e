"""Keeps one process tree on Linux, seen from the driver: from its keeper's start to its proven end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from msgspec.structs import replace

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.model.policy import IdleBy
from recoup.model.process import Ended, EndedBy, ProcessSpec
from recoup.ports import Lifeline, OutputSink, Pulse
from recoup.processes.drain import Drain
from recoup.processes.idle import Idle
from recoup.processes.keeper_main import UNKILLABLE_S
from recoup.processes.keeper_process import Hold, outlast, start_keeper
from recoup.processes.memory import kills_for_memory, nearly_all_memory, with_reason
from recoup.processes.shared_process import SharedStart, anchor_shell
from recoup.processes.sweep import cannot_be_killed

SILENCE_S: Final = UNKILLABLE_S + 5
"""How long after the grace a keeper may take to report the end of its tree; then it is killed itself."""
AWAKE_S: Final = 0.1
"""Between two looks whether a keeper that was told to stop its tree has been stopped itself."""
FROZEN_MAX: Final = 10
"""How often it may be found so."""
DRAIN_S: Final = 2.0
"""How long the pipes may stay open when the tree is gone: somebody outside may have been handed one."""
_ERRNO: Final = re.compile(r"E[0-9]{1,6}")
KEEPER_LOST: Final = "the keeper of the process tree was killed"


class LinuxKeeper:
    """One keeper process per tree, or as `start` has it. Needs no root and no namespace. Other systems need another."""

    def __init__(self, start: Callable[[ProcessSpec], Hold] = start_keeper) -> None:
        self._start = start
        if sys.platform != "linux":
            hint = "Run Recoup on Linux: its keeper needs child subreapers and pidfds."
            raise KeeperError(f"process trees cannot be kept on {sys.platform}", hint=hint)
        _need_pidfds()

    async def keep(
        self,
        spec: ProcessSpec,
        *,
        before_exec: Callable[[ProcessIdentity], Awaitable[None]],
        lifeline: Lifeline,
        output: OutputSink,
        stop: asyncio.Event,
        pulse: Pulse | None = None,
    ) -> Ended:
        process = self._start(spec)
        try:
            identity = await process.ready()
            with _tied(process, lifeline):
                if not stop.is_set():
                    await before_exec(identity)
                if stop.is_set():
                    return Ended(ended_by=EndedBy.STOPPED)
                kills = kills_for_memory()
                return with_reason(await _Watch(process, spec, output).run(lifeline, stop, pulse), kills)
        finally:
            await process.release()


@contextmanager
def _tied(process: Hold, lifeline: Lifeline) -> Iterator[None]:
    """Before anybody is told of the keeper: a driver that is frozen then, and never says go, must not leave one that
    waits for ever. Whoever replaces the driver waits for its end."""

    def extend(deadline_boot_s: float) -> None:
        process.wake()  # a stopped keeper watches over nothing: what it keeps may have stopped it
        process.say(f"deadline {deadline_boot_s!r}")

    detach = lifeline.attach(extend)
    process.say(f"deadline {lifeline.deadline_boot_s!r}")
    try:
        yield
    finally:
        detach()


def shared_keeper() -> LinuxKeeper:
    """One keeper process for all trees, for those who hold hundreds; one per tree where no shell can be an anchor."""
    shell = anchor_shell()
    return LinuxKeeper(SharedStart(shell)) if shell else LinuxKeeper()


class _Watch:
    """A launched tree: what its keeper says, what it prints, and how long it takes."""

    def __init__(self, process: Hold, spec: ProcessSpec, output: OutputSink) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._spec = spec
        self._output = output
        self._over: asyncio.Future[Ended] = self._loop.create_future()
        self._reason: EndedBy | None = None
        self._session: int | None = None
        self._limits = _limits_of(spec)
        self._seen = 0
        self._lost = False
        self._problem: Exception | None = None
        self._started_s = self._loop.time()
        self._idle = Idle(spec.idle_timeout_s, partial(self._stop, EndedBy.IDLE_TIMEOUT), self._ask())
        self._timers = [self._loop.call_later(spec.wall_timeout_s, self._stop, EndedBy.WALL_TIMEOUT)]
        self._drains = [
            Drain(process.stdout, partial(self._take_output, "stdout")),
            Drain(process.stderr, partial(self._take_output, "stderr")),
        ]

    async def run(self, lifeline: Lifeline, stop: asyncio.Event, pulse: Pulse | None) -> Ended:
        with ExitStack() as undo:
            undo.callback(self._close)
            if pulse is not None:
                undo.callback(pulse.attach(self._idle.progress))
            self._heed(stop, undo)
            self._process.hear(self._take_message)
            self._limit()
            self._process.say(f"go {lifeline.deadline_boot_s!r}")
            cancelled = await outlast(self._over, partial(self._stop, EndedBy.STOPPED))
            ended, cancelled_later = await self._clear_up(self._over.result())
        if cancelled or cancelled_later:
            raise asyncio.CancelledError from self._problem
        if self._problem is not None:
            raise self._problem
        return ended

    def _limit(self) -> None:
        if any(self._limits.values()):
            processes, memory = self._limits[EndedBy.PROCESSES_MAX], self._limits[EndedBy.MEMORY_MAX]
            self._process.say(f"limits {processes} {memory}")

    def _heed(self, stop: asyncio.Event, undo: ExitStack) -> None:
        stopped = self._loop.create_task(stop.wait())
        stopped.add_done_callback(lambda task: None if task.cancelled() else self._stop(EndedBy.STOPPED))
        undo.callback(stopped.cancel)

    def _ask(self) -> Callable[[], None] | None:
        by_activity = self._spec.idle_by is IdleBy.ACTIVITY
        return partial(self._process.say, "activity") if by_activity else None

    def _take_output(self, name: str, chunk: bytes) -> None:
        if self._problem is not None:
            return
        try:
            if self._output(name, chunk) is not False:
                self._idle.progress()
        except Exception as error:  # noqa: BLE001 raised again when the tree is gone
            self._problem = error
            self._stop(EndedBy.STOPPED)

    def _take_message(self, words: list[str] | None) -> None:
        match words:
            case ["started", pid]:
                self._session = int(pid)
            case ["activity", mark]:
                self._idle.answer(mark)
            case ["over", seen]:
                self._seen = int(seen)
            case ["unkillable", *pids]:
                self._give_up(pids)
            case ["refused", *reason]:
                self._conclude(_refused(reason))
            case ["ended", why, code, cpu_ms, killed]:
                self._conclude(self._over_limit(_ended(self._ended_by(why), code, int(cpu_ms), int(killed))))
            case None if not self._over.done():
                self._lost = True
                by = self._reason or EndedBy.EXIT
                self._conclude(Ended(ended_by=by, signal=signal.SIGKILL, detail=KEEPER_LOST))

    def _stop(self, reason: EndedBy) -> None:
        if self._reason is not None or self._over.done():
            return
        self._reason = reason
        self._process.say(f"stop {self._spec.grace_s!r}")
        self._timers.append(self._loop.call_later(self._spec.grace_s + SILENCE_S, self._process.kill))
        self._keep_awake(FROZEN_MAX)

    def _keep_awake(self, times_left: int) -> None:
        """A command may stop its keeper again and again: then the keeper goes, and what it leaves is swept up here."""
        if self._over.done():
            return
        if self._process.wake():
            times_left -= 1
        if times_left <= 0:
            self._process.kill()
            return
        self._timers.append(self._loop.call_later(AWAKE_S, self._keep_awake, times_left))

    def _ended_by(self, why: str) -> EndedBy:
        """The keeper knows whether the command ended by itself; who stopped it, only the driver does."""
        return (self._reason or EndedBy.STOPPED) if why == "stopped" else EndedBy(why)

    def _over_limit(self, ended: Ended) -> Ended:
        limit = self._limits.get(ended.ended_by)
        return ended if limit is None else replace(ended, seen=self._seen, limit=limit)

    def _give_up(self, pids: list[str]) -> None:
        self._process.forsaken = True
        self._problem = cannot_be_killed(pids)
        self._conclude(Ended(ended_by=self._reason or EndedBy.EXIT))

    def _conclude(self, ended: Ended) -> None:
        if self._over.done():
            return
        duration_s, idle_s = self._loop.time() - self._started_s, self._idle.quiet_s()
        times = {"duration_ms": round(1000 * duration_s), "idle_ms": round(1000 * idle_s)}
        self._over.set_result(replace(ended, **times))

    async def _clear_up(self, ended: Ended) -> tuple[Ended, bool]:
        """Read the pipes to their end, after a sweep if the keeper was lost; also: cancelled meanwhile?"""
        killed, cancelled = await self._sweep() if self._lost else (ended.killed, False)
        wait_s = 0 if self._process.forsaken else DRAIN_S
        self._timers += [self._loop.call_later(wait_s, drain.close) for drain in self._drains]
        for drain in self._drains:
            cancelled |= await outlast(drain.ended)
        return replace(ended, killed=killed), cancelled

    async def _sweep(self) -> tuple[int, bool]:
        sweeping = self._loop.create_task(self._process.sweep(self._session))
        cancelled = await outlast(sweeping)
        try:
            return sweeping.result(), cancelled
        except KeeperError as error:
            self._problem = error
            return 0, cancelled

    def _close(self) -> None:
        self._idle.close()
        for timer in self._timers:
            timer.cancel()
        for drain in self._drains:
            drain.close()


def _refused(reason: list[str]) -> Ended:
    """As the keeper writes it: `E5 Input/output error: bash`, or words without a number."""
    number, *words = reason if _ERRNO.fullmatch(reason[0] if reason else "") else ["E0", *reason]
    return Ended(ended_by=EndedBy.SPAWN_FAILED, detail=" ".join(words), errno=int(number[1:]))


def _ended(ended_by: EndedBy, code: str, cpu_ms: int, killed: int) -> Ended:
    """`code` as the keeper writes it: an exit code, a negative signal, or a dash if nothing was begun."""
    status = None if code == "-" else int(code)
    signum = -status if status is not None and status < 0 else None
    exit_code = None if signum else status
    return Ended(ended_by=ended_by, exit_code=exit_code, signal=signum, cpu_ms=cpu_ms, killed=killed)


def _limits_of(spec: ProcessSpec) -> dict[EndedBy, int]:
    """0: none."""
    memory = spec.memory_max_bytes
    return {
        EndedBy.PROCESSES_MAX: spec.processes_max or 0,
        EndedBy.MEMORY_MAX: nearly_all_memory() if memory == 0 else memory or 0,
    }


def _need_pidfds() -> None:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        hint = "Linux 5.3 or newer is needed, and no sandbox that forbids pidfd_open."
        raise KeeperError(f"process trees cannot be kept here: {error}", hint=hint) from error
